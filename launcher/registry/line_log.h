/* ring - the last lines of each rank, in a mapped file that another process reads meanwhile.
 *
 * A line costs a copy. The room of a rank is 256 KiB, taken as its lines come; less where there are
 * more than 64 ranks (16 MiB in all, but 4 KiB each at least). Where the file system is
 * full, no lines are kept. */
#ifndef DROVER_LINE_LOG_H
#define DROVER_LINE_LOG_H

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/strbuf.h"

struct line_log;

/* Makes the file at `path`, with mode 0600. -EEXIST where there is one. */
int line_log_make(struct line_log **out, const char *path, int ranks, struct err *e);
/* Opens one that somebody else has made, for line_log_read() only.
 *   -EBADMSG  it is none, or cut */
int line_log_open(struct line_log **out, const char *path, struct err *e);
/* The file stays. */
void line_log_close(struct line_log *r);
AUTO_DEFINE(line_log, struct line_log *, line_log_close)

/* Adds a line and a newline. Of what is longer than the ring, the end is kept. */
void line_log_add(struct line_log *r, int rank, const char *text, size_t len);

int line_log_ranks(const struct line_log *r);
/* Appends what the rank has written since `*at` (0: the oldest that is left), and moves `*at` on.
 * Begins with a whole line where older ones are gone. */
void line_log_read(struct line_log *r, int rank, uint64_t *at, struct strbuf *out);

#endif
