/* gpu_findings - what is wrong with some of the GPUs, as one result of a check. */
#pragma once

#include "common/strbuf.h"
#include "launcher/doctor/core/check.h"
#include "launcher/doctor/facts/gpu_health.h"

struct gpu_findings {
    struct strbuf fail, warn; /* "GPU 3: …; GPU 5: …" */
    int known;                /* GPUs whose values could be read */
};

void gpu_findings_free(struct gpu_findings *f);
static inline void auto_gpu_findings(struct gpu_findings *f)
{
    gpu_findings_free(f);
}

/* Adds "GPU 3: TEXT"; `gpu` < 0: only the text. */
void gpu_findings_add(struct gpu_findings *f, enum check_state s, int gpu, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets the result: the failures, or else the warnings, or else `ok`; a skip if no GPU is known. */
void gpu_findings_report(struct check_result *r, const struct gpu_findings *f, const char *want,
                         const char *source, const char *ok);

/* Returns the facts of all GPUs; NULL, with a skip as the result, if there are none. */
const struct gpu_sample *gpu_findings_facts(struct check_result *r, struct check_env *env,
                                            int *count);
