#include "launcher/io/last_lines.h"

#include <assert.h>
#include <string.h>

struct line {
    char *text;
    size_t len, cap;
};

struct last_lines {
    struct line *lines; /* a ring; NULL until the first line */
    int max, count, next;
};

struct last_lines *last_lines_new(int lines_max)
{
    assert(lines_max > 0);
    struct last_lines *t = xzalloc(sizeof *t);
    t->max = lines_max;
    return t;
}

void last_lines_free(struct last_lines *t)
{
    if (!t)
        return;
    for (int i = 0; t->lines && i < t->max; i++)
        free(t->lines[i].text);
    free(t->lines);
    free(t);
}

void last_lines_push(struct last_lines *t, const char *line, size_t len)
{
    if (!t->lines)
        t->lines = xcalloc((size_t)t->max, sizeof *t->lines);
    struct line *s = &t->lines[t->next];
    if (len > LAST_LINES_LINE_MAX)
        len = LAST_LINES_LINE_MAX;
    if (s->cap < len + 1) {
        s->cap = len + 1 < 128 ? 128 : LAST_LINES_LINE_MAX + 1;
        s->text = xrealloc(s->text, s->cap, 1);
    }
    if (len)
        memcpy(s->text, line, len);
    s->text[len] = '\0';
    s->len = len;
    t->next = (t->next + 1) % t->max;
    t->count += t->count < t->max;
}

int last_lines_count(const struct last_lines *t)
{
    return t->count;
}

const char *last_lines_get(const struct last_lines *t, int i, size_t *len)
{
    if (i < 0 || i >= t->count)
        return NULL;
    const struct line *s = &t->lines[(t->next - t->count + i + t->max) % t->max];
    if (len)
        *len = s->len;
    return s->text;
}

void last_lines_copy(char ***out, const struct last_lines *t)
{
    for (int i = 0; i < t->count; i++)
        strv_push(out, xstrdup(last_lines_get(t, i, NULL)));
}
