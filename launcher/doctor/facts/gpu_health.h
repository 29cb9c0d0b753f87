/* gpu_health - what NVML says about each GPU, for the checks of `drover doctor`. All checks of a
 * process ask one gpu_sampler, and each function of NVML is called once. */
#pragma once

#include "launcher/doctor/core/check.h"
#include "launcher/gpu/gpu_sampler.h"

enum { GPU_HEALTH_GPUS_MAX = 64 };

/* Initialises NVML at the first call. Returns NVML's code of nvmlInit_v2(), or -1 if the library
 * cannot be loaded: `why` (may be NULL) then has the cause, if there is a device node. */
int gpu_health_open(const struct check_env *env, struct err *why);

/* Asks the GPUs of env->gpus, at the first call in a process. The others have no value. Sets
 * `*count`. Returns the GPUs, or NULL if NVML is not available or reports no GPU. They are
 * incomplete if gpu_health_stuck(). */
const struct gpu_sample *gpu_health_read(const struct check_env *env, int *count);

/* Returns true if a call has not returned in time: that of `*gpu`. */
bool gpu_health_stuck(int *gpu, enum gpu_fact *fact, int *waited_ms);

/* Returns true if the value is known: it is then in `*out`, which may be NULL. */
bool gpu_health_get(long long *out, const struct gpu_sample *s, enum gpu_fact f);

/* Asks for one value again. Returns false if it is unknown, as it is if NVML does not return. */
bool gpu_health_again(long long *out, const struct gpu_sample *s, enum gpu_fact f);

/* Runs a function on NVML, as gpu_sampler_call(). Returns false if it could not. */
bool gpu_health_call(nvml_child_fn *fn, void *inout, size_t size);

/* Waits until a counter that grows would have grown: some time after gpu_health_read(). */
void gpu_health_let_counters_grow(const struct check_env *env);
