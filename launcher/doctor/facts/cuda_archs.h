/* cuda_archs - the GPU architectures for which a library has code: the entries of its section
 * .nv_fatbin. Best effort: NVIDIA does not document the format. */
#pragma once

#include <stdbool.h>

enum { CUDA_ARCHS_MAX = 64 };

struct cuda_archs {
    struct {
        int arch;    /* 90 for sm_90 */
        bool is_ptx; /* compiled by the driver, for this and later architectures */
    } entries[CUDA_ARCHS_MAX];
    int count;
};

/* Reads the architectures of a library.
 *   -ENOENT, …  as open()
 *   -EINVAL  it is not a 64-bit ELF file with such a section */
int cuda_archs_read(struct cuda_archs *out, const char *path);

/* Returns true if code of one entry runs on a GPU: 90 for compute capability 9.0. */
bool cuda_archs_run_on(const struct cuda_archs *a, int arch);
