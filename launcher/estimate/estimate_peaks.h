/* estimate_peaks - the peaks that earlier jobs of a program needed, from the history. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "launcher/estimate/estimate.h"
#include "launcher/jobs/history_command.h"

/* Reads the peaks of jobs with the same program and options, newest first. A job whose batch is not
 * known is left out. The caller frees `*out`. Errors are those of history_jobs_read(). */
int estimate_peaks_read(struct estimate_peak **out, size_t *count, const struct history_command *c,
                        struct err *e);
