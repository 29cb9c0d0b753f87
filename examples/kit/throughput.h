/* throughput - time, and model FLOPs utilisation (MFU; Chowdhery et al. 2022, "PaLM",
 * appendix B). */
#pragma once

#include <stdint.h>
#include <time.h>

/* Returns the seconds of a clock that is never set. */
static inline double throughput_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the FLOPs per token of training a transformer: 6 per parameter of the matrices, and
 * 6 * layers * channels * context for causal attention, which is half of the paper's figure. */
double throughput_flops_per_token(int64_t matrix_params, int layers, int channels, int context);

/* Returns the peak FLOP/s of a device for products in bfloat16 or float32 (without TF32), from a
 * table of NVIDIA's data sheets by the name that the CUDA runtime reports; 0: unknown, or the
 * device has no bfloat16. `source` gets the name of the data sheet. */
double throughput_peak(const char *device, int bf16, const char **source);

/* Returns the peak of one core of this CPU: its present clock * the FLOPs per cycle of its vector
 * units in float32; 0: unknown. */
double throughput_peak_cpu_core(const char **source);
