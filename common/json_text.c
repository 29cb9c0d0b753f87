#include "common/json_text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "common/utf8.h"

json_t *json_text(const char *bytes)
{
    AUTO(strbuf) struct strbuf b = {0};
    if (!bytes)
        return NULL;
    utf8_add(&b, bytes);
    return xchecked((json_string)(strbuf_str(&b)));
}

json_t *json_text_of(const char *bytes, size_t len)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_add(&b, bytes, len);
    return json_text(strbuf_str(&b));
}

int json_text_set(json_t *object, const char *key, json_t *value)
{
    AUTO(strbuf) struct strbuf b = {0};
    if (key)
        utf8_add(&b, key);
    return (json_object_set_new)(object, key ? strbuf_str(&b) : NULL, value);
}

/* The rest of a format, its arguments, and whether one of them was missing. */
struct packing {
    const char *at;
    va_list args;
    bool failed;
};

static char next(struct packing *p)
{
    while (isspace((unsigned char)*p->at) || *p->at == ',' || *p->at == ':')
        p->at++;
    return *p->at ? *p->at++ : '\0';
}

static char suffix(struct packing *p)
{
    return *p->at == '?' || *p->at == '*' || *p->at == '+' ? *p->at++ : '\0';
}

/* Appends the following strings to the first one. */
static json_t *pack_text(struct packing *p, const char *first, char *mark)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (; *mark == '+'; *mark = suffix(p)) {
        strbuf_puts(&b, first ? first : "");
        first = va_arg(p->args, const char *);
    }
    if (first)
        strbuf_puts(&b, first);
    return first ? json_text(strbuf_str(&b)) : NULL;
}

static json_t *pack_value(struct packing *p, bool *optional);

static json_t *pack_members(struct packing *p, char end)
{
    json_t *all = end == '}' ? json_object() : json_array(), *value;
    for (char c; (c = next(p)) && c != end;) {
        const char *key = end == '}' ? va_arg(p->args, const char *) : NULL;
        bool optional = false;
        p->at -= end == ']';
        value = pack_value(p, &optional);
        if (value)
            (void)(key ? json_text_set(all, key, value) : json_array_append_new(all, value));
        p->failed = p->failed || (!value && !optional);
    }
    return all;
}

/* Returns NULL if there is no value, and sets `*optional` if the format allows that. */
static json_t *pack_value(struct packing *p, bool *optional)
{
    char c = next(p), mark = '\0';
    json_t *v = NULL;
    switch (c) {
    case '{':
    case '[':
        return pack_members(p, c == '{' ? '}' : ']');
    case 's':
        mark = suffix(p);
        v = pack_text(p, va_arg(p->args, const char *), &mark);
        break;
    case 'o':
    case 'O':
        v = va_arg(p->args, json_t *);
        v = c == 'O' ? json_incref(v) : v;
        mark = suffix(p);
        break;
    case 'n':
        return json_null();
    case 'b':
        return json_boolean(va_arg(p->args, int));
    case 'i':
        return json_integer(va_arg(p->args, int));
    case 'I':
        return json_integer(va_arg(p->args, json_int_t));
    case 'f':
        return json_real(va_arg(p->args, double));
    default:
        abort(); /* a mistake in drover: the rest of the arguments is unknown */
    }
    *optional = mark == '*';
    return v || mark != '?' ? v : json_null();
}

json_t *json_text_pack(const char *format, ...)
{
    struct packing p = {.at = format};
    bool optional = false;
    va_start(p.args, format);
    AUTO(json) json_t *v = pack_value(&p, &optional);
    va_end(p.args);
    return p.failed ? NULL : TAKE(v);
}
