/* gpu_health - what NVML says about each GPU, for the checks of `drover doctor`, and what is wrong
 * with some of them, as one result of a check. All checks of a process ask one gpu_sampler, and
 * each function of NVML is called once. */
#pragma once

#include "common/strbuf.h"
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
bool gpu_health_call(gpu_sampler_fn *fn, void *inout, size_t size);

/* Waits until a counter that grows would have grown: some time after gpu_health_read(). */
void gpu_health_let_counters_grow(const struct check_env *env);

/* ---- findings ------------------------------------------------------------------------------- */

struct gpu_health {
    const struct check_env *env;
    const struct gpu_sample *gpus;
    int count;
    struct strbuf fail, warn; /* "GPU 3: …; GPU 5: …" */
    int known;                /* GPUs whose values could be read */
};

void gpu_health_free(struct gpu_health *h);
static inline void auto_gpu_health(struct gpu_health *h)
{
    gpu_health_free(h);
}

/* Sets env, gpus and count. Returns false, with a skip as the result, if there are no GPUs, or if
 * one does not answer. */
bool gpu_health_begin(struct gpu_health *h, struct check_result *r, const struct check_env *env);

/* Adds "GPU 3: TEXT"; `gpu` < 0: only the text. */
void gpu_health_add(struct gpu_health *h, enum check_state s, int gpu, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets the result: the failures, or else the warnings, or else `ok`; a skip if no GPU is known. */
void gpu_health_report(struct check_result *r, const struct gpu_health *h, const char *want,
                       const char *source, const char *ok);

/* A check of each GPU alone. */
struct gpu_health_check {
    /* Adds what is wrong with GPU i, and counts it in `known`. */
    void (*look)(struct gpu_health *h, const struct gpu_sample *g, int i);
    const char *want;
    enum gpu_fact source;
    const char *ok;
    const char *none; /* why the check is skipped if no GPU is known; NULL: `source` is missing */
};

/* The `run` of such a check, which is the row's `each`. */
void gpu_health_check_each(struct check_result *r, struct check_env *env);
