/* gpu_sample - what a GPU does at one moment. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launcher/gpu/gpu.h"

enum {
    GPU_PROCESSES_MAX = 64,
    GPU_THROTTLED = 0xe8, /* bits of GPU_FACT_THROTTLE: heat, or too little power … */
    GPU_HOT = 0x60,       /* … and of these, heat */
    GPU_XIDS = 4,
    GPU_XID_BITS = 15
};

/* A value of a GPU; its row is in gpu_facts.c. The unit is NVML's: mW, MHz, degrees Celsius; bytes
 * and bytes/s; percent of the driver's last sample period, up to 1 s. */
enum gpu_fact {
    GPU_FACT_HANDLE,     /* not a value: the call that finds the GPU */
    GPU_FACT_JOB_MEMORY, /* that the processes of one job use; job_monitor sets it */
    GPU_FACT_XIDS,       /* Xid errors since the last reading: up to GPU_XIDS codes of 15 bits each,
                            the first one in the lowest; 0: none */
    GPU_FACT_UUID,       /* these are members of struct gpu */
    GPU_FACT_NAME,
    GPU_FACT_PCI,
    GPU_FACT_VBIOS,
    GPU_FACT_BUSY,        /* share of the time in which a kernel ran */
    GPU_FACT_MEMORY_BUSY, /* share of it in which memory was read or written */
    GPU_FACT_MEMORY_USED, /* by all processes, without what the driver reserves */
    GPU_FACT_MEMORY_TOTAL,
    GPU_FACT_MEMORY_FREE,
    GPU_FACT_POWER,
    GPU_FACT_POWER_LIMIT,
    GPU_FACT_POWER_DEFAULT,
    GPU_FACT_SM_CLOCK,
    GPU_FACT_MEMORY_CLOCK,
    GPU_FACT_TEMPERATURE,
    GPU_FACT_SLOWDOWN,        /* temperature */
    GPU_FACT_MARGIN,          /* degrees, signed */
    GPU_FACT_SLOWDOWN_TLIMIT, /* the margin at which the GPU slows down, signed */
    GPU_FACT_MAX_SM_CLOCK,
    GPU_FACT_MAX_MEMORY_CLOCK,
    GPU_FACT_PSTATE,
    GPU_FACT_THROTTLE, /* bits: why the clocks are lower */
    GPU_FACT_ENERGY,   /* mJ since the driver was loaded */
    GPU_FACT_PCIE_TX,  /* over the driver's last 20 ms */
    GPU_FACT_PCIE_RX,
    GPU_FACT_NVLINK_TX, /* counters since the driver was loaded */
    GPU_FACT_NVLINK_RX,
    GPU_FACT_PCIE_CAPACITY, /* what the link carries per direction */
    GPU_FACT_PCIE_WIDTH,
    GPU_FACT_PCIE_MAX_WIDTH,
    GPU_FACT_PCIE_GEN,
    GPU_FACT_PCIE_MAX_GEN,
    GPU_FACT_PCIE_REPLAYS,
    GPU_FACT_PERSISTENCE,
    GPU_FACT_COMPUTE_MODE,
    GPU_FACT_MIG_MODE,
    GPU_FACT_MIG_MODE_PENDING,
    GPU_FACT_ECC_MODE,
    GPU_FACT_ECC_VOLATILE,
    GPU_FACT_ECC_AGGREGATE,
    GPU_FACT_REMAP_PENDING,
    GPU_FACT_REMAP_FAILED,
    GPU_FACT_CAPABILITY, /* 10 * major + minor */
    GPU_FACT_FABRIC_STATE,
    GPU_FACT_FABRIC_STATUS,
    GPU_FACT_RECOVERY_ACTION,
    GPU_FACT_PROCESSES,      /* their number; `processes` has them … */
    GPU_FACT_GRAPHICS,       /* … and `graphics` these */
    GPU_FACT_NVLINKS,        /* bits: links that exist */
    GPU_FACT_NVLINKS_ACTIVE, /* bits */
    GPU_FACT_NVLINK_CAPACITY,
    GPU_FACT_NVLINK_ERRORS, /* their sum over all links */
    GPU_FACTS
};

struct gpu_process {
    int pid;
    int64_t bytes; /* memory that it uses; -1: unknown */
};

/* A GPU without MIG instances, or a MIG instance, at one moment. What the driver does not report,
 * as most values of MIG instances, is not known; it never becomes 0. An empty struct has no known
 * value. */
struct gpu_sample {
    struct gpu gpu;
    bool known[GPU_FACTS];
    int64_t value[GPU_FACTS];
    int rc[GPU_FACTS]; /* NVML's code of the call; 0 if there was none */
    /* Those that compute on it, also through MPS, and those that draw. A process may do both. The
     * driver does not report those of another user's namespace; if there are too many, it lists
     * none. */
    struct gpu_process processes[GPU_PROCESSES_MAX], graphics[GPU_PROCESSES_MAX];
    int process_count, graphics_count;
};

void gpu_sample_set(struct gpu_sample *s, enum gpu_fact f, int64_t value);
/* Returns true if the value is known: it is then in `*out`, which may be NULL. */
bool gpu_sample_get(int64_t *out, const struct gpu_sample *s, enum gpu_fact f);
/* Returns the value, or `otherwise` if it is unknown. */
int64_t gpu_sample_value(const struct gpu_sample *s, enum gpu_fact f, int64_t otherwise);

/* Returns the memory in bytes that those processes use of which `is_one` returns true; -1: none of
 * them is listed, or it is unknown how much one of them uses, or the list is not complete. */
int64_t gpu_sample_memory_of(const struct gpu_sample *s, bool (*is_one)(const void *arg, int pid),
                             const void *arg);

/* Returns true if the GPU has worked in the driver's last sample period, whichever process it was:
 * a kernel ran, and memory was in use for at least 1 % of the time. A kernel of NCCL that waits for
 * other ranks runs all the time and uses no memory, and so does one that spins on a flag; they do
 * not count. False if one of the two shares is unknown, as for a MIG instance. */
bool gpu_sample_is_active(const struct gpu_sample *s);

/* Returns true if more memory is in use than an idle GPU has, which is the driver's and that of a
 * screen. The processes may be invisible from here. */
bool gpu_sample_has_users(const struct gpu_sample *s);
