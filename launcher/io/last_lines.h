/* last_lines - keeps the last lines of a rank's output, which are shown if the rank fails.
 *
 * Lines are bytes without the newline; a longer line is cut at LAST_LINES_LINE_MAX. */
#pragma once

#include <stddef.h>

#include "common/mem.h"

enum { LAST_LINES_LINE_MAX = 1000 };

struct last_lines;
/* Creates a buffer for up to `lines_max` (> 0) lines. Its memory is allocated when the first line
 * arrives. */
struct last_lines *last_lines_new(int lines_max);
void last_lines_free(struct last_lines *t);
AUTO_DEFINE(last_lines, struct last_lines *, last_lines_free)

/* Adds a copy of `line`. Drops the oldest line if the buffer is full. */
void last_lines_push(struct last_lines *t, const char *line, size_t len);

int last_lines_count(const struct last_lines *t);

/* Returns the i-th line, where 0 is the oldest, or NULL if the buffer has fewer lines. The line is
 * borrowed until the next last_lines_push(). A NUL byte follows it, and it may also contain NUL
 * bytes. `len` may be NULL. */
const char *last_lines_get(const struct last_lines *t, int i, size_t *len);

/* Appends copies of all lines to the strv `out`. A line ends at its first NUL byte. */
void last_lines_copy(char ***out, const struct last_lines *t);
