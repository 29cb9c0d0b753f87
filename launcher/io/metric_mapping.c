#include "launcher/io/metric_mapping.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "common/utf8.h"

enum { LINE_MAX_BYTES = 64 * 1024, NAME_MAX_BYTES = 1024, VALUES_MAX = 1024, DEPTH_MAX = 16 };

/* Reads a mapping as JSON or Python writes it. Only numbers matter: any other value is skipped up
 * to the comma or bracket that ends it, whatever it is. */
struct mapping_reader {
    const char *at, *end;
    json_t *report; /* the numbers that were found */
};

static char peek(const struct mapping_reader *r)
{
    return r->at < r->end ? *r->at : '\0';
}

static void skip_space(struct mapping_reader *r)
{
    while (r->at < r->end && strchr(" \t\r", *r->at) && *r->at)
        r->at++;
}

/* Skips spaces, and `c` if it comes next. Returns true if it does. */
static bool skip_char(struct mapping_reader *r, char c)
{
    skip_space(r);
    bool found = peek(r) == c;
    r->at += found;
    return found;
}

/* Appends a code point in UTF-8. Half of a surrogate pair becomes invalid text, which jansson
 * rejects as a name. */
static void add_code_point(struct strbuf *b, unsigned c)
{
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    strbuf_putc(b, (char)(first[more] | c >> (6 * more)));
    while (more-- > 0)
        strbuf_putc(b, (char)(0x80 | (c >> (6 * more) & 0x3f)));
}

/* Reads `digits` hexadecimal digits. Returns false if there are fewer. */
static bool read_hex(struct mapping_reader *r, int digits, unsigned *out)
{
    for (*out = 0; digits > 0 && isxdigit((unsigned char)peek(r)); digits--, r->at++) {
        int c = tolower((unsigned char)*r->at);
        *out = *out << 4 | (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return digits == 0;
}

/* Reads what follows a backslash in a string. */
static void read_escape(struct mapping_reader *r, struct strbuf *out)
{
    static const char letters[] = "nrtbfav", controls[] = "\n\r\t\b\f\a\v";
    char c = peek(r);
    const char *at = c ? strchr(letters, c) : NULL;
    r->at += r->at < r->end;
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    unsigned code = 0, low = 0;
    if (digits == 0) {
        strbuf_putc(out, at ? controls[at - letters] : c);
        return;
    }
    if (!read_hex(r, digits, &code) || code > 0x10ffff)
        return;
    const char *after = r->at;
    bool pair = code >= 0xd800 && code < 0xdc00 && r->end - r->at >= 6 &&
                memcmp(r->at, "\\u", 2) == 0 && (r->at += 2, read_hex(r, 4, &low)) &&
                low >= 0xdc00 && low < 0xe000;
    if (!pair)
        r->at = after;
    add_code_point(out, pair ? 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)) : code);
}

/* Reads the string that starts here, and appends it to `out` unless that is NULL. If the closing
 * quote is missing, reads to the end. */
static void read_string(struct mapping_reader *r, struct strbuf *out)
{
    AUTO(strbuf) struct strbuf unused = {0};
    char quote = *r->at++;
    while (r->at < r->end && *r->at != quote) {
        char c = *r->at++;
        if (c == '\\')
            read_escape(r, out ? out : &unused);
        else
            strbuf_putc(out ? out : &unused, c);
    }
    r->at += r->at < r->end;
}

/* Skips the rest of a value or key: up to a comma, a closing bracket or, for a key, a colon. */
static void skip_rest(struct mapping_reader *r, bool key)
{
    int depth = 0;
    while (r->at < r->end) {
        char c = *r->at;
        if (depth == 0 && (c == ',' || strchr(")]}", c) || (key && c == ':')))
            return;
        if (c == '"' || c == '\'') {
            read_string(r, NULL);
            continue;
        }
        depth += strchr("([{<", c) != NULL;
        depth -= depth > 0 && strchr(")]}>", c);
        r->at++;
    }
}

/* Reads the number that starts here (new reference). Returns NULL if there is none. */
static json_t *read_number(struct mapping_reader *r)
{
    static const char digits[] = "0123456789", *const words[] = {"Infinity", "inf", "NaN", "nan"};
    size_t n = 0;
    while (r->at + n < r->end && strchr("+-.0123456789eE", r->at[n]) && r->at[n])
        n++;
    AUTO(free) char *text = xstrndup(r->at, n);
    bool sign = *text == '-' || *text == '+';
    for (size_t i = 0; n == sign && i < COUNT_OF(words); i++) {
        size_t len = strlen(words[i]);
        if (r->at + sign + len > r->end || memcmp(r->at + sign, words[i], len) != 0)
            continue;
        r->at += sign + len;
        return json_number(i > 1 ? NAN : *text == '-' ? -INFINITY : INFINITY);
    }
    char *end = text;
    if (n > sign && (isdigit((unsigned char)text[sign]) || text[sign] == '.'))
        (void)strtod(text, &end);
    r->at += end - text;
    if (end == text)
        return NULL;
    *end = '\0';
    errno = 0;
    long long integer = strtoll(text, NULL, 10);
    return !text[sign + strspn(text + sign, digits)] && errno == 0
               ? json_integer(integer)
               : json_number(strtod(text, NULL));
}

