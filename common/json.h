/* json - JSON values (jansson), with errors that name the key.
 *
 * Objects keep their keys in insertion order. JSON has no NaN and no infinity: a metric that may
 * be one is written with json_number() and read with json_as_number(). */
#ifndef DROVER_JSON_H
#define DROVER_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

AUTO_DEFINE(json, json_t *, json_decref)

/* Reads the member `key` of `obj`, which must exist and have the type.
 *   -EINVAL  obj is not an object, the key is missing, or its value has another type
 * _real also accepts integers; a string is borrowed from `obj`. */
int json_require_int(int64_t *out, const json_t *obj, const char *key, struct err *e);
int json_require_real(double *out, const json_t *obj, const char *key, struct err *e);
int json_require_str(const char **out, const json_t *obj, const char *key, struct err *e);
int json_require_bool(bool *out, const json_t *obj, const char *key, struct err *e);

/* The same, but the key may be missing: then `*out` is unchanged. */
int json_optional_int(int64_t *out, const json_t *obj, const char *key, struct err *e);
int json_optional_real(double *out, const json_t *obj, const char *key, struct err *e);
int json_optional_str(const char **out, const json_t *obj, const char *key, struct err *e);
int json_optional_bool(bool *out, const json_t *obj, const char *key, struct err *e);

/* Returns -EINVAL if `obj` has a key that is not one of the `n` names; the hint is the nearest
 * name. `where` names the object in the message ("metric"; NULL: not named). */
int json_only_keys(const json_t *obj, const char *const *names, size_t n, const char *where,
                   struct err *e);

/* Returns the type of a value, for messages: "a string", "a list"; "nothing" for NULL. */
const char *json_type_name(const json_t *value);

/* Returns the value on one line, without spaces, keys in their order, doubles as number_format()
 * writes them. The caller frees it; never NULL. */
char *json_line(const json_t *value);

/* Parses one JSON value (of any type), which must be the whole of `text`. `*out` is a new
 * reference.
 *   -EINVAL  not JSON, a duplicate key, nested too deep (2,048), a number that does not fit, or a
 *            NUL in a string; the message starts with LINE:COLUMN */
int json_parse(json_t **out, const char *text, size_t len, struct err *e);

/* Returns a new string of bytes that may be invalid UTF-8: each such byte becomes '?' (utf8_add()).
 * Never NULL. */
json_t *json_text(const char *bytes);

/* Returns a new real, or one of the strings "nan", "inf", "-inf". Never NULL. */
json_t *json_number(double value);
/* Reads a value of json_number(), or an integer. Returns -EINVAL for other values. */
int json_as_number(double *out, const json_t *value);

#endif
