/* tail - the last lines that a rank wrote, kept to be shown when it fails.
 *
 * Lines are bytes without the newline; one longer than LAST_LINES_LINE_MAX is cut there. */
#ifndef DROVER_LAST_LINES_H
#define DROVER_LAST_LINES_H

#include <stddef.h>

#include "common/mem.h"

enum { LAST_LINES_LINE_MAX = 1000 };

struct last_lines;
/* Holds nothing until the first line comes. lines_max > 0. */
struct last_lines *last_lines_new(int lines_max);
void last_lines_free(struct last_lines *t);
AUTO_DEFINE(last_lines, struct last_lines *, last_lines_free)

/* Copies `line`. The oldest line goes when lines_max are held. */
void last_lines_push(struct last_lines *t, const char *line, size_t len);

int last_lines_count(const struct last_lines *t);

/* Borrowed until the next last_lines_push(), and NUL-terminated (after any NUL of its own); NULL
 * where fewer than i + 1 lines are held. 0 is the oldest. `len` may be NULL. */
const char *last_lines_get(const struct last_lines *t, int i, size_t *len);

#endif
