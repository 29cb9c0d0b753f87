/* job_advice - what limits a job, if its samples show that. Pure.
 *
 * The thresholds are in job_advice.c and in docs/drover-run.md. */
#pragma once

#include "launcher/watch/job_usage.h"

enum job_advice {
    JOB_ADVICE_LOADER = 1,        /* the GPUs wait for data */
    JOB_ADVICE_COMMUNICATION = 2, /* the GPUs wait for each other */
    JOB_ADVICE_BATCH = 4,         /* the GPUs have too little to do at a time */
    JOB_ADVICE_MEMORY = 8         /* little memory is free */
};

/* Returns the bits of the advice that the samples support; 0: none. At most one of the first three
 * is set. */
unsigned job_advice(const struct job_usage_summary *s);
/* Returns the text of one advice: a sentence without a full stop. */
const char *job_advice_text(enum job_advice a);
/* Returns its word in the event `usage`: "loader". */
const char *job_advice_name(enum job_advice a);
