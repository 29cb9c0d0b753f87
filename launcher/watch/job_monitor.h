/* job_monitor - samples the GPUs, CPUs, disks and network of a running job on this machine, once
 * per second; or all GPUs and their processes.
 *
 * A thread reads NVML and /proc; nothing waits for it, since the driver may hang. The GPUs of other
 * nodes are sampled by monitors there, whose readings are imported. */
#pragma once

#include "common/mem.h"
#include "launcher/gpu/gpu_sample.h"
#include "launcher/watch/job_usage.h"

struct job_monitor;

/* Starts to sample. `uuids`: the GPUs of this machine's ranks, one entry per GPU; NULL or empty: a
 * job without GPUs here, of which only the rest is sampled. `cpus`: the ranks' CPUs ("0-3,8");
 * NULL: all CPUs; empty: only GPUs are sampled. `job_id`: processes with this DROVER_JOB_ID belong
 * to the job, in addition to those that descend from this process; NULL: only these. `earlier`: the
 * samples so far, which further ones are added to; NULL: none. All four are copied. Returns NULL if
 * no thread can be started. */
struct job_monitor *job_monitor_open(char *const *uuids, const char *cpus, const char *job_id,
                                     const struct job_usage *earlier);
/* The same for all GPUs and their processes, and nothing else, at any interval. After a failure it
 * tries again, unless this machine has no GPUs. */
struct job_monitor *job_monitor_open_all(int interval_ms);
/* Stops to sample. The thread ends by itself. */
void job_monitor_close(struct job_monitor *m);
AUTO_DEFINE(job_monitor, struct job_monitor *, job_monitor_close)

/* In these functions `m` may be NULL. They never wait for the driver. */

enum {
    JOB_MONITOR_HERE = -1,
    JOB_MONITOR_REFRESH_MS = 300 /* for job_monitor_refresh(): a driver that works needs 20 */
};

/* The latest sample of each GPU. */
struct job_monitor_reading {
    struct gpu_sample *samples;
    int *nodes; /* by sample: the node, as job_monitor_import() got it; JOB_MONITOR_HERE */
    int count;
    char problem[512]; /* of job_monitor_open_all(): why there are none; empty: nothing failed */
    int64_t number;    /* counts the readings of all nodes; 0: none yet */
    int64_t at_ms;     /* clock_ms() of this machine's; before the first one, of the start */
};

static inline void auto_job_monitor_reading(struct job_monitor_reading *r)
{
    free(r->samples);
    free(r->nodes);
}

/* Copies the latest reading, for auto_job_monitor_reading(). That of another node is left out when
 * it is 10 s old. */
void job_monitor_latest(struct job_monitor *m, struct job_monitor_reading *out);
/* Returns the number of the latest reading. */
int64_t job_monitor_number(struct job_monitor *m);
/* Returns a copy of the samples so far, which the caller frees, or NULL if `m` is NULL. */
struct job_usage *job_monitor_usage(struct job_monitor *m);
/* Returns how long all of the job's `gpus` GPUs have been idle, as job_usage_idle_s(). */
double job_monitor_idle_s(struct job_monitor *m, int gpus);
/* Returns true if a GPU has worked (gpu_sample_is_active()) in a reading since the last call. */
bool job_monitor_has_worked(struct job_monitor *m);

/* Returns the latest reading as text for job_monitor_import(), and sets `*number` to its number;
 * NULL: `*number` is the latest one already. The caller frees it. */
char *job_monitor_export(struct job_monitor *m, int64_t *number);
/* Samples the GPUs of this machine now, and waits until that is done, for `limit_ms` at most. */
void job_monitor_refresh(struct job_monitor *m, int limit_ms);
/* Adds a reading of another node's GPUs; `m` is not NULL, and of a job. -EINVAL  malformed */
int job_monitor_import(struct job_monitor *m, int node, const char *text, size_t len,
                       struct err *e);
