/* job_advice - what limits a job, if its samples show that. Pure.
 *
 * The thresholds are in job_advice.c and in docs/drover-run.md. */
#pragma once

#include "launcher/watch/job_usage.h"

/* Bits, the first of which is that of job_advice_rows[0]. */
enum job_advice {
    JOB_ADVICE_LOADER = 1,        /* the GPUs wait for data */
    JOB_ADVICE_COMMUNICATION = 2, /* the GPUs wait for each other */
    JOB_ADVICE_BATCH = 4,         /* the GPUs have too little to do at a time */
    JOB_ADVICE_MEMORY = 8         /* little memory is free */
};
enum { JOB_ADVICE_ROWS = 4 };

struct job_advice_row {
    const char *name; /* in the event `usage`: "loader" */
    const char *text; /* a sentence without a full stop */
};
extern const struct job_advice_row job_advice_rows[JOB_ADVICE_ROWS];

/* Returns the bits of the advice that the samples support; 0: none. At most one of the first three
 * is set. */
unsigned job_advice(const struct job_usage_summary *s);
