#include "collectives/bench/analysis/traffic.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/plural.h"

enum { ALIGNED = 16 };

static size_t aligned(double bytes)
{
    return (size_t)bytes / ALIGNED * ALIGNED;
}

/* Appends the numbers of a line to the matrix, which has *n numbers so far. Returns how many it has
 * appended. */
static int read_line(struct traffic *t, const char *line, double scale, size_t *n, struct err *e)
{
    int columns = 0;
    for (const char *at = line + strspn(line, " \t\r"); *at; at += strspn(at, " \t\r")) {
        char *end = NULL;
        double bytes = strtod(at, &end) * scale;
        bool separated = end > at && (*end == '\0' || strchr(" \t\r", *end));
        if (!separated || !(bytes >= 0 && bytes < (double)(SIZE_MAX / 4)))
            return err_set(e, -EINVAL, "row %d, column %d: '%.*s' is not a number of bytes",
                           t->size + 1, columns + 1, (int)strcspn(at, " \t\r"), at);
        t->matrix = xrealloc(t->matrix, *n + 1, sizeof *t->matrix);
        t->matrix[(*n)++] = aligned(bytes);
        columns++;
        at = end;
    }
    return columns;
}

int traffic_read(struct traffic *out, const char *text, double scale, struct err *e)
{
    struct traffic t = {0};
    AUTO(free) char *lines = xstrdup(text);
    size_t n = 0;
    int width = 0, rc = 0;
    for (char *at = lines, *line; rc >= 0 && (line = strsep(&at, "\n"));) {
        rc = read_line(&t, line, scale, &n, e);
        width = width ? width : rc;
        if (rc > 0 && rc != width)
            rc = err_set(e, -EINVAL, "row %d has %d column%s, the first one has %d", t.size + 1, rc,
                         plural_s(rc), width);
        t.size += rc > 0;
    }
    if (rc >= 0 && (t.size == 0 || t.size != width))
        rc = err_set(e, -EINVAL, "the matrix has %d row%s and %d column%s", t.size,
                     plural_s(t.size), width, plural_s(width));
    if (rc < 0) {
        traffic_free(&t);
        return rc;
    }
    *out = t;
    return 0;
}

void traffic_free(struct traffic *t)
{
    if (!t)
        return;
    free(t->matrix);
    t->matrix = NULL;
}

size_t traffic_count(const struct traffic_call *c, int from, int to)
{
    const struct traffic *t = c->traffic;
    size_t n = (size_t)c->ranks;
    if (t->matrix)
        return t->matrix[(size_t)from * (size_t)t->size + (size_t)to] / c->element;
    double total = (double)(c->count * n * c->element);
    if (n == 1)
        return aligned(total) / c->element;
    size_t distance = (size_t)(to - from + c->ranks) % n;
    double uniform = total / (double)n;
    double distant = (double)distance * total / (double)(n * (n - 1) / 2);
    return aligned((1 - t->spread) * uniform + t->spread * distant) / c->element;
}

size_t traffic_send_start(const struct traffic_call *c, int from, int to)
{
    size_t start = 0;
    for (int r = 0; r < to; r++)
        start += traffic_count(c, from, r);
    return start;
}

size_t traffic_recv_start(const struct traffic_call *c, int to, int from)
{
    size_t start = 0;
    for (int r = 0; r < from; r++)
        start += traffic_count(c, r, to);
    return start;
}

size_t traffic_max_bytes(const struct traffic_call *c)
{
    size_t most = 0;
    for (int r = 0; r < c->ranks; r++) {
        size_t sent = traffic_send_start(c, r, c->ranks);
        size_t received = traffic_recv_start(c, r, c->ranks);
        most = sent > most ? sent : most;
        most = received > most ? received : most;
        if (!c->traffic->matrix)
            break; /* the same for every rank */
    }
    return most * c->element;
}
