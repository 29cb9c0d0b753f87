/* place_gpu - a GPU or MIG instance as placement sees it, the words of job files that mean it, and
 * the speed of known models. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/gpu/gpu_sample.h"

struct place_gpu {
    struct gpu_sample now; /* of a MIG instance: with the name of its GPU, and without NVLinks */
    bool mig;
    bool hidden;     /* CUDA_VISIBLE_DEVICES does not show it */
    bool locked;     /* a placed job has its lock */
    bool reserved;   /* an earlier placement waits for it */
    bool used;       /* processes use it, or memory whose processes are invisible */
    char users[256]; /* who locks or uses it; empty: no process */
    char **labels;   /* a strv */
};

/* Returns true if a word of a job file means the GPU: its index, the beginning of its UUID
 * ("GPU-5c8b"), one of its labels, or words of its model in any form: "a100", "A100-SXM4-40GB",
 * "V100-32GB", "RTX_3090". All words of the model must occur; "40GB" may also be its memory. */
bool place_gpu_is(const struct place_gpu *g, const char *word);

/* Return its memory in bytes, and how much of it no process uses; 0: unknown. */
uint64_t place_gpu_memory(const struct place_gpu *g);
uint64_t place_gpu_free(const struct place_gpu *g);

/* Writes "GPU3", or "GPU3/MIG-5a1f…" for a MIG instance, and returns `buf`. `size` 40 suffices. */
const char *place_gpu_name(char *buf, size_t size, const struct place_gpu *g);

/* Returns the dense FP16 TFLOP/s of the model with accumulation in FP32, from its data sheet; 0:
 * unknown, as for MIG instances. */
double place_gpu_tflops(const struct place_gpu *g);
