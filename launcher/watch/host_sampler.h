/* host_sampler - reads the counters of this machine's CPUs, disks and network links from /proc and
 * /sys. */
#pragma once

#include "common/mem.h"
#include "launcher/watch/job_usage.h"

struct host_sampler;

/* `cpus`: the CPUs that count ("0-3,8"); NULL: all. `root`: the directory that contains proc and
 * sys; "" for this machine. */
struct host_sampler *host_sampler_open(const char *cpus, const char *root);
void host_sampler_close(struct host_sampler *h);
AUTO_DEFINE(host_sampler, struct host_sampler *, host_sampler_close)

/* A counter that the machine does not have is UNKNOWN: a container has no network device of its
 * own, for example. */
void host_sampler_read(const struct host_sampler *h, struct host_sample *out);
