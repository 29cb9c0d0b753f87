/* json_scan - the members of a JSON object in text, one after the other, without a tree.
 *
 * For text that json_dumps() wrote, of which a sweep has hundreds of thousands of short ones:
 *
 *     struct json_scan s = json_scan_begin(text);
 *     for (struct json_scan_member m; json_scan_next(&s, &m);)
 *         …
 *     if (s.failed) … */
#ifndef DROVER_JSON_SCAN_H
#define DROVER_JSON_SCAN_H

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
    double number;    /* of an integer or a real; of the strings of json_number(): "nan", "inf" */
    bool is_number;   /* `number` is set */
    const char *text; /* the value as it is written */
    size_t len;
};

/* Borrows `text`, NUL-terminated. */
struct json_scan json_scan_begin(const char *text);
/* Returns the next member; false: there is none, or the text is malformed. The last call frees. */
bool json_scan_next(struct json_scan *s, struct json_scan_member *m);

/* Returns the value of a member (new reference); NULL: it is malformed. */
json_t *json_scan_value(const char *text, size_t len);

#endif
