/* exclude_file - nodes that jobs leave out, in a file that several jobs share: a node, the time
 * until which it is left out, and the reason per line.
 *
 *     # node  until (UTC, or - for ever)  reason
 *     c07     2026-11-26T14:30:00Z        gpu.answers: GPU 3: GPU_IS_LOST
 *     c19     -                           broken fan
 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

struct exclusion {
    char *node, *reason;
    int64_t until_s; /* Unix time; 0: for ever */
};

struct exclusions {
    struct exclusion *at;
    int count;
};

void exclude_file_free(struct exclusions *x);

/* Parses the text of a file, without the lines that have expired at `now_s`. Errors begin with
 * "what:LINE: ".
 *   -EINVAL  a line is malformed */
int exclude_file_parse(struct exclusions *out, const char *what, const char *text, int64_t now_s,
                       struct err *e);
/* Reads a file. A file that does not exist excludes no node. */
int exclude_file_read(struct exclusions *out, const char *path, int64_t now_s, struct err *e);
/* Writes a node into the file, instead of an earlier line about it, and removes lines that have
 * expired. Comments stay. Other processes wait in the meantime. */
int exclude_file_add(const char *path, const struct exclusion *x, int64_t now_s, struct err *e);

/* Returns the line about a node, or NULL. "me@c07" and "c07" are the same. */
const struct exclusion *exclude_file_find(const struct exclusions *x, const char *node);
