/* job_monitor - samples the GPUs, CPUs, disks and network of a running job on this machine, once
 * per second.
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
/* Stops to sample. The thread ends by itself. */
void job_monitor_close(struct job_monitor *m);
AUTO_DEFINE(job_monitor, struct job_monitor *, job_monitor_close)

/* In these functions `m` may be NULL. They never wait for the driver. */

/* Copies the latest sample of each GPU into *out (malloced; the caller frees it). Returns their
 * number; 0 and NULL before the first sample. */
int job_monitor_latest(struct job_monitor *m, struct gpu_sample **out);
/* Returns a copy of the samples so far, which the caller frees, or NULL if `m` is NULL. */
struct job_usage *job_monitor_usage(struct job_monitor *m);
/* Returns how long all GPUs have been idle, as job_usage_idle_s(). */
double job_monitor_idle_s(struct job_monitor *m);
