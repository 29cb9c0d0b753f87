#include "launcher/report/report_text.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/utf8.h"

/* U+202A to U+202E and U+2066 to U+2069: text that is shown in another order than it is stored. */
static bool changes_direction(const unsigned char *s, size_t len)
{
    return len == 3 && s[0] == 0xe2 &&
           ((s[1] == 0x80 && s[2] >= 0xaa && s[2] <= 0xae) ||
            (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9));
}

/* U+0000 to U+001F, U+007F, and U+0080 to U+009F. */
static bool is_control(const unsigned char *s, size_t len)
{
    return len == 1 ? (s[0] < ' ' && s[0] != '\n' && s[0] != '\t') || s[0] == 0x7f
                    : len == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

void report_text_clean(struct strbuf *out, const char *text)
{
    while (*text) {
        const unsigned char *s = (const unsigned char *)text;
        size_t len = utf8_length(text);
        if (len == 0 || is_control(s, len) || changes_direction(s, len))
            strbuf_putc(out, '?');
        else
            strbuf_add(out, text, len);
        text += len ? len : 1;
    }
}

void report_text_html(struct strbuf *out, const char *text)
{
    static const char *const entities[256] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;",
    };
    for (; *text; text++) {
        const char *entity = entities[(unsigned char)*text];
        if (entity)
            strbuf_puts(out, entity);
        else
            strbuf_putc(out, *text);
    }
}

void report_text_markdown(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\`*_{}[]<>#|~!&$", *text))
            strbuf_putc(out, '\\');
        strbuf_putc(out, *text == '\n' ? ' ' : *text);
    }
}

void report_text_script(struct strbuf *out, const char *script, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        strbuf_putc(out, script[i]);
        bool ends = len - i > 7 && strncasecmp(script + i, "</script", 8) == 0;
        if (ends || (len - i > 3 && strncmp(script + i, "<!--", 4) == 0))
            strbuf_putc(out, '\\');
    }
}
