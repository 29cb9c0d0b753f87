/* tail - the last lines that a rank wrote, kept to be shown when it fails.
 *
 * Lines are bytes without the newline; one longer than TAIL_LINE_MAX is cut there. */
#ifndef DROVER_LAST_LINES_H
#define DROVER_LAST_LINES_H

#include <stddef.h>

#include "common/mem.h"

enum { TAIL_LINE_MAX = 1000 };

struct tail;
/* Holds nothing until the first line comes. lines_max > 0. */
struct tail *tail_new(int lines_max);
void tail_free(struct tail *t);
AUTO_DEFINE(tail, struct tail *, tail_free)

/* Copies `line`. The oldest line goes when lines_max are held. */
void tail_push(struct tail *t, const char *line, size_t len);

int tail_count(const struct tail *t);

/* Borrowed until the next tail_push(), and NUL-terminated (after any NUL of its own); NULL where
 * fewer than i + 1 lines are held. 0 is the oldest. `len` may be NULL. */
const char *tail_get(const struct tail *t, int i, size_t *len);

#endif
