/* kit_place - jobs and GPUs of tests. */
#pragma once

#include "common/rng.h"
#include "launcher/place/place_gpu.h"
#include "launcher/place/place_job.h"
#include "tests/unit/kit_temp_file.h"
#include "tests/unit/test.h"

#define GIB (UINT64_C(1) << 30)

static inline void kit_use(struct place_gpu *g, uint64_t bytes)
{
    uint64_t total = place_gpu_memory(g);
    gpu_sample_set(&g->now, GPU_FACT_MEMORY_USED, (int64_t)bytes);
    gpu_sample_set(&g->now, GPU_FACT_MEMORY_FREE, (int64_t)(bytes < total ? total - bytes : 0));
}

/* Returns an idle GPU. */
static inline struct place_gpu kit_gpu(int index, const char *model, uint64_t gib)
{
    struct place_gpu g = {.now = {.gpu = {.index = index, .numa = -1}}};
    gpu_sample_set(&g.now, GPU_FACT_MEMORY_TOTAL, (int64_t)(gib * GIB));
    kit_use(&g, 0);
    snprintf(g.now.gpu.uuid, sizeof g.now.gpu.uuid, "GPU-%04d", index);
    snprintf(g.now.gpu.name, sizeof g.now.gpu.name, "%s", model);
    snprintf(g.now.gpu.bus_id, sizeof g.now.gpu.bus_id, "0000:%02x:00.0", index);
    return g;
}

/* Reads a job file with this text. */
static inline int kit_job(struct place_job **out, const char *text, struct err *e)
{
    struct place p = make_place();
    AUTO(free) char *path = xasprintf("%s", p.path);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    int rc = place_job_read(out, path, e);
    remove_place(&p);
    return rc;
}

static inline struct place_job *kit_job_of(const char *text)
{
    struct place_job *j = NULL;
    struct err e = {0};
    if (kit_job(&j, text, &e) < 0)
        FAIL("%s", e.text);
    return j;
}

static inline void kit_seed(struct rng *r)
{
    const char *given = getenv("DROVER_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)getpid();
    fprintf(stderr, "# DROVER_TEST_SEED=%llu\n", (unsigned long long)seed);
    rng_seed(r, seed, 0);
}
