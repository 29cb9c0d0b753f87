/* strbuf - growing string. strbuf_str() is always NUL-terminated and never NULL. A zero-initialised
 * buffer is empty:
 *
 *     AUTO(strbuf) struct strbuf b = {0};
 *     strbuf_printf(&b, "rank %d", n);
 *     puts(strbuf_str(&b)); */
#pragma once

#include <stddef.h>

struct strbuf {
    char *data; /* NULL until the first write */
    size_t len; /* without the NUL */
    size_t cap;
};

/* Append to the string. The appended bytes must not be part of `b`. */
void strbuf_add(struct strbuf *b, const void *bytes, size_t len);
void strbuf_puts(struct strbuf *b, const char *s);
void strbuf_putc(struct strbuf *b, char c);
void strbuf_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends the lines of a text, each after four spaces. */
void strbuf_indent(struct strbuf *b, const char *text);
/* Makes room for `more` bytes after the string, which the caller writes and counts in `len`. */
void strbuf_reserve(struct strbuf *b, size_t more);
/* Empties the string; the memory stays allocated. */
void strbuf_reset(struct strbuf *b);
/* Removes the first n bytes; the string must have at least n bytes. */
void strbuf_consume(struct strbuf *b, size_t n);
/* Returns the string, which is borrowed and valid until the next change. */
const char *strbuf_str(const struct strbuf *b);
/* Returns the string, which the caller frees, and leaves the buffer empty. */
char *strbuf_take(struct strbuf *b);
void strbuf_free(struct strbuf *b);

static inline void auto_strbuf(struct strbuf *b)
{
    strbuf_free(b);
}
