#include "common/json.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number_format.h"
#include "common/opt.h"
#include "common/strbuf.h"

const char *json_type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "a mapping", [JSON_ARRAY] = "a list",       [JSON_STRING] = "a string",
        [JSON_TRUE] = "a boolean",   [JSON_INTEGER] = "an integer", [JSON_NULL] = "null",
        [JSON_FALSE] = "a boolean",  [JSON_REAL] = "a real number",
    };
    return value ? names[json_typeof(value)] : "nothing";
}

/* Sets `*out` to the member `key` of `obj`, or to NULL if the key is missing. The member must have
 * one of the `types`, a bit per json_type; `expected` names them. */
static int get_member(const json_t **out, const json_t *obj, const char *key, unsigned types,
                      const char *expected, struct err *e)
{
    *out = NULL;
    if (!json_is_object(obj))
        return err_set(e, -EINVAL, "a mapping with '%s' is expected, not %s", key,
                       json_type_name(obj));
    const json_t *v = json_object_get(obj, key);
    if (v && !(types >> json_typeof(v) & 1))
        return err_set(e, -EINVAL, "'%s' must be %s, not %s", key, expected, json_type_name(v));
    *out = v;
    return 0;
}

int json_optional_int(int64_t *out, const json_t *obj, const char *key, struct err *e)
{
    const json_t *v;
    int rc = get_member(&v, obj, key, 1U << JSON_INTEGER, "an integer", e);
    *out = v ? json_integer_value(v) : *out;
    return rc;
}

int json_optional_real(double *out, const json_t *obj, const char *key, struct err *e)
{
    const json_t *v;
    int rc = get_member(&v, obj, key, 1U << JSON_INTEGER | 1U << JSON_REAL, "a number", e);
    *out = v ? json_number_value(v) : *out;
    return rc;
}

int json_optional_str(const char **out, const json_t *obj, const char *key, struct err *e)
{
    const json_t *v;
    int rc = get_member(&v, obj, key, 1U << JSON_STRING, "a string", e);
    *out = v ? json_string_value(v) : *out;
    return rc;
}

int json_optional_bool(bool *out, const json_t *obj, const char *key, struct err *e)
{
    const json_t *v;
    int rc = get_member(&v, obj, key, 1U << JSON_TRUE | 1U << JSON_FALSE, "true or false", e);
    *out = v ? json_is_true(v) : *out;
    return rc;
}

bool json_fits_int(const json_t *obj, const char *const *wide)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)obj, key, v) /* the macro rejects const pointers */
        if (json_is_integer(v) && json_integer_value(v) != (int)json_integer_value(v) &&
            !strv_has(wide, key))
            return false;
    return true;
}

static int require(const json_t *obj, const char *key, struct err *e)
{
    const json_t *v = NULL;
    int rc = get_member(&v, obj, key, ~0U, "", e);
    return rc < 0 || v ? rc : err_set(e, -EINVAL, "'%s' is missing", key);
}

int json_require_int(int64_t *out, const json_t *obj, const char *key, struct err *e)
{
    int rc = require(obj, key, e);
    return rc < 0 ? rc : json_optional_int(out, obj, key, e);
}

int json_require_str(const char **out, const json_t *obj, const char *key, struct err *e)
{
    int rc = require(obj, key, e);
    return rc < 0 ? rc : json_optional_str(out, obj, key, e);
}

int json_only_keys(const json_t *obj, const char *const *names, size_t n, const char *where,
                   struct err *e)
{
    if (!json_is_object(obj))
        return err_set(e, -EINVAL, "%s%smust be a mapping, not %s", where ? where : "",
                       where ? " " : "", json_type_name(obj));
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)obj, key, value) { /* the macro rejects const pointers */
        size_t i = 0;
        while (i < n && strcmp(key, names[i]) != 0)
            i++;
        if (i < n)
            continue;
        err_set(e, -EINVAL, "unknown key '%s'%s%s", key, where ? " in " : "", where ? where : "");
        const char *near = opt_suggest(key, names, n);
        if (near)
            err_hint(e, "%s", near);
        return -EINVAL;
    }
    return 0;
}

static void write_string(struct strbuf *b, const char *text, size_t len)
{
    static const char escaped[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    strbuf_putc(b, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *at = c ? strchr(escaped, c) : NULL;
        if (at)
            strbuf_printf(b, "\\%c", letters[at - escaped]);
        else if (c < 0x20)
            strbuf_printf(b, "\\u%04X", c);
        else
            strbuf_putc(b, (char)c);
    }
    strbuf_putc(b, '"');
}

static void write_value(struct strbuf *b, const json_t *v);

static void write_object(struct strbuf *b, const json_t *object)
{
    const char *key, *separator = "";
    json_t *value;
    strbuf_putc(b, '{');
    json_object_foreach ((json_t *)object, key, value) { /* the macro rejects const pointers */
        strbuf_puts(b, separator);
        write_string(b, key, strlen(key));
        strbuf_putc(b, ':');
        write_value(b, value);
        separator = ",";
    }
    strbuf_putc(b, '}');
}

static void write_value(struct strbuf *b, const json_t *v)
{
    if (json_is_object(v)) {
        write_object(b, v);
    } else if (json_is_array(v)) {
        strbuf_putc(b, '[');
        for (size_t i = 0; i < json_array_size(v); i++) {
            strbuf_puts(b, i ? "," : "");
            write_value(b, json_array_get(v, i));
        }
        strbuf_putc(b, ']');
    } else if (json_is_string(v)) {
        write_string(b, json_string_value(v), json_string_length(v));
    } else if (json_is_integer(v)) {
        strbuf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    } else if (json_is_real(v)) {
        number_format(b, json_real_value(v));
    } else {
        strbuf_puts(b, json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
    }
}

char *json_line(const json_t *value)
{
    struct strbuf b = {0};
    write_value(&b, value);
    return strbuf_take(&b);
}

int json_parse(json_t **out, const char *text, size_t len, struct err *e)
{
    json_error_t je;
    json_t *value = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &je);
    if (!value)
        return err_set(e, -EINVAL, "%d:%d: %s", je.line, je.column, je.text);
    *out = value;
    return 0;
}

static json_t *abort_if_null(json_t *value)
{
    if (!value)
        abort();
    return value;
}

json_t *json_number(double value)
{
    if (isnan(value))
        return abort_if_null(json_string("nan"));
    if (isinf(value))
        return abort_if_null(json_string(value > 0 ? "inf" : "-inf"));
    return abort_if_null(json_real(value));
}

int json_as_number(double *out, const json_t *value)
{
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return 0;
    }
    const char *text = json_string_value(value);
    if (!text)
        return -EINVAL;
    if (strcmp(text, "nan") == 0)
        *out = NAN;
    else if (strcmp(text, "inf") == 0)
        *out = INFINITY;
    else if (strcmp(text, "-inf") == 0)
        *out = -INFINITY;
    else
        return -EINVAL;
    return 0;
}
