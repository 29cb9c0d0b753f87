#include "throughput.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* TFLOP/s without sparsity; bf16 with accumulation in float32, 0: not on the data sheet. */
static const struct peak {
    const char *device, *source; /* a pattern of the CUDA runtime's name, and the data sheet */
    double bf16, fp32;
} peaks[] = {
    {"* T4", "NVIDIA T4 data sheet", 0, 8.1},
    {"* V100-PCIE-*", "NVIDIA V100 data sheet", 0, 14},
    {"* V100-SXM2-*", "NVIDIA V100 data sheet", 0, 15.7},
    {"* A10", "NVIDIA A10 data sheet", 125, 31.2},
    {"* A100[- ]*", "NVIDIA A100 data sheet", 312, 19.5},
    {"* L4", "NVIDIA L4 data sheet", 121, 30.3},
    {"* L40S", "NVIDIA L40S data sheet", 362, 91.6},
    {"* RTX 3090", "NVIDIA Ampere GA102 white paper", 71, 35.6},
    {"* RTX 4090", "NVIDIA Ada white paper", 165.2, 82.6},
    {"* RTX 5090", "NVIDIA RTX Blackwell white paper", 209.5, 104.8},
    {"* H100 PCIe", "NVIDIA H100 data sheet", 756, 51},
    {"* H100*HBM3", "NVIDIA H100 data sheet", 989, 67},
    {"* H200", "NVIDIA H200 data sheet", 989, 67},
    {"* B200", "NVIDIA HGX B200 data sheet", 2250, 75},
};

double throughput_flops_per_token(int64_t matrix_params, int layers, int channels, int context)
{
    return 6.0 * (double)matrix_params + 6.0 * layers * channels * context;
}

double throughput_peak(const char *device, int bf16, const char **source)
{
    for (const struct peak *p = peaks; p < peaks + sizeof peaks / sizeof *peaks; p++)
        if (fnmatch(p->device, device, 0) == 0 && !strstr(device, " MIG ")) {
            *source = p->source;
            return 1e12 * (bf16 ? p->bf16 : p->fp32);
        }
    *source = "unknown device";
    return 0;
}

double throughput_peak_cpu_core(const char **source)
{
    /* Two units of multiply-add, or one that multiplies and one that adds. */
    static const struct {
        const char *flag;
        int flops; /* per cycle */
    } units[] = {{" avx512f ", 64}, {" fma ", 32}, {" avx ", 16}, {" sse2 ", 8}, {"", 0}};
    static char text[128];
    char line[8192] = "";
    double mhz = 0;
    int family = 0, unit = 0;
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f) && strncmp(line, "flags", 5) != 0)
        if (sscanf(line, "cpu MHz : %lf", &mhz) != 1)
            (void)sscanf(line, "cpu family : %d", &family);
    if (f)
        fclose(f);
    while (!strstr(line, units[unit].flag))
        unit++;
    unit += unit == 0 && family == 25; /* Zen 4 has AVX-512 with units of 256 bits */
    snprintf(text, sizeof text, "/proc/cpuinfo: %.0f MHz * %d FLOPs per cycle", mhz,
             units[unit].flops);
    *source = text;
    return 1e6 * mhz * units[unit].flops;
}
