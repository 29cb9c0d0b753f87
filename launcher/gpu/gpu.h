/* gpu - the GPUs of this machine, as NVIDIA's management library (NVML) reports them.
 *
 * All calls of the driver are made in a process of their own (gpu_sampler.h), so that a driver that
 * hangs costs a deadline and nothing else. GPUs that CUDA_VISIBLE_DEVICES hides are listed, too:
 * gpu_assignment.c applies it. */
#pragma once

#include <sys/types.h>

#include "common/err.h"
#include "common/mem.h"

enum { GPU_MIG_MAX = 8, GPU_NVLINK_PEERS_MAX = 16 };

/* The NVLinks of a GPU to one peer. */
struct gpu_nvlinks {
    char to[24]; /* bus id of a GPU, or GPU_NVLINK_SWITCH for all NVSwitches; empty: unused entry */
    int count;   /* active links */
};
#define GPU_NVLINK_SWITCH "switch"

struct gpu {         /* or a MIG instance, with the index and the bus id of its GPU */
    int index;       /* the driver's index, in PCI bus order */
    char uuid[96];   /* "GPU-5c8b1d2e-…", "MIG-…"; empty: unknown */
    char name[96];   /* "NVIDIA H200" */
    char bus_id[24]; /* "0000:07:00.0", lower case */
    char vbios[64];  /* only for `drover doctor` */
    char mig_uuids[GPU_MIG_MAX][96]; /* its MIG instances; unused entries are empty */
    int numa; /* OS index of its NUMA node; -1: unknown, as always after gpu_list() */
    struct gpu_nvlinks nvlinks[GPU_NVLINK_PEERS_MAX]; /* empty until gpu_add_nvlinks() */
};

/* Lists the GPUs. `*out` is an array of `*count` GPUs, which the caller frees; NULL and 0 if there
 * are none: no driver, no library, or none allowed in this container. A GPU that the driver has
 * lost is skipped with a warning.
 *   -EIO        there is a driver, but it does not respond: its version differs from the library's
 *   -ETIMEDOUT  it has not answered after deadline_ms */
int gpu_list(struct gpu **out, int *count, int deadline_ms, struct err *e);

/* Adds the NVLinks of GPUs that gpu_list() has returned; the same errors. */
int gpu_add_nvlinks(struct gpu *gpus, int count, int deadline_ms, struct err *e);

/* Adds `links` to the entry for `to`, a bus id or GPU_NVLINK_SWITCH. -ENOSPC  too many peers */
int gpu_count_nvlinks(struct gpu *g, const char *to, int links);

/* Converts "00000000:07:00.0", "0000:07:00.0" or "07:00.0" into the form of gpu.bus_id (`size`
 * bytes, 24 suffice).
 *   -EINVAL  malformed */
int gpu_bus_id(char *out, unsigned size, const char *text);

/* Writes "process 4711 of bob (python train.py)". The command is empty if it cannot be read. A
 * process that has ended, or is in another namespace, is "not visible here". */
void gpu_users_describe(char *out, size_t size, pid_t pid);

/* The same for the owner of the GPU's lock: "the placed job of process 4711 of …". */
void gpu_users_describe_lock(char *out, size_t size, const char *uuid);
