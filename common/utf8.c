#include "common/utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/mem.h"

/* RFC 3629, table 3-7 of Unicode: no overlong forms, no surrogates. */
size_t utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    size_t more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[0] < 0xc2 || s[0] > 0xf4 || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i <= more; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return more + 1;
}

bool utf8_valid(const char *text)
{
    size_t len;
    while (*text && (len = utf8_length(text)))
        text += len;
    return !*text;
}

void utf8_add(struct strbuf *b, const char *text)
{
    while (*text) {
        size_t len = utf8_length(text);
        strbuf_add(b, len ? text : "?", len ? len : 1);
        text += len ? len : 1;
    }
}

/* Unicode's category Cc: C0, DEL, and C1, whose first byte in UTF-8 is 0xc2. */
static bool is_control(const char *s, size_t len)
{
    unsigned char c = (unsigned char)s[0];
    return c < ' ' || c == 0x7f || (len == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0);
}

void utf8_add_line(struct strbuf *b, const char *text)
{
    static const char escaped[] = "\n\r\t", letters[] = "nrt";
    while (*text) {
        size_t len = utf8_length(text);
        const char *at = strchr(escaped, *text);
        if (at)
            strbuf_printf(b, "\\%c", letters[at - escaped]);
        else if (len == 0 || is_control(text, len))
            strbuf_printf(b, "\\x%02x", (unsigned char)text[len == 2]);
        else
            strbuf_add(b, text, len);
        text += len ? len : 1;
    }
}

static void add_quoted(struct strbuf *b, const char *word)
{
    AUTO(strbuf) struct strbuf line = {0};
    utf8_add_line(&line, word);
    bool escaped = strcmp(strbuf_str(&line), word) != 0;
    strbuf_puts(b, escaped ? "$'" : "'");
    for (const char *c = escaped ? strbuf_str(&line) : word; *c; c++)
        if (*c == '\'')
            strbuf_puts(b, escaped ? "\\'" : "'\\''");
        else
            strbuf_putc(b, *c);
    strbuf_putc(b, '\'');
}

void utf8_add_shell_word(struct strbuf *b, const char *text)
{
    bool plain = *text;
    for (const char *c = text; *c; c++)
        plain = plain && (isalnum((unsigned char)*c) || strchr("_-+=./,:@%", *c));
    if (plain)
        strbuf_puts(b, text);
    else
        add_quoted(b, text);
}
