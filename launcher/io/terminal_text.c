#include "launcher/io/terminal_text.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "common/utf8.h"

/* Returns the number of the character of `len` bytes, which is valid. */
static uint32_t decode(const char *text, size_t len)
{
    uint32_t c = (unsigned char)text[0];
    if (len > 1)
        c &= 0x7fU >> len;
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)text[i] & 0x3f);
    return c;
}

static bool is_between(uint32_t c, uint32_t first, uint32_t last)
{
    return c >= first && c <= last;
}

/* Scripts with wide characters begin at U+1100. Of what follows, dashes, dots, arrows and blocks
 * are narrow. */
static int cells_of(uint32_t c)
{
    bool narrow = c < 0x1100 || is_between(c, 0x2010, 0x2027) || is_between(c, 0x2190, 0x21ff) ||
                  is_between(c, 0x2500, 0x259f);
    return narrow ? 1 : 2;
}

int terminal_text_add(struct strbuf *out, const char *text, int cells)
{
    AUTO(strbuf) struct strbuf line = {0};
    int used = 0;
    utf8_add_line(&line, text);
    for (const char *at = strbuf_str(&line); *at;) {
        size_t len = utf8_length(at);
        int wanted = cells_of(decode(at, len));
        if (wanted > cells - used)
            break;
        used += wanted;
        strbuf_add(out, at, len);
        at += len;
    }
    return used;
}

int terminal_text_cells(const char *text)
{
    AUTO(strbuf) struct strbuf ignored = {0};
    return terminal_text_add(&ignored, text, INT_MAX);
}
