/* job_limits - the limits of a job or a sweep: its time, the time at which it must end, and its
 * cost. Pure. */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"

enum { JOB_LIMITS_STATUS = 124 }; /* exit status of a job that a limit has stopped */

struct job_limits {            /* in all of these, 0 or NULL means not given */
    double timeout_s;          /* from the start of drover */
    double deadline_s;         /* seconds since 1970 … */
    const char *deadline_text; /* … and as the user wrote it */
    double budget_gpu_h;       /* in GPU hours … */
    double budget_money;       /* … or in the currency of `price` … */
    const char *budget_text;   /* … and as the user wrote it */
    double price;              /* of one GPU hour */
};

/* What all attempts of a job have used, or a sweep since its coordinator started. */
struct job_limits_usage {
    double seconds;   /* since the start of drover */
    double now_s;     /* seconds since 1970 */
    double gpu_hours; /* used so far */
    double gpus;      /* in use now */
};

/* In the order in which they are reported if several are reached at once. */
enum job_limit { JOB_LIMIT_TIMEOUT, JOB_LIMIT_DEADLINE, JOB_LIMIT_BUDGET, JOB_LIMITS };

/* Reads the budget from its text: "12gpuh" is in GPU hours, "30.00" in money.
 *   -EINVAL  malformed, not positive, or in money without a price */
int job_limits_parse_budget(struct job_limits *l, struct err *e);

/* Returns the budget in GPU hours; 0: none is given. */
double job_limits_budget_gpu_h(const struct job_limits *l);

/* Returns the seconds until the first limit is reached if the usage continues as it is, and sets
 * `*limit` to this limit. At most 0: it is reached. INFINITY: no limit will be. */
double job_limits_next_s(const struct job_limits *l, const struct job_limits_usage *u,
                         enum job_limit *limit);

/* Appends which limit was reached, and by how much it was exceeded at the end: "after 90 s
 * (--timeout) and ended 2.1 s later". The text follows "the job was stopped ". */
void job_limits_describe(struct strbuf *b, const struct job_limits *l, enum job_limit limit,
                         const struct job_limits_usage *at_end);
