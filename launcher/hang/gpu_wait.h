/* gpu_wait - tells a GPU that computes from one whose kernel only waits for other ranks. Pure.
 *
 * On an H100 whose NCCL kernel waits, NVML reports a utilisation of 100 %, a memory utilisation of
 * 0 %, 119 W, constant to 0.1 W (idle: 73 W; limit: 700 W), and PCIe and NVLink counters that stand
 * still. A product of matrices has 505 W and a memory utilisation of 1 % or more. */
#pragma once

#include <stdint.h>

#include "launcher/gpu/gpu_sample.h"

enum gpu_wait {
    GPU_WAIT_UNKNOWN, /* the rank has no GPU, or the driver does not report its utilisation */
    GPU_WAIT_IDLE,
    GPU_WAIT_SPINS, /* a kernel runs all the time and moves no data */
    GPU_WAIT_WORKS
};

/* What the previous sample had; zero before the first one. */
struct gpu_wait_state {
    int64_t power_mw, nvlink_bytes;
};

/* Returns what a GPU does, and keeps in `s` what the next call compares. */
enum gpu_wait gpu_wait_add(struct gpu_wait_state *s, const struct gpu_sample *g);
