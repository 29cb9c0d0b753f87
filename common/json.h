/* json - JSON values (jansson), with errors that name the key.
 *
 * Objects keep their keys in insertion order. JSON has no NaN and no infinity: a metric may be
 * either, and is therefore written with json_number() and read with json_as_number(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json_text.h"
#include "common/mem.h"

AUTO_DEFINE(json, json_t *, json_decref)

/* Returns true if each integer in the object fits in an int: json_unpack()'s "i" cuts it to one.
 * `wide` names the members that may be larger, which "I" reads, and ends with NULL; NULL: none. */
bool json_fits_int(const json_t *obj, const char *const *wide);

/* Read the member `key` of `obj` into `*out`. The member must exist and have the function's type.
 *   -EINVAL  obj is not an object, the key is missing, or its value has another type
 * The string of json_require_str() is borrowed from `obj`. */
int json_require_int(int64_t *out, const json_t *obj, const char *key, struct err *e);
int json_require_str(const char **out, const json_t *obj, const char *key, struct err *e);

/* The same, but the key may be missing. In this case `*out` is unchanged.
 * json_optional_real() also accepts integers. */
int json_optional_int(int64_t *out, const json_t *obj, const char *key, struct err *e);
int json_optional_real(double *out, const json_t *obj, const char *key, struct err *e);
int json_optional_str(const char **out, const json_t *obj, const char *key, struct err *e);
int json_optional_bool(bool *out, const json_t *obj, const char *key, struct err *e);

/* Checks that `obj` is an object and has no keys but the `n` names. `where` names the object in the
 * message ("metric"); NULL: the message does not name it.
 *   -EINVAL  not an object, or an unknown key (the hint is the nearest name) */
int json_only_keys(const json_t *obj, const char *const *names, size_t n, const char *where,
                   struct err *e);

/* Returns a name of the value's type for messages: "a string", "a list". For NULL it is
 * "nothing". */
const char *json_type_name(const json_t *value);

/* Returns the value as JSON text on one line, without spaces between its parts. Keys keep their
 * order; doubles are written by number_format(). The caller frees the text; never NULL. */
char *json_line(const json_t *value);

/* Parses `text`, which must contain one JSON value of any type and nothing else. Sets `*out` to the
 * value (new reference).
 *   -EINVAL  not JSON, a duplicate key, more than 2,048 levels, a number that does not fit, or a
 *            NUL in a string; the message starts with LINE:COLUMN */
int json_parse(json_t **out, const char *text, size_t len, struct err *e);

/* Returns `value` as a new JSON real, or as the string "nan", "inf" or "-inf" if it is not finite.
 * Never NULL. */
json_t *json_number(double value);
/* Reads a value that json_number() has made, or an integer. Returns -EINVAL for other values. */
int json_as_number(double *out, const json_t *value);
