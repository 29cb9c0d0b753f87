/* line_log - the last lines of each rank in a memory-mapped ring buffer, which `drover logs` reads
 * while the job writes it.
 *
 * A line costs one copy. Each rank has 256 KiB, allocated as its lines arrive; less for more than
 * 64 ranks (16 MiB in total, but at least 4 KiB per rank). If the file system is full, no lines are
 * kept. The line that a rank has not ended yet follows its lines, until the next one replaces it.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/strbuf.h"

struct line_log;

/* Creates the file at `path` with mode 0600.
 *   -EEXIST  the file exists */
int line_log_make(struct line_log **out, const char *path, int ranks, struct err *e);
/* Opens the file of another process, for line_log_read() only.
 *   -EBADMSG  not a line log, or truncated */
int line_log_open(struct line_log **out, const char *path, struct err *e);
/* Does not remove the file. */
void line_log_close(struct line_log *r);
AUTO_DEFINE(line_log, struct line_log *, line_log_close)

/* Adds a line and a newline. Of a line that exceeds the buffer, the end is kept. */
void line_log_add(struct line_log *r, int rank, const char *text, size_t len);
/* Sets the rank's unfinished line, from its first byte. A line that exceeds the buffer is not
 * kept. */
void line_log_set_partial(struct line_log *r, int rank, const char *text, size_t len);

int line_log_ranks(const struct line_log *r);
/* Appends what the rank has written since position `*at` (0: from the oldest line that is kept),
 * and advances `*at`. If lines in between were overwritten, the text begins with a complete line.
 */
void line_log_read(struct line_log *r, int rank, uint64_t *at, struct strbuf *out);
/* Appends the rank's unfinished line, if `at` is the end of its lines. */
void line_log_read_partial(const struct line_log *r, int rank, uint64_t at, struct strbuf *out);
