/* last_lines - the last lines of a rank's output, kept to be shown if it fails.
 *
 * Lines are bytes without the newline; a longer line is cut at LAST_LINES_LINE_MAX. */
#ifndef DROVER_LAST_LINES_H
#define DROVER_LAST_LINES_H

#include <stddef.h>

#include "common/mem.h"

enum { LAST_LINES_LINE_MAX = 1000 };

struct last_lines;
/* Creates an empty buffer; lines_max > 0. Allocates lines when the first one arrives. */
struct last_lines *last_lines_new(int lines_max);
void last_lines_free(struct last_lines *t);
AUTO_DEFINE(last_lines, struct last_lines *, last_lines_free)

/* Copies `line`. Drops the oldest line if lines_max are held. */
void last_lines_push(struct last_lines *t, const char *line, size_t len);

int last_lines_count(const struct last_lines *t);

/* Returns the i-th line, 0 is the oldest; NULL: fewer than i + 1 lines are held. Borrowed until
 * the next last_lines_push(), and NUL-terminated (after any NUL bytes of its own). `len` may be
 * NULL. */
const char *last_lines_get(const struct last_lines *t, int i, size_t *len);

#endif
