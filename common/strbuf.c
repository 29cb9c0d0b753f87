#include "common/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

static void reserve(struct strbuf *b, size_t more)
{
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap * 2 : 64;
    while (cap < need)
        cap *= 2;
    b->data = xrealloc(b->data, cap, 1);
    b->cap = cap;
}

void strbuf_add(struct strbuf *b, const void *bytes, size_t len)
{
    reserve(b, len);
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
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void strbuf_reset(struct strbuf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void strbuf_consume(struct strbuf *b, size_t n)
{
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
    reserve(b, 0);
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
