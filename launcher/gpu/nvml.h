/* nvml - NVIDIA's management library (NVML), loaded when it is needed: libnvidia-ml.so.1, or
 * $DROVER_NVML_LIB. Names, codes and sizes are those of nvml.h 13.0. A function that the installed
 * library lacks is NULL. */
#ifndef DROVER_NVML_H
#define DROVER_NVML_H

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"

typedef struct nvml_device *nvml_device;

enum {
    NVML_SUCCESS = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NO_DRIVER = 9,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_GPU_LOST = 15,
    NVML_VERSION_MISMATCH = 18
};

struct nvml_pci { /* nvmlPciInfo_t, 68 bytes */
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct nvml_utilization { /* nvmlUtilization_t: percent of the time */
    unsigned gpu, memory;
};

struct nvml_process { /* nvmlProcessInfo_v2_t, 24 bytes */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

/* One member per function; the symbols are in the table of nvml.c. */
struct nvml {
    void *lib;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, nvml_device *device);
    int (*uuid)(nvml_device device, char *out, unsigned size);
    int (*name)(nvml_device device, char *out, unsigned size);
    int (*pci)(nvml_device device, struct nvml_pci *out);
    int (*memory)(nvml_device device, struct nvml_memory *out);
    int (*utilization)(nvml_device device, struct nvml_utilization *out);
    int (*mig_device)(nvml_device device, unsigned index, nvml_device *mig_device);
    int (*processes)(nvml_device device, unsigned *count, struct nvml_process *out);
    int (*nvlink_state)(nvml_device device, unsigned link, unsigned *active);
    int (*nvlink_remote_type)(nvml_device device, unsigned link, unsigned *type);
    int (*nvlink_remote_pci)(nvml_device device, unsigned link, struct nvml_pci *out);
    const char *(*error)(int code);
};

/* Loads the library; nvml->init is not called yet. Returns false if there is none, or if it cannot
 * list devices: `why` (may be NULL) then has the cause. */
bool nvml_open(struct nvml *n, struct err *why);
void nvml_close(struct nvml *n);

/* Returns the library's text for a code. */
const char *nvml_error(const struct nvml *n, int code);

#endif
