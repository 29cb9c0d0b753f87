/* strbuf - a string that grows. Always NUL-terminated, never NULL, zero-initialised is empty:
 *
 *     AUTO(strbuf) struct strbuf b = {0};
 *     strbuf_printf(&b, "%d ranks", n);
 *     puts(strbuf_str(&b)); */
#ifndef DROVER_STRBUF_H
#define DROVER_STRBUF_H

#include <stddef.h>

struct strbuf {
    char *data; /* NULL while empty and never written */
    size_t len; /* without the NUL */
    size_t cap;
};

/* What is added must not be part of `b` itself. */
void strbuf_add(struct strbuf *b, const void *bytes, size_t len);
void strbuf_puts(struct strbuf *b, const char *s);
void strbuf_putc(struct strbuf *b, char c);
void strbuf_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Empty again; the memory stays. */
void strbuf_reset(struct strbuf *b);
/* Drops the first n bytes; there must be as many. */
void strbuf_consume(struct strbuf *b, size_t n);
/* Borrowed until the next change. */
const char *strbuf_str(const struct strbuf *b);
/* Hands the string over (to be freed by the caller) and leaves the buffer empty. */
char *strbuf_take(struct strbuf *b);
void strbuf_free(struct strbuf *b);

static inline void auto_strbuf(struct strbuf *b)
{
    strbuf_free(b);
}

#endif
