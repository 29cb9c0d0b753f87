/* nvml_child - the process that calls NVML: a driver that hangs never returns, and a thread in it
 * could not be ended. Each user has one of its own, which shares memory with it. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "launcher/gpu/nvml.h"

struct nvml_child;

/* What the process runs, after it has loaded and initialised NVML. The memory is shared with this
 * process, and all other memory is as it was at nvml_child_start(). */
typedef int nvml_child_fn(const struct nvml *n, void *memory, struct err *e);

/* Starts the process, which ends with the calling thread. `*memory` has `size` bytes, zero.
 *   -ENODEV  no driver is loaded */
int nvml_child_start(struct nvml_child **out, void **memory, size_t size, struct err *e);
/* Ends it. One that waits in the kernel is left behind. */
void nvml_child_stop(struct nvml_child *c);
AUTO_DEFINE(nvml_child, struct nvml_child *, nvml_child_stop)

/* Lets the process run a function, and returns its result. A function that has not returned in time
 * still runs; the next call waits for it first.
 *   -ENODEV     no library, or no driver is loaded
 *   -EIO        the driver does not respond
 *   -ETIMEDOUT  the function has not returned */
int nvml_child_run(struct nvml_child *c, nvml_child_fn *fn, int deadline_ms, struct err *e);

/* Returns the code of nvmlInit_v2(); -1: the library was not loaded. */
int nvml_child_init_code(const struct nvml_child *c);
