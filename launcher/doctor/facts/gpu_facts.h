/* gpu_facts - what NVML says about each GPU, for the checks of `drover doctor`: each function is
 * called once, in a thread that is left behind if a call does not return. */
#ifndef DROVER_GPU_FACTS_H
#define DROVER_GPU_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/doctor/check.h"
#include "launcher/gpu/nvml.h"

/* One call each. Values are in the order of the function's outputs. */
enum gpu_fact {
    GPU_FACT_HANDLE,
    GPU_FACT_UUID,   /* text */
    GPU_FACT_NAME,   /* text */
    GPU_FACT_PCI,    /* bus_id */
    GPU_FACT_VBIOS,  /* text */
    GPU_FACT_MEMORY, /* bytes: total, reserved, used */
    GPU_FACT_TEMPERATURE,
    GPU_FACT_SLOWDOWN,        /* temperature */
    GPU_FACT_MARGIN,          /* degrees, signed */
    GPU_FACT_SLOWDOWN_TLIMIT, /* the margin at which the GPU slows down, signed */
    GPU_FACT_POWER,           /* mW, and so are the next two */
    GPU_FACT_POWER_LIMIT,
    GPU_FACT_POWER_DEFAULT,
    GPU_FACT_CLOCK, /* MHz, and so are the next two */
    GPU_FACT_MAX_CLOCK,
    GPU_FACT_MAX_MEMORY_CLOCK,
    GPU_FACT_PSTATE,
    GPU_FACT_REASONS,
    GPU_FACT_PCIE_WIDTH,
    GPU_FACT_PCIE_MAX_WIDTH,
    GPU_FACT_PCIE_GEN,
    GPU_FACT_PCIE_MAX_GEN,
    GPU_FACT_PCIE_REPLAYS,
    GPU_FACT_PERSISTENCE,
    GPU_FACT_COMPUTE_MODE,
    GPU_FACT_MIG_MODE, /* current, pending */
    GPU_FACT_ECC_MODE, /* current, pending */
    GPU_FACT_ECC_VOLATILE,
    GPU_FACT_ECC_AGGREGATE,
    GPU_FACT_REMAPPED,   /* corrected, uncorrected, pending, failed */
    GPU_FACT_CAPABILITY, /* major, minor */
    GPU_FACT_FABRIC,     /* state, status, health mask */
    GPU_FACT_RECOVERY_ACTION,
    GPU_FACT_PROCESSES,     /* the array `processes` */
    GPU_FACT_GRAPHICS,      /* number of processes */
    GPU_FACT_NVLINKS,       /* bits: links that exist, links that are active */
    GPU_FACT_NVLINK_ERRORS, /* their sum over all links; not in a quick run */
    GPU_FACTS
};

enum { GPU_FACTS_GPUS_MAX = 64, GPU_FACTS_VALUES = 4, GPU_FACTS_PROCESSES_MAX = 64 };

struct gpu_facts {
    int index;
    nvml_device device;
    char name[96], uuid[96], vbios[64], bus_id[24]; /* empty: unknown */
    int rc[GPU_FACTS];                              /* NVML's code of each call */
    unsigned long long value[GPU_FACTS][GPU_FACTS_VALUES];
    struct nvml_process processes[GPU_FACTS_PROCESSES_MAX];
    unsigned process_count;
};

/* Opens NVML into env->nvml, if it is not open. Returns NVML's code of nvmlInit_v2(), or -1 if the
 * library cannot be loaded: `why` (may be NULL) then has the cause, if there is a device node. */
int gpu_facts_open(struct check_env *env, struct err *why);

/* Asks the GPUs of env->gpus, at the first call in a process. All calls of the others count as not
 * available. Sets `*count`. Returns their facts, or NULL if
 * NVML is not available or reports no GPU. They are incomplete if gpu_facts_stuck(). */
const struct gpu_facts *gpu_facts_read(struct check_env *env, int *count);

/* Returns true if a call has not returned in time: that of `*gpu`. */
bool gpu_facts_stuck(int *gpu, enum gpu_fact *fact, int *waited_ms);

/* Returns true if the GPU has a fact, whose first value is then `*out`. Each of them may be
 * NULL. */
bool gpu_facts_get(unsigned long long *out, const struct gpu_facts *g, enum gpu_fact f);

/* Returns true if the code says that a value is not available for this GPU, user or driver. All
 * other codes but NVML_SUCCESS are errors. */
bool gpu_facts_is_unavailable(int rc);

/* Returns the name of NVML's function. */
const char *gpu_facts_function(enum gpu_fact f);

/* Asks for one fact again, in this thread. */
void gpu_facts_again(struct gpu_facts *out, const struct check_env *env, enum gpu_fact f);

/* Waits until a counter that grows would have grown: some time after gpu_facts_read(). */
void gpu_facts_let_counters_grow(const struct check_env *env);

#endif
