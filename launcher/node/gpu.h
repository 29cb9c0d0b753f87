/* gpu - the GPUs of this machine, as NVIDIA's management library tells them.
 *
 * The library (libnvidia-ml.so.1, or $DROVER_NVML_LIB) is opened when it is asked and closed
 * again; nothing is linked. What CUDA_VISIBLE_DEVICES hides is shown here: it is plan.c's matter.
 */
#ifndef DROVER_GPU_H
#define DROVER_GPU_H

#include <stdint.h>

#include "common/err.h"

enum { GPU_MIG_MAX = 8 };

struct gpu {
    int index;       /* the driver's, in the order of the PCI bus */
    char uuid[96];   /* "GPU-5c8b1d2e-…"; empty where it is not known */
    char name[96];   /* "NVIDIA H200" */
    char bus_id[24]; /* "0000:07:00.0", lower case */
    char mig_uuids[GPU_MIG_MAX]
                  [96]; /* "MIG-…": what it is divided into (MIG); empty ones are none */
    int numa; /* OS index of the NUMA node it hangs on; -1: not known (gpu_list() never does) */
    uint64_t memory_total_bytes; /* 0: not known */
    uint64_t memory_free_bytes;  /* when it was listed */
};

/* `*out` is an array of `*count` GPUs, to be freed; NULL and 0 on a machine without them: no
 * driver, no library, none allowed in this container. A GPU that the driver has lost is left out,
 * with a warning.
 *   -EIO  there is a driver, but it does not answer (its version differs from the library's, …) */
int gpu_list(struct gpu **out, int *count, struct err *e);

enum { GPU_PROCESSES_MAX = 64 };

struct gpu_usage { /* of a GPU, or of a part of one that is divided */
    char uuid[96];
    uint64_t total_bytes, used_bytes; /* 0: not known */
    int pids[GPU_PROCESSES_MAX]; /* that compute on it, as far as the driver tells: none where they
                                are another user's namespace, some where they are more */
    int pid_count;
};

/* Who uses the GPUs now. `*out` and `*count` as gpu_list() has them. May take the driver tens of
 * milliseconds.
 *   -EIO  as gpu_list() */
int gpu_usage(struct gpu_usage **out, int *count, struct err *e);

/* Reads "00000000:07:00.0", "0000:07:00.0" or "07:00.0" into the form of struct gpu's bus_id
 * (`size` bytes, 24 are enough). -EINVAL when it is none. */
int gpu_bus_id(char *out, unsigned size, const char *text);

#endif
