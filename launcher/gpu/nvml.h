/* nvml - NVIDIA's management library (NVML), loaded when it is needed: libnvidia-ml.so.1, or
 * $DROVER_NVML_LIB. Names, codes and sizes are those of nvml.h 13.0. A function that the installed
 * library lacks is NULL. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"

typedef struct nvml_device *nvml_device;

enum {
    NVML_SUCCESS = 0,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_TOO_SMALL = 7,
    NVML_NO_DRIVER = 9,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_VERSION_MISMATCH = 18,
    NVML_ARGUMENT_VERSION = 25,
    NVML_DEPRECATED = 26
};

/* Arguments and values of functions. Those of nvmlDeviceGetFieldValues() are fields. */
enum {
    NVML_TEMPERATURE_GPU = 0,
    NVML_THRESHOLD_SLOWDOWN = 1,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_ECC_UNCORRECTED = 1,
    NVML_ECC_VOLATILE = 0,
    NVML_ECC_AGGREGATE = 1,
    NVML_P2P_READ = 0,
    NVML_P2P_OK = 0,
    NVML_FABRIC_NOT_SUPPORTED = 0,
    NVML_FABRIC_COMPLETED = 3,
    NVML_COMPUTE_PROHIBITED = 2,
    NVML_EVENT_XID = 0x8,
    NVML_PCIE_TX = 0,
    NVML_PCIE_RX = 1,
    NVML_REASON_IDLE = 0x1, /* bits of nvmlDeviceGetCurrentClocksEventReasons() */
    NVML_REASON_HW_SLOWDOWN = 0x8,
    NVML_REASON_SW_THERMAL = 0x20,
    NVML_REASON_HW_THERMAL = 0x40,
    NVML_REASON_POWER_BRAKE = 0x80,
    NVML_FIELD_NVLINK_SPEED = 90, /* MB/s per active link */
    NVML_FIELD_NVLINK_TX = 138,   /* KiB of data; the scope is a link, or NVML_ALL_LINKS */
    NVML_FIELD_NVLINK_RX = 139,
    NVML_FIELD_NVLINK_REPLAY = 161, /* per link, up to Hopper */
    NVML_FIELD_NVLINK_RECOVERY = 162,
    NVML_FIELD_NVLINK_CRC = 163,
    NVML_FIELD_SLOWDOWN_TLIMIT = 194,   /* since Ada */
    NVML_FIELD_NVLINK_RCV_ERRORS = 208, /* per link, since Blackwell */
    NVML_FIELD_NVLINK_RECOVERY_EVENTS = 215,
    NVML_FIELD_RECOVERY_ACTION = 230,
    NVML_NVLINKS_MAX = 18
};

#define NVML_ALL_LINKS (~0U) /* as the scope of a field */

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

struct nvml_memory_v2 { /* nvmlMemory_v2_t, 40 bytes */
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct nvml_fabric { /* nvmlGpuFabricInfo_v2_t, 36 bytes */
    unsigned version;
    unsigned char cluster_uuid[16];
    int status; /* valid if state is NVML_FABRIC_COMPLETED */
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
};

struct nvml_margin { /* nvmlMarginTemperature_v1_t, 8 bytes */
    unsigned version;
    int degrees; /* until the GPU is at its highest operating temperature */
};

struct nvml_field { /* nvmlFieldValue_t, 40 bytes */
    unsigned field, scope;
    long long timestamp_us, latency_us;
    int type;
    int rc; /* the value is undefined if this is not NVML_SUCCESS */
    union {
        int i32;                /* type 5 */
        unsigned u32;           /* type 1 */
        unsigned long long u64; /* types 2 and 3 */
        long long i64;          /* type 4 */
    } value;
};

struct nvml_event { /* nvmlEventData_t, 32 bytes */
    nvml_device device;
    unsigned long long type, data; /* of an Xid: its code */
    unsigned gpu_instance, compute_instance;
};

/* The member `version` of a versioned struct: NVML_STRUCT_VERSION() of nvml.h. */
#define NVML_VERSION_OF(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)

/* One member per function; the symbols are in the table of nvml.c. Functions that return one number
 * are found by name (gpu_facts.c). */
struct nvml {
    void *lib;
    void *(*find)(void *lib, const char *name); /* dlsym() */
    int (*init)(void);
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

    /* What `drover doctor` reads. */
    int (*driver_version)(char *out, unsigned size);
    int (*cuda_version)(int *version); /* 1000 * major + 10 * minor */
    int (*vbios)(nvml_device device, char *out, unsigned size);
    int (*memory_v2)(nvml_device device, struct nvml_memory_v2 *out);
    int (*graphics)(nvml_device device, unsigned *count, struct nvml_process *out);
    int (*mps)(nvml_device device, unsigned *count, struct nvml_process *out);
    int (*margin)(nvml_device device, struct nvml_margin *out);
    int (*reasons)(nvml_device device, unsigned long long *bits);
    int (*mig_mode)(nvml_device device, unsigned *current, unsigned *pending);
    int (*ecc_mode)(nvml_device device, unsigned *current, unsigned *pending);
    int (*ecc_errors)(nvml_device device, unsigned kind, unsigned counter,
                      unsigned long long *count);
    int (*remapped)(nvml_device device, unsigned *corrected, unsigned *uncorrected,
                    unsigned *pending, unsigned *failed);
    int (*capability)(nvml_device device, int *major, int *minor);
    int (*fabric)(nvml_device device, struct nvml_fabric *out);
    int (*fields)(nvml_device device, int count, struct nvml_field *inout);
    int (*p2p_status)(nvml_device a, nvml_device b, unsigned index, unsigned *status);

    /* What a job's monitor samples. */
    int (*energy)(nvml_device device, unsigned long long *millijoule);
    int (*pcie_throughput)(nvml_device device, unsigned direction, unsigned *kb_per_s);
    int (*events_create)(void **set);
    int (*events_register)(nvml_device device, unsigned long long types, void *set);
    int (*events_wait)(void *set, struct nvml_event *out, unsigned timeout_ms);
    int (*events_free)(void *set);
};

/* Returns false if the driver's device is missing: then the library, which opens in 2 ms, is
 * useless. */
bool nvml_is_present(void);

/* Loads the library; nvml->init is not called yet. Returns false if there is none, or if it cannot
 * list devices: `why` (may be NULL) has the cause. */
bool nvml_open(struct nvml *n, struct err *why);

/* Returns the library's text for a code. */
const char *nvml_error(const struct nvml *n, int code);
/* Returns the name of a code, without "NVML_ERROR_": "GPU_IS_LOST"; "error 77" if it is unknown
 * (valid until the next call). */
const char *nvml_code_name(int code);
