#include "hpo/reader/json_scan.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

struct json_scan json_scan_begin(const char *text)
{
    struct json_scan s = {.at = text};
    while (isspace((unsigned char)*s.at))
        s.at++;
    s.failed = *s.at != '{';
    s.at += !s.failed;
    return s;
}

static void skip_spaces(struct json_scan *s)
{
    while (isspace((unsigned char)*s->at))
        s->at++;
}

/* Returns the position after the closing quote of the string that begins at `p`, or NULL if the
 * string does not end. */
static const char *string_end(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : NULL;
}

/* Returns the position after the array or object that begins at `p`, or NULL if it does not end. */
static const char *nested_end(const char *p)
{
    int depth = 0;
    do {
        if (*p == '"') {
            p = string_end(p);
            if (!p)
                return NULL;
            continue;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
    } while (depth > 0 && *p);
    return depth == 0 ? p : NULL;
}

static const char *word_end(const char *p)
{
    while (isalpha((unsigned char)*p))
        p++;
    return p;
}

static const char *read_number(struct json_scan_member *m, const char *p)
{
    char *end;
    m->number = strtod(p, &end);
    m->is_number = true;
    m->kind = JSON_SCAN_INTEGER;
    for (const char *c = p; c < end; c++)
        if (*c == '.' || *c == 'e' || *c == 'E')
            m->kind = JSON_SCAN_REAL;
    return end;
}

/* Reads the words that json_number() writes for numbers that are not finite. */
static void read_word_number(struct json_scan_member *m)
{
    static const struct {
        const char *text;
        double number;
    } words[] = {{"\"nan\"", NAN}, {"\"inf\"", INFINITY}, {"\"-inf\"", -INFINITY}};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i].text) == m->len && memcmp(words[i].text, m->text, m->len) == 0) {
            m->number = words[i].number;
            m->is_number = true;
        }
}

/* Reads the value at `p`. Returns its end, or NULL if it is malformed. */
static const char *read_value(struct json_scan_member *m, const char *p)
{
    const char *end = NULL;
    *m = (struct json_scan_member){.key = m->key, .text = p};
    if (*p == '-' || isdigit((unsigned char)*p)) {
        end = read_number(m, p);
    } else if (*p == '"') {
        m->kind = JSON_SCAN_STRING;
        end = string_end(p);
    } else if (*p == '{' || *p == '[') {
        m->kind = *p == '{' ? JSON_SCAN_OBJECT : JSON_SCAN_OTHER;
        end = nested_end(p);
    } else {
        m->kind = JSON_SCAN_OTHER;
        end = word_end(p);
    }
    if (!end || end == p)
        return NULL;
    m->len = (size_t)(end - p);
    if (m->kind == JSON_SCAN_STRING)
        read_word_number(m);
    return end;
}

/* Reads the key at s->at and the ':' after it. */
static bool read_key(struct json_scan *s)
{
    const char *end = *s->at == '"' ? string_end(s->at) : NULL;
    if (!end)
        return false;
    strbuf_reset(&s->key);
    if (memchr(s->at, '\\', (size_t)(end - s->at))) {
        AUTO(json) json_t *key = json_scan_value(s->at, (size_t)(end - s->at));
        strbuf_puts(&s->key, json_is_string(key) ? json_string_value(key) : "");
    } else {
        strbuf_add(&s->key, s->at + 1, (size_t)(end - s->at) - 2);
    }
    s->at = end;
    skip_spaces(s);
    return *s->at++ == ':';
}

static bool finish(struct json_scan *s, bool failed)
{
    s->failed = failed;
    strbuf_free(&s->key);
    return false;
}

bool json_scan_next(struct json_scan *s, struct json_scan_member *m)
{
    skip_spaces(s);
    if (s->failed || *s->at == '}')
        return finish(s, s->failed);
    if (!read_key(s))
        return finish(s, true);
    m->key = strbuf_str(&s->key);
    skip_spaces(s);
    s->at = read_value(m, s->at);
    if (!s->at)
        return finish(s, true);
    skip_spaces(s);
    if (*s->at == ',')
        s->at++;
    else if (*s->at != '}')
        return finish(s, true);
    return true;
}

json_t *json_scan_value(const char *text, size_t len)
{
    return json_loadb(text, len, JSON_DECODE_ANY, NULL);
}
