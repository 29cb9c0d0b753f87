/* gpu_sampler - reads the values of the GPUs of this machine, once or again and again. A process
 * calls NVML: a driver that hangs never returns, and a thread in it could not be ended. */
#pragma once

#include "launcher/gpu/gpu_facts.h"

enum { GPU_DRIVER_MS = 30000 }; /* a driver that has not answered by then hangs */

struct gpu_sampler;

struct gpu_sampler_opts {
    unsigned purposes;  /* what the values are for; with GPU_USE and GPU_SAMPLE a MIG instance
                           stands for its GPU */
    char *const *uuids; /* a strv: only these GPUs and MIG instances; NULL: all */
    uint64_t only;      /* a bit per index: the others are listed without values; 0: all */
};

/* Starts the process, which ends with the calling thread. Fast: the driver is not called yet.
 *   -ENODEV  no driver is loaded */
int gpu_sampler_open(struct gpu_sampler **out, const struct gpu_sampler_opts *o, struct err *e);
/* Ends it. One that waits in the kernel is left behind. */
void gpu_sampler_close(struct gpu_sampler *s);
AUTO_DEFINE(gpu_sampler, struct gpu_sampler *, gpu_sampler_close)

/* Reads all values. `*out` has `*count` entries, which do not change their places; borrowed until
 * the next call. They are incomplete after -ETIMEDOUT. The next call then waits for this reading,
 * and gives it: a driver that needs longer than the deadline gives every second one.
 *   -ENODEV     no library, no driver, or none of these GPUs
 *   -EIO        the driver does not respond
 *   -ETIMEDOUT  it has not answered yet */
int gpu_sampler_read(struct gpu_sampler *s, const struct gpu_sample **out, int *count,
                     int deadline_ms, struct err *e);

/* Returns the value whose call is in progress, and its GPU. */
enum gpu_fact gpu_sampler_at(const struct gpu_sampler *s, int *gpu);

/* Runs a function in the process, after NVML is initialised, and returns its result. It gets a copy
 * of `inout`, which has `size` bytes, and which is copied back; all other memory is as it was at
 * gpu_sampler_open(). NULL: all values are read. Errors as of gpu_sampler_read(); after -ETIMEDOUT
 * the function still runs, and the next call waits for it first. */
enum { GPU_SAMPLER_BYTES = 256 }; /* at most */
typedef int gpu_sampler_fn(const struct nvml *n, void *inout, struct err *e);
int gpu_sampler_call(struct gpu_sampler *s, gpu_sampler_fn *fn, void *inout, size_t size,
                     int deadline_ms, struct err *e);
/* Returns the code of nvmlInit_v2(); -1: the library was not loaded. */
int gpu_sampler_init_code(const struct gpu_sampler *s);

/* Lists GPUs once, without those that the driver has lost. The caller frees `*out`; NULL and 0 if
 * there is no driver or no GPU.
 *   -EIO, -ETIMEDOUT  as above */
int gpu_sampler_once(struct gpu_sample **out, int *count, unsigned purposes, int deadline_ms,
                     struct err *e);
