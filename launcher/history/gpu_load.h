/* gpu_load - how busy the GPUs of a job on this machine are, sampled by a thread.
 *
 * The driver may take tens of milliseconds to answer, or hang. So the loop never waits for the
 * thread, which ends by itself after gpu_load_close(). */
#ifndef DROVER_GPU_LOAD_H
#define DROVER_GPU_LOAD_H

#include "common/mem.h"

struct gpu_load;

/* Starts to sample the GPUs with these UUIDs (a strv, which is copied). Returns NULL if there are
 * none, or if no thread can be started. */
struct gpu_load *gpu_load_open(char *const *uuids);
void gpu_load_close(struct gpu_load *g);
AUTO_DEFINE(gpu_load, struct gpu_load *, gpu_load_close)

/* Returns the mean share of the time in which the GPUs were busy (1: all of it), or -1 if no sample
 * has arrived yet or the driver does not report it, as for MIG instances. `g` may be NULL. */
double gpu_load_mean(struct gpu_load *g);

#endif
