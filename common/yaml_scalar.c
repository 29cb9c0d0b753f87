#include "common/yaml_scalar.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"

/* The number of digits of a hash: at least, if it is abbreviated as git does, and if it is
 * whole. */
enum { HASH_MIN = 7, SHA1_DIGITS = 40 };

/* Returns true if `s` is not empty and has only characters of `set`. */
static bool consists_of(const char *s, const char *set)
{
    return *s && !s[strspn(s, set)];
}

static const char digits[] = "0123456789_";

/* Returns true if `s` is a number in base 60: "12:30", "1:30:00.5". `s` starts with n digits. The
 * parts after the first are at most 59. */
static bool is_base_60(const char *s, size_t n)
{
    const char *p = s + n;
    if (*p != ':')
        return false;
    while (*p == ':' && isdigit((unsigned char)p[1])) {
        bool two = isdigit((unsigned char)p[2]) != 0;
        if (two && p[1] > '5')
            return false;
        p += two ? 3 : 2;
    }
    return !*p || (*p == '.' && (!p[1] || consists_of(p + 1, digits)));
}

/* Returns true if `s` is a real number. `s` starts with n digits or, if n is 0, with a point and a
 * digit. */
static bool is_real(const char *s, size_t n)
{
    const char *p = s + n;
    if (*p == '.')
        p += 1 + strspn(p + 1, digits);
    if (*p == 'e' || *p == 'E') {
        p += p[1] == '+' || p[1] == '-' ? 2 : 1;
        if (!isdigit((unsigned char)*p))
            return false;
        p += strspn(p, "0123456789");
    }
    return !*p;
}

/* Returns true if `s` is more likely an abbreviated hash, such as that of a commit, than a number:
 * "12345e67", "0012389". YAML 1.1 reads both examples as text, too. */
static bool is_hash(const char *s)
{
    size_t len = strlen(s), n = strspn(s, "0123456789");
    if (len < HASH_MIN)
        return false;
    bool exponent = n > 0 && s[n] == 'e' && consists_of(s + n + 1, "0123456789");
    return exponent || (n == len && *s == '0' && strpbrk(s, "89"));
}

static void drop_underscores(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (*s != '_')
            *to++ = *s;
    *to = '\0';
}

static json_t *integer(char *s, int base, const char **why)
{
    drop_underscores(s);
    errno = 0;
    long long value = strtoll(s, NULL, base);
    if (errno == ERANGE && strlen(s) >= SHA1_DIGITS && isdigit((unsigned char)*s) && base == 10)
        return json_string(s);
    if (errno == ERANGE)
        *why = "does not fit into 64 bits";
    return *why ? NULL : json_integer(value);
}

static json_t *real(char *s, const char **why)
{
    drop_underscores(s);
    errno = 0;
    double value = strtod(s, NULL);
    if (errno == ERANGE && (value == 0 || isinf(value)))
        *why = "does not fit into a double";
    return *why ? NULL : json_real(value);
}

/* Returns the value of `s`, or NULL. With NULL, `*why` is set if the text is rejected, and
 * unchanged if it is not a number. */
static json_t *number(char *s, const char **why)
{
    static const char *const infs[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    bool sign = *s == '-' || *s == '+';
    const char *body = s + sign;
    if (strv_has(infs, body))
        return json_number(*s == '-' ? -INFINITY : INFINITY);
    if (strv_has(nans, s))
        return json_number(NAN);
    if (!isdigit((unsigned char)body[*body == '.']))
        return NULL;

    size_t n = strspn(body, digits);
    if (is_hash(s))
        return json_string(s);
    if ((n > 1 && !body[n] && *body == '0') ||
        (strncmp(body, "0o", 2) == 0 && consists_of(body + 2, "01234567_")))
        *why = "may be octal or decimal: write it without the leading zero, or in quotes";
    else if (strncmp(body, "0b", 2) == 0 && consists_of(body + 2, "01_"))
        *why = "may be binary or text: write it as a decimal, or in quotes";
    else if (is_base_60(body, n))
        *why = "may be a number to base 60 or text: write it in quotes";
    else if (!body[n])
        return integer(s, 10, why);
    else if (strncmp(body, "0x", 2) == 0 && consists_of(body + 2, "0123456789abcdefABCDEF_"))
        return integer(s, 16, why);
    else if (is_real(body, n))
        return real(s, why);
    return NULL;
}

json_t *yaml_scalar(char *s, const char **why)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    if (strv_has(nulls, s))
        return json_null();
    if (strv_has(yes, s))
        return json_true();
    if (strv_has(no, s))
        return json_false();
    json_t *v = number(s, why);
    return v || *why ? v : json_string(s);
}

/* Returns the value of a scalar with the tag !!float: a real, or the string of json_number() for an
 * infinity or NaN. Returns NULL as number() does. */
static json_t *as_float(char *s, const char **why)
{
    AUTO(json) json_t *v = number(s, why);
    return json_is_integer(v) ? json_real((double)json_integer_value(v)) : TAKE(v);
}

static json_t *as_type(json_type type, char *s, const char **why)
{
    AUTO(json) json_t *v = yaml_scalar(s, why);
    bool bools = type == JSON_TRUE && json_is_boolean(v);
    return v && (bools || json_typeof(v) == type) ? TAKE(v) : NULL;
}

json_t *yaml_scalar_tagged(const char *tag, char *s, const char **why)
{
    static const struct {
        const char *tag;
        json_type type;
        const char *mismatch;
    } types[] = {
        {"tag:yaml.org,2002:float", JSON_REAL, "is not a number, as the tag !!float says"},
        {"tag:yaml.org,2002:int", JSON_INTEGER, "is not an integer, as the tag !!int says"},
        {"tag:yaml.org,2002:bool", JSON_TRUE, "is not a boolean, as the tag !!bool says"},
        {"tag:yaml.org,2002:null", JSON_NULL, "is not null, as the tag !!null says"},
        {"tag:yaml.org,2002:str", JSON_STRING, NULL},
    };
    size_t i = 0;
    while (i < COUNT_OF(types) && strcmp(tag, types[i].tag) != 0)
        i++;
    if (i == COUNT_OF(types))
        return NULL;
    if (types[i].type == JSON_STRING)
        return json_string(s);
    json_t *v = types[i].type == JSON_REAL ? as_float(s, why) : as_type(types[i].type, s, why);
    if (!v && !*why)
        *why = types[i].mismatch;
    return v;
}
