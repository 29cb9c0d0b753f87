#include "hpo/space/python_repr.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/mem.h"
#include "common/number_format.h"

enum style { STYLE_REPR, STYLE_JSON, STYLE_YAML };

/* Decodes a code point of UTF-8, which is valid since jansson accepts nothing else. Returns its
 * length in bytes. */
static size_t decode(uint32_t *out, const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3fu);
    *out = c;
    return n;
}

/* Returns true if Python's str.isprintable() does. It is false for controls, for separators other
 * than a space, and for format and private-use characters. The table has the common blocks of
 * these, not all in Unicode. */
static bool printable(uint32_t c)
{
    static const uint32_t not_printed[][2] = {
        {0x00, 0x1f},       {0x7f, 0xa0},        {0xad, 0xad},     {0x600, 0x605},
        {0x61c, 0x61c},     {0x6dd, 0x6dd},      {0x1680, 0x1680}, {0x180e, 0x180e},
        {0x2000, 0x200f},   {0x2028, 0x202f},    {0x205f, 0x206f}, {0x3000, 0x3000},
        {0xe000, 0xf8ff},   {0xfeff, 0xfeff},    {0xfff0, 0xfffb}, {0xfffe, 0xffff},
        {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff},
    };
    for (size_t i = 0; i < COUNT_OF(not_printed); i++)
        if (c >= not_printed[i][0] && c <= not_printed[i][1])
            return false;
    return true;
}

static void put_repr_char(struct strbuf *b, uint32_t c, const unsigned char *s, size_t n,
                          char quote)
{
    if (c == (uint32_t)quote || c == '\\')
        strbuf_printf(b, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        strbuf_puts(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (printable(c))
        strbuf_add(b, s, n);
    else if (c <= 0xff)
        strbuf_printf(b, "\\x%02x", c);
    else
        strbuf_printf(b, c <= 0xffff ? "\\u%04x" : "\\U%08x", c);
}

static void put_json_char(struct strbuf *b, uint32_t c)
{
    static const char escaped[] = "\"\\\n\r\t\f\b", by[] = "\"\\nrtfb";
    const char *at = c && c < 0x80 ? strchr(escaped, (int)c) : NULL;
    if (at)
        strbuf_printf(b, "\\%c", by[at - escaped]);
    else if (c >= 0x20 && c < 0x7f)
        strbuf_putc(b, (char)c);
    else if (c <= 0xffff)
        strbuf_printf(b, "\\u%04x", c);
    else
        strbuf_printf(b, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                      0xdc00 + ((c - 0x10000) & 0x3ff));
}

static void put_string(struct strbuf *b, const char *text, size_t len, enum style style)
{
    char quote = style != STYLE_REPR                                  ? '"'
                 : memchr(text, '\'', len) && !memchr(text, '"', len) ? '"'
                                                                      : '\'';
    strbuf_putc(b, quote);
    for (size_t i = 0, n = 0; i < len; i += n) {
        const unsigned char *s = (const unsigned char *)text + i;
        uint32_t c = 0;
        n = decode(&c, s);
        if (style == STYLE_YAML && c >= 0xa0 && c != 0xfeff && c != 0xfffe && c != 0xffff)
            strbuf_add(b, s, n); /* PyYAML would not join the two halves of "\ud83d\ude00" */
        else if (style != STYLE_REPR)
            put_json_char(b, c);
        else
            put_repr_char(b, c, s, n, quote);
    }
    strbuf_putc(b, quote);
}

static void put(struct strbuf *b, const json_t *v, enum style style);

/* Appends a real number as YAML 1.1 requires it: with a point, and with a sign in the exponent. */
static void put_yaml_real(struct strbuf *b, double x)
{
    AUTO(strbuf) struct strbuf text = {0};
    number_format(&text, x);
    const char *s = strbuf_str(&text), *exponent = strchr(s, 'e');
    if (exponent && !strchr(s, '.'))
        strbuf_printf(b, "%.*s.0%s", (int)(exponent - s), s, exponent);
    else
        strbuf_puts(b, s);
}

static void put_object(struct strbuf *b, const json_t *v, enum style style)
{
    json_t *object = json_incref((json_t *)v); /* the macro rejects const pointers */
    const char *key = NULL, *apart = "";
    json_t *value = NULL;
    strbuf_putc(b, '{');
    json_object_foreach (object, key, value) {
        strbuf_puts(b, apart);
        put_string(b, key, strlen(key), style);
        strbuf_puts(b, ": ");
        put(b, value, style);
        apart = ", ";
    }
    strbuf_putc(b, '}');
    json_decref(object);
}

static void put(struct strbuf *b, const json_t *v, enum style style)
{
    static const char *const words[][3] = {[STYLE_REPR] = {"True", "False", "None"},
                                           [STYLE_JSON] = {"true", "false", "null"},
                                           [STYLE_YAML] = {"true", "false", "null"}};
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT:
        put_object(b, v, style);
        break;
    case JSON_ARRAY:
        strbuf_putc(b, '[');
        for (size_t i = 0; i < json_array_size(v); i++) {
            strbuf_puts(b, i ? ", " : "");
            put(b, json_array_get(v, i), style);
        }
        strbuf_putc(b, ']');
        break;
    case JSON_STRING:
        put_string(b, json_string_value(v), json_string_length(v), style);
        break;
    case JSON_INTEGER:
        strbuf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        break;
    case JSON_REAL:
        if (style == STYLE_YAML)
            put_yaml_real(b, json_real_value(v));
        else
            number_format(b, json_real_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        strbuf_puts(b, words[style][json_is_true(v) ? 0 : json_is_false(v) ? 1 : 2]);
        break;
    }
}

void python_repr_str(struct strbuf *b, const json_t *v)
{
    if (json_is_string(v))
        strbuf_add(b, json_string_value(v), json_string_length(v));
    else
        put(b, v, STYLE_REPR);
}

void python_repr_json(struct strbuf *b, const json_t *v)
{
    put(b, v, STYLE_JSON);
}

void python_repr_yaml(struct strbuf *b, const json_t *v)
{
    put(b, v, STYLE_YAML);
}
