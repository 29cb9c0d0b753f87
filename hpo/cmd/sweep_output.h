/* sweep_output - the files that a trial has written in its sweep's directory. */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include "hpo/reader/sweep_reader.h"

/* Reads the number of a trial that exists.
 *   -EINVAL, -ERANGE  not a number
 *   -ENOENT           there is no such trial; the hint has the numbers */
int sweep_output_trial(size_t *trial, const struct sweep_reader *v, const char *word,
                       struct err *e);

/* Returns the directory of the trial's last lease, which the caller frees; NULL: it was never
 * leased. The directory does not exist if the trial ran on a node that keeps its own. */
char *sweep_output_dir(const struct sweep_reader *v, size_t trial);

/* Appends the files of `dir`, one per line with its size, and the last `lines` lines of stdout and
 * stderr. `node` is the node of the lease; NULL: not known. */
void sweep_output_print(struct strbuf *out, const char *dir, const char *node, int lines);

/* Returns the position in the file from which the last `lines` lines follow; lines < 0: 0. */
off_t sweep_output_last_lines(int fd, int lines);
