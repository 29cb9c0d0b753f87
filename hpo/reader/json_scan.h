/* json_scan - reads the members of a JSON object from text, one after the other, without making a
 * tree.
 *
 * The text must be one that json_dumps() wrote. A sweep has hundreds of thousands of such short
 * texts.
 *
 *     struct json_scan s = json_scan_begin(text);
 *     for (struct json_scan_member m; json_scan_next(&s, &m);)
 *         …
 *     if (s.failed) … */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

struct json_scan {
    const char *at;
    bool failed; /* the text is not an object */
    struct strbuf key;
};

enum json_scan_kind {
    JSON_SCAN_INTEGER,
    JSON_SCAN_REAL,
    JSON_SCAN_STRING,
    JSON_SCAN_OBJECT,
    JSON_SCAN_OTHER /* an array, true, false or null */
};

struct json_scan_member { /* borrowed until the next call */
    const char *key;
    enum json_scan_kind kind;
    double number;    /* value of an integer, a real, or a string of json_number() ("nan", "inf") */
    bool is_number;   /* `number` is set */
    const char *text; /* the value as it is written */
    size_t len;
};

/* Begins a scan. Borrows `text`, which is NUL-terminated. */
struct json_scan json_scan_begin(const char *text);
/* Reads the next member. Returns false if there is none, or if the text is malformed; this last
 * call frees the memory of `s`. */
bool json_scan_next(struct json_scan *s, struct json_scan_member *m);

/* Returns the value of a member (new reference), or NULL if it is malformed. */
json_t *json_scan_value(const char *text, size_t len);
