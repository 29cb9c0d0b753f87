/* gpu - the GPUs of this machine, as NVIDIA's management library (NVML) reports them.
 *
 * Each call opens the library (libnvidia-ml.so.1, or $DROVER_NVML_LIB) and closes it again;
 * nothing is linked. GPUs that CUDA_VISIBLE_DEVICES hides are listed, too: gpu_assignment.c
 * applies it. */
#ifndef DROVER_GPU_H
#define DROVER_GPU_H

#include <stdint.h>

#include "common/err.h"

enum { GPU_MIG_MAX = 8, GPU_NVLINK_PEERS_MAX = 16 };

/* The NVLinks of a GPU to one peer. */
struct gpu_nvlinks {
    char to[24]; /* bus id of a GPU, or GPU_NVLINK_SWITCH for all NVSwitches; empty: unused entry */
    int count;   /* active links */
};
#define GPU_NVLINK_SWITCH "switch"

struct gpu {
    int index;                       /* the driver's index, in PCI bus order */
    char uuid[96];                   /* "GPU-5c8b1d2e-…"; empty: unknown */
    char name[96];                   /* "NVIDIA H200" */
    char bus_id[24];                 /* "0000:07:00.0", lower case */
    char mig_uuids[GPU_MIG_MAX][96]; /* MIG instances, "MIG-…"; unused entries are empty */
    int numa; /* OS index of its NUMA node; -1: unknown, as always after gpu_list() */
    uint64_t memory_total_bytes;                      /* 0: unknown */
    uint64_t memory_free_bytes;                       /* at the time of the call */
    struct gpu_nvlinks nvlinks[GPU_NVLINK_PEERS_MAX]; /* empty until gpu_add_nvlinks() */
};

/* Lists the GPUs. `*out` is an array of `*count` GPUs, which the caller frees; NULL and 0 if there
 * are none: no driver, no library, or none allowed in this container. A GPU that the driver has
 * lost is skipped with a warning.
 * The driver is called in another process, since a driver that hangs never returns. Call this only
 * from a process with one thread.
 *   -EIO  there is a driver, but it does not respond: its version differs from the library's, or it
 *         has not answered after deadline_ms */
int gpu_list(struct gpu **out, int *count, int deadline_ms, struct err *e);

/* Adds the NVLinks of GPUs that gpu_list() has returned; the same in all else. */
int gpu_add_nvlinks(struct gpu **gpus, int *count, int deadline_ms, struct err *e);

/* Adds `links` to the entry for `to`, a bus id or GPU_NVLINK_SWITCH. -ENOSPC  too many peers */
int gpu_count_nvlinks(struct gpu *g, const char *to, int links);

enum { GPU_PROCESSES_MAX = 64 };

struct gpu_usage { /* usage of a GPU without MIG, or of a MIG instance */
    char uuid[96];
    uint64_t total_bytes, used_bytes; /* 0: unknown */
    int busy_percent; /* share of the driver's last sample period (up to 1 s) in which a kernel
                         ran; -1: unknown, as for MIG instances */
    int pids[GPU_PROCESSES_MAX]; /* processes that compute on it. The driver does not report those
                                    of another user's namespace; further processes are dropped */
    int64_t pid_bytes[GPU_PROCESSES_MAX]; /* memory that each of them uses; -1: unknown */
    int pid_count;
};

/* Lists the memory, load and processes of each GPU and MIG instance. `*out` and `*count` are as in
 * gpu_list(). This may take tens of milliseconds.
 *   -EIO  as in gpu_list() */
int gpu_usage(struct gpu_usage **out, int *count, struct err *e);

/* Converts "00000000:07:00.0", "0000:07:00.0" or "07:00.0" into the form of gpu.bus_id (`size`
 * bytes, 24 suffice).
 *   -EINVAL  malformed */
int gpu_bus_id(char *out, unsigned size, const char *text);

#endif
