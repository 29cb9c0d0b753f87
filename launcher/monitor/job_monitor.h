/* job_monitor - samples the GPUs, CPUs, disks and network of a running job on this machine, once
 * per second.
 *
 * A thread reads NVML and /proc; nothing waits for it, since the driver may hang. */
#ifndef DROVER_JOB_MONITOR_H
#define DROVER_JOB_MONITOR_H

#include "common/mem.h"
#include "launcher/gpu/gpu_sample.h"

struct job_monitor;

/* Starts to sample. `uuids`: the GPUs of this machine's ranks, one entry per GPU (copied); empty: a
 * job without GPUs, of which only the rest is sampled. Returns NULL if no thread can be started. */
struct job_monitor *job_monitor_open(char *const *uuids);
void job_monitor_close(struct job_monitor *m);
AUTO_DEFINE(job_monitor, struct job_monitor *, job_monitor_close)

/* Copies the latest sample of each GPU into *out (malloced; the caller frees it). Returns their
 * number; 0 before the first sample. `m` may be NULL. */
int job_monitor_latest(struct job_monitor *m, struct gpu_sample **out);

#endif