static json_t *read_value(struct mapping_reader *r, const char *name, int depth);

/* Reads the arguments of a call, after its opening bracket. Returns the first one if it is a number
 * and only keyword arguments follow: tensor(0.5, device='cuda:0'). Skips an object in front of it:
 * defaultdict(<class 'float'>, {...}). */
static json_t *read_call(struct mapping_reader *r, const char *name, int depth)
{
    skip_space(r);
    if (peek(r) == '<') {
        skip_rest(r, false);
        skip_char(r, ',');
    }
    AUTO(json) json_t *value = read_value(r, name, depth);
    bool only = true;
    while (skip_char(r, ',')) {
        skip_space(r);
        const char *word = r->at;
        while (isalnum((unsigned char)peek(r)) || peek(r) == '_')
            r->at++;
        only &= r->at > word && peek(r) == '=';
        skip_rest(r, false);
    }
    return skip_char(r, ')') && only ? TAKE(value) : NULL;
}

static bool read_mapping(struct mapping_reader *r, const char *prefix, int depth);

/* Reads a value. Returns it (new reference) if it is a number, otherwise NULL. Adds the numbers of
 * a mapping to the report, with `name` as their prefix. */
static json_t *read_value(struct mapping_reader *r, const char *name, int depth)
{
    skip_space(r);
    const char *start = r->at;
    json_t *value = NULL;
    if (peek(r) == '"' || peek(r) == '\'') {
        AUTO(strbuf) struct strbuf text = {0};
        double number;
        read_string(r, &text);
        AUTO(json) json_t *string = json_stringn(strbuf_str(&text), text.len);
        value = json_as_number(&number, string) == 0 ? json_number(number) : NULL;
    } else if (peek(r) == '{') {
        if (depth > DEPTH_MAX || !read_mapping(r, name, depth + 1))
            r->at = start; /* a set */
    } else {
        value = read_number(r);
        while (!value && (isalnum((unsigned char)peek(r)) || peek(r) == '_' || peek(r) == '.'))
            r->at++;
        if (!value && r->at > start && depth <= DEPTH_MAX && skip_char(r, '('))
            value = read_call(r, name, depth + 1);
    }
    skip_space(r);
    const char *end = r->at;
    skip_rest(r, false);
    if (r->at == end)
        return value;
    json_decref(value); /* a number and more: 1+2j */
    return NULL;
}

/* Reads a key: a string or a number. Returns NULL if it is something else. The caller frees it. */
static char *read_key(struct mapping_reader *r, const char *prefix)
{
    AUTO(strbuf) struct strbuf name = {0};
    skip_space(r);
    const char *start = r->at;
    bool quoted = peek(r) == '"' || peek(r) == '\'';
    AUTO(json) json_t *number = quoted ? NULL : read_number(r);
    if (quoted)
        read_string(r, &name);
    else if (number)
        strbuf_add(&name, start, (size_t)(r->at - start));
    skip_space(r);
    const char *end = r->at;
    skip_rest(r, true);
    bool is_name = (quoted || number) && r->at == end && strlen(strbuf_str(&name)) == name.len;
    return is_name ? xasprintf("%s%s%s", prefix, *prefix ? "." : "", strbuf_str(&name)) : NULL;
}

/* Reads the mapping that starts here, and adds its numbers to the report. Numbers of nested
 * mappings get dotted names. Returns false if it is not a mapping. */
static bool read_mapping(struct mapping_reader *r, const char *prefix, int depth)
{
    r->at++;
    do {
        if (skip_char(r, '}'))
            return true;
        AUTO(free) char *name = read_key(r, prefix);
        if (!skip_char(r, ':'))
            return false;
        AUTO(json) json_t *value = read_value(r, name ? name : prefix, depth);
        if (name && value && strlen(name) < NAME_MAX_BYTES && utf8_valid(name) &&
            json_object_size(r->report) < VALUES_MAX)
            json_object_set(r->report, name, value);
    } while (skip_char(r, ','));
    return skip_char(r, '}');
}

json_t *metric_mapping_read(const char *text, size_t len)
{
    struct mapping_reader r = {.at = text, .end = text + len};
    skip_space(&r);
    if (peek(&r) != '{' || len > LINE_MAX_BYTES)
        return NULL;
    AUTO(json) json_t *report = r.report = json_object();
    bool whole = read_mapping(&r, "", 1);
    skip_space(&r);
    return whole && r.at == r.end && json_object_size(report) > 0 ? TAKE(report) : NULL;
}
