/* job_monitor - samples the GPUs, CPUs, disks and network of a running job on this machine, once
 * per second; or all GPUs and their processes.
 *
 * A thread reads NVML and /proc; nothing waits for it, since the driver may hang. */
#pragma once

#include "common/mem.h"
#include "launcher/gpu/gpu_sample.h"
#include "launcher/watch/job_usage.h"

struct job_monitor;

/* Starts to sample. `uuids`: the GPUs of this machine's ranks, one entry per GPU; NULL or empty: a
 * job without GPUs, of which only the rest is sampled. `cpus`: the ranks' CPUs ("0-3,8"); NULL: all
 * CPUs. `earlier`: the samples so far, which further ones are added to; NULL: none. All three are
 * copied. Returns NULL if no thread can be started. */
struct job_monitor *job_monitor_open(char *const *uuids, const char *cpus,
                                     const struct job_usage *earlier);
/* The same for all GPUs and their processes, and nothing else, at any interval. After a failure it
 * tries again, unless this machine has no GPUs. */
struct job_monitor *job_monitor_open_all(int interval_ms);
/* Stops to sample. The thread ends by itself. */
void job_monitor_close(struct job_monitor *m);
AUTO_DEFINE(job_monitor, struct job_monitor *, job_monitor_close)

/* In these functions `m` may be NULL. They never wait for the driver. */

/* The latest sample of each GPU. */
struct job_monitor_reading {
    struct gpu_sample *samples;
    int count;
    char problem[512]; /* of job_monitor_open_all(): why there are none; empty: nothing failed */
    int64_t number;    /* counts the readings; 0: none yet */
    int64_t at_ms;     /* clock_ms() of the reading; before the first one, of the start */
};

static inline void auto_job_monitor_reading(struct job_monitor_reading *r)
{
    free(r->samples);
}

/* Copies the latest reading; the caller frees its samples. */
void job_monitor_latest(struct job_monitor *m, struct job_monitor_reading *out);
/* Returns the number of the latest reading. */
int64_t job_monitor_number(struct job_monitor *m);
/* Returns a copy of the samples so far, which the caller frees, or NULL if `m` is NULL. */
struct job_usage *job_monitor_usage(struct job_monitor *m);
/* Returns how long all GPUs have been idle, as job_usage_idle_s(). */
double job_monitor_idle_s(struct job_monitor *m);
