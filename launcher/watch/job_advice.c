#include "launcher/watch/job_advice.h"

#include <stdbool.h>

enum { SAMPLES_MIN = 60 }; /* one per second: the start of a program says little */

static const double low_utilisation = 0.30;
static const double busy_cpus = 0.70;  /* of the ranks' CPUs */
static const double wait_cpus = 0.20;  /* of the same, waiting for a disk */
static const double busy_links = 0.30; /* of the capacity, in both directions */
static const double low_power = 0.40; /* of the limit: kernels run, but mostly wait, as NCCL's do */
static const double low_memory = 0.50, full_memory = 0.95;

const struct job_advice_row job_advice_rows[JOB_ADVICE_ROWS] = {
    {"loader",
     "the GPUs wait for data while the CPUs or disks are busy: use more or faster workers of the "
     "data loader, or data that needs less decoding"},
    {"communication",
     "the GPUs wait while the links between them are busy: accumulate gradients over more steps, "
     "or use ranks that are closer to each other (drover topo)"},
    {"batch",
     "the GPUs have little work at a time, and more than half of their memory is free: use a "
     "larger batch"},
    {"memory",
     "more than 95 % of a GPU's memory was used: drover estimate lists what needs less of it"},
};

/* Returns the reason of a low utilisation. Links come first: ranks that wait for each other often
 * spin, which looks like busy CPUs. */
static unsigned reason_of_waits(const struct job_usage_summary *s)
{
    bool low = s->utilisation >= 0 && s->utilisation < low_utilisation;
    bool waits = s->power_share >= 0 && s->power_share < low_power && s->utilisation >= 0;
    if ((low || waits) && s->link_share >= busy_links)
        return JOB_ADVICE_COMMUNICATION;
    if (low && (s->cpu_busy >= busy_cpus || s->cpu_wait >= wait_cpus))
        return JOB_ADVICE_LOADER;
    return low && s->memory_share >= 0 && s->memory_share < low_memory ? JOB_ADVICE_BATCH : 0;
}

unsigned job_advice(const struct job_usage_summary *s)
{
    if (s->samples < SAMPLES_MIN)
        return 0;
    return reason_of_waits(s) | (s->memory_share > full_memory ? JOB_ADVICE_MEMORY : 0);
}
