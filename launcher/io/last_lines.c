#include "launcher/io/last_lines.h"

#include <assert.h>
#include <string.h>

struct slot {
    char *text;
    size_t len, cap;
};

struct tail {
    struct slot *slots; /* a ring; NULL until the first line */
    int max, count, next;
};

struct tail *tail_new(int lines_max)
{
    assert(lines_max > 0);
    struct tail *t = xzalloc(sizeof *t);
    t->max = lines_max;
    return t;
}

void tail_free(struct tail *t)
{
    if (!t)
        return;
    for (int i = 0; t->slots && i < t->max; i++)
        free(t->slots[i].text);
    free(t->slots);
    free(t);
}

void tail_push(struct tail *t, const char *line, size_t len)
{
    if (!t->slots)
        t->slots = xcalloc((size_t)t->max, sizeof *t->slots);
    struct slot *s = &t->slots[t->next];
    if (len > TAIL_LINE_MAX)
        len = TAIL_LINE_MAX;
    if (s->cap < len + 1) {
        s->cap = len + 1 < 128 ? 128 : TAIL_LINE_MAX + 1;
        s->text = xrealloc(s->text, s->cap, 1);
    }
    if (len)
        memcpy(s->text, line, len);
    s->text[len] = '\0';
    s->len = len;
    t->next = (t->next + 1) % t->max;
    t->count += t->count < t->max;
}

int tail_count(const struct tail *t)
{
    return t->count;
}

const char *tail_get(const struct tail *t, int i, size_t *len)
{
    if (i < 0 || i >= t->count)
        return NULL;
    const struct slot *s = &t->slots[(t->next - t->count + i + t->max) % t->max];
    if (len)
        *len = s->len;
    return s->text;
}
