#include "common/strbuf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

void strbuf_reserve(struct strbuf *b, size_t more)
{
    size_t need;
    if (__builtin_add_overflow(b->len + 1, more, &need))
        need = SIZE_MAX; /* no node has this much memory: the allocator aborts */
    if (need <= b->cap)
        return;
    size_t cap = b->cap > SIZE_MAX / 2 ? need : 2 * b->cap;
    cap = cap > 64 ? cap : 64;
    b->cap = cap > need ? cap : need;
    b->data = xrealloc(b->data, b->cap, 1);
}

void strbuf_add(struct strbuf *b, const void *bytes, size_t len)
{
    strbuf_reserve(b, len);
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void strbuf_puts(struct strbuf *b, const char *s)
{
    strbuf_add(b, s, strlen(s));
}

void strbuf_putc(struct strbuf *b, char c)
{
    strbuf_add(b, &c, 1);
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
    strbuf_reserve(b, 0);
    va_list ap, copy;
    va_start(ap, fmt);
    va_copy(copy, ap);
    size_t space = b->cap - b->len;
    int n = vsnprintf(b->data + b->len, space, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n >= space) {
        strbuf_reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, copy);
    }
    va_end(copy);
    b->len += n > 0 ? (size_t)n : 0;
    b->data[b->len] = '\0';
}

void strbuf_reset(struct strbuf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void strbuf_indent(struct strbuf *b, const char *text)
{
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        strbuf_printf(b, "    %.*s\n", (int)len, p);
        p += len + (p[len] != '\0');
    }
}

void strbuf_consume(struct strbuf *b, size_t n)
{
    assert(n <= b->len);
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

const char *strbuf_str(const struct strbuf *b)
{
    return b->data ? b->data : "";
}

char *strbuf_take(struct strbuf *b)
{
    strbuf_reserve(b, 0);
    b->data[b->len] = '\0';
    char *s = b->data;
    *b = (struct strbuf){0};
    return s;
}

void strbuf_free(struct strbuf *b)
{
    free(b->data);
    *b = (struct strbuf){0};
}
