/* history_peaks - the measured peaks of a program's memory in earlier jobs (history_jobs.h), for
 * the estimate of further ones. */
#pragma once

#include <stdint.h>

#include "common/err.h"

struct history_peak {
    int64_t batch;      /* -1: unknown */
    int64_t peak_bytes; /* of the GPU that is fullest; includes other processes' memory */
    char gpu[96];       /* model */
};

enum { HISTORY_PEAKS_MAX = 100 };

/* Reads the peaks of a program's jobs, newest first, at most HISTORY_PEAKS_MAX. `program` and
 * `hash` are those of history_command.h; without a hash (NULL), jobs with any options count. `*out`
 * is an array of `*count`, which the caller frees. It is NULL if there are none. Errors are those
 * of history_db_open(). */
int history_peaks_read(struct history_peak **out, int *count, const char *program, const char *hash,
                       struct err *e);
