/* usage_report - what a job has used, as the last line of `drover run` and as the event `usage`.
 * Pure. Unknown figures are left out. */
#pragma once

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/watch/job_usage.h"

struct usage_facts {
    int gpus;                 /* of the whole job */
    const int *ranks;         /* by GPU of the summary: the first rank that uses it … */
    const char *const *nodes; /* … and its node; NULL: unknown */
    double gpu_hours;         /* of the whole job */
    double price;             /* of a GPU hour; 0: not given */
};

/* Returns the cost of the job, or -1 without a price. */
double usage_report_cost(const struct usage_facts *f);

/* Returns the word of JSON for what a peak is the peak of: "job"; "gpu": all processes on the GPU,
 * since the driver did not list those of the job; NULL if it is unknown. */
const char *usage_report_peak_of(int64_t peak_bytes, bool of_all);

/* Appends "8 GPUs · utilisation 71 % (rank 3: 34 %) · …" as one line, and one line per advice. Each
 * begins with `program` and a colon. Appends nothing if nothing but the number of GPUs is known. */
void usage_report_print(struct strbuf *b, const char *program, const struct job_usage_summary *s,
                        const struct usage_facts *f);
/* Returns the members of the event (new reference). */
json_t *usage_report_event(const struct job_usage_summary *s, const struct usage_facts *f);
