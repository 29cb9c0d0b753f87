#include "launcher/gpu/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "common/dl.h"

_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t has 24 bytes");
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t has 68 bytes");
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t has 24 bytes");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t has 40 bytes");
_Static_assert(sizeof(struct nvml_fabric) == 36, "nvmlGpuFabricInfo_v2_t has 36 bytes");
_Static_assert(offsetof(struct nvml_fabric, health_mask) == 32, "after one byte for the state");
_Static_assert(sizeof(struct nvml_margin) == 8, "nvmlMarginTemperature_v1_t has 8 bytes");
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t has 32 bytes");
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t has 40 bytes");
_Static_assert(offsetof(struct nvml_field, value) == 32, "the value is the last member");

bool nvml_is_present(void)
{
    return getenv("DROVER_NVML_LIB") || access("/dev/nvidiactl", F_OK) == 0;
}

#define SYMBOL(name, field, need)                \
    {                                            \
        name, offsetof(struct nvml, field), need \
    }

bool nvml_open(struct nvml *n, struct err *why)
{
    static const struct dl_symbol symbols[] = {
        SYMBOL("nvmlInit_v2", init, DL_REQUIRED),
        SYMBOL("nvmlDeviceGetCount_v2", count, DL_REQUIRED),
        SYMBOL("nvmlDeviceGetHandleByIndex_v2", by_index, DL_REQUIRED),
        SYMBOL("nvmlDeviceGetUUID", uuid, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetName", name, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetPciInfo_v3", pci, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetMemoryInfo", memory, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetUtilizationRates", utilization, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetMigDeviceHandleByIndex", mig_device, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetComputeRunningProcesses_v3", processes, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetNvLinkState", nvlink_state, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetNvLinkRemoteDeviceType", nvlink_remote_type, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetNvLinkRemotePciInfo_v2", nvlink_remote_pci, DL_OPTIONAL),
        SYMBOL("nvmlErrorString", error, DL_OPTIONAL),
        SYMBOL("nvmlSystemGetDriverVersion", driver_version, DL_OPTIONAL),
        SYMBOL("nvmlSystemGetCudaDriverVersion_v2", cuda_version, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetVbiosVersion", vbios, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetMemoryInfo_v2", memory_v2, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetGraphicsRunningProcesses_v3", graphics, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetMPSComputeRunningProcesses_v3", mps, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetMarginTemperature", margin, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetCurrentClocksEventReasons", reasons, DL_OPTIONAL),
        /* its name before version 535 of the driver */
        SYMBOL("nvmlDeviceGetCurrentClocksThrottleReasons", reasons, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetMigMode", mig_mode, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetEccMode", ecc_mode, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetTotalEccErrors", ecc_errors, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetRemappedRows", remapped, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetCudaComputeCapability", capability, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetGpuFabricInfoV", fabric, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetFieldValues", fields, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetP2PStatus", p2p_status, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetTotalEnergyConsumption", energy, DL_OPTIONAL),
        SYMBOL("nvmlDeviceGetPcieThroughput", pcie_throughput, DL_OPTIONAL),
        SYMBOL("nvmlEventSetCreate", events_create, DL_OPTIONAL),
        SYMBOL("nvmlDeviceRegisterEvents", events_register, DL_OPTIONAL),
        SYMBOL("nvmlEventSetWait_v2", events_wait, DL_OPTIONAL),
        SYMBOL("nvmlEventSetFree", events_free, DL_OPTIONAL),
    };
    static const struct dl_library library = {
        .names = {"libnvidia-ml.so.1"}, .variable = "DROVER_NVML_LIB", DL_SYMBOLS(symbols)};
    n->find = dlsym;
    return dl_load(n, &n->lib, &library, why) == 0;
}

const char *nvml_error(const struct nvml *n, int code)
{
    const char *s = n->error ? n->error(code) : NULL;
    return s ? s : "unknown error";
}

const char *nvml_code_name(int code)
{
    static const char *const names[] = {
        "SUCCESS",
        "UNINITIALIZED",
        "INVALID_ARGUMENT",
        "NOT_SUPPORTED",
        "NO_PERMISSION",
        "ALREADY_INITIALIZED",
        "NOT_FOUND",
        "INSUFFICIENT_SIZE",
        "INSUFFICIENT_POWER",
        "DRIVER_NOT_LOADED",
        "TIMEOUT",
        "IRQ_ISSUE",
        "LIBRARY_NOT_FOUND",
        "FUNCTION_NOT_FOUND",
        "CORRUPTED_INFOROM",
        "GPU_IS_LOST",
        "RESET_REQUIRED",
        "OPERATING_SYSTEM",
        "LIB_RM_VERSION_MISMATCH",
        "IN_USE",
        "MEMORY",
        "NO_DATA",
        "VGPU_ECC_NOT_SUPPORTED",
        "INSUFFICIENT_RESOURCES",
        "FREQ_NOT_SUPPORTED",
        "ARGUMENT_VERSION_MISMATCH",
        "DEPRECATED",
        "NOT_READY",
        "GPU_NOT_FOUND",
        "INVALID_STATE",
        "RESET_TYPE_NOT_SUPPORTED",
    };
    static char other[32];
    if (code >= 0 && (size_t)code < COUNT_OF(names))
        return names[code];
    if (code == 999)
        return "UNKNOWN";
    snprintf(other, sizeof other, "error %d", code);
    return other;
}
