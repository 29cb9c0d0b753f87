/* json_text - JSON of bytes that may not be UTF-8: a file's name, a request, a rank's output.
 *
 * jansson's functions return NULL for such bytes, and its writers then end the process or lose the
 * member. This header replaces them, for every file that includes it, by functions that accept such
 * bytes. `scripts/check-names` finds calls that still reach jansson. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Returns a new string of bytes that may be invalid UTF-8: each such byte becomes '?' (utf8_add()).
 * NULL only if `bytes` is NULL. */
json_t *json_text(const char *bytes);

/* The same for at most `len` bytes, up to the first NUL. */
json_t *json_text_of(const char *bytes, size_t len);

/* Does what json_pack() does, with json_text() for strings and keys. It knows {}, [], "s" with ?, *
 * or +, "o" and "O" with ? or *, and "n b i I f". NULL if a value that is neither "?" nor "*" is
 * NULL or is a number that is not finite. */
json_t *json_text_pack(const char *format, ...);

/* Does what json_object_set_new() does, with json_text() for the key. Takes over `value`. -1 if it
 * is NULL. */
int json_text_set(json_t *object, const char *key, json_t *value);

#define json_string(bytes) json_text(bytes)
#define json_stringn(bytes, len) json_text_of(bytes, len)
#define json_pack(...) json_text_pack(__VA_ARGS__)
#define json_object_set_new(object, key, value) json_text_set(object, key, value)
#define json_object_set(object, key, value) json_text_set(object, key, json_incref(value))
