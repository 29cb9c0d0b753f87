#include "launcher/gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t has 24 bytes");
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t has 68 bytes");
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t has 24 bytes");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t has 40 bytes");
_Static_assert(sizeof(struct nvml_fabric) == 36, "nvmlGpuFabricInfo_v2_t has 36 bytes");
_Static_assert(offsetof(struct nvml_fabric, health_mask) == 32, "after one byte for the state");
_Static_assert(sizeof(struct nvml_margin) == 8, "nvmlMarginTemperature_v1_t has 8 bytes");
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t has 40 bytes");
_Static_assert(offsetof(struct nvml_field, value) == 32, "the value is the last member");

bool nvml_is_present(void)
{
    return getenv("DROVER_NVML_LIB") || access("/dev/nvidiactl", F_OK) == 0;
}

bool nvml_open(struct nvml *n, struct err *why)
{
    const char *path = getenv("DROVER_NVML_LIB");
    n->lib = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->lib) {
        err_set(why, -ENOENT, "%s", dlerror());
        return false;
    }
    const struct {
        const char *name;
        void *fn;
    } symbols[] = {
        {"nvmlInit_v2", &n->init},
        {"nvmlShutdown", &n->shutdown},
        {"nvmlDeviceGetCount_v2", &n->count},
        {"nvmlDeviceGetHandleByIndex_v2", &n->by_index},
        {"nvmlDeviceGetUUID", &n->uuid},
        {"nvmlDeviceGetName", &n->name},
        {"nvmlDeviceGetPciInfo_v3", &n->pci},
        {"nvmlDeviceGetMemoryInfo", &n->memory},
        {"nvmlDeviceGetUtilizationRates", &n->utilization},
        {"nvmlDeviceGetMigDeviceHandleByIndex", &n->mig_device},
        {"nvmlDeviceGetComputeRunningProcesses_v3", &n->processes},
        {"nvmlDeviceGetNvLinkState", &n->nvlink_state},
        {"nvmlDeviceGetNvLinkRemoteDeviceType", &n->nvlink_remote_type},
        {"nvmlDeviceGetNvLinkRemotePciInfo_v2", &n->nvlink_remote_pci},
        {"nvmlErrorString", &n->error},
        {"nvmlSystemGetDriverVersion", &n->driver_version},
        {"nvmlSystemGetCudaDriverVersion_v2", &n->cuda_version},
        {"nvmlDeviceGetVbiosVersion", &n->vbios},
        {"nvmlDeviceGetMemoryInfo_v2", &n->memory_v2},
        {"nvmlDeviceGetGraphicsRunningProcesses_v3", &n->graphics},
        {"nvmlDeviceGetTemperature", &n->temperature},
        {"nvmlDeviceGetTemperatureThreshold", &n->threshold},
        {"nvmlDeviceGetMarginTemperature", &n->margin},
        {"nvmlDeviceGetPowerUsage", &n->power},
        {"nvmlDeviceGetPowerManagementLimit", &n->power_limit},
        {"nvmlDeviceGetPowerManagementDefaultLimit", &n->power_default},
        {"nvmlDeviceGetClockInfo", &n->clock},
        {"nvmlDeviceGetMaxClockInfo", &n->max_clock},
        {"nvmlDeviceGetPerformanceState", &n->pstate},
        {"nvmlDeviceGetCurrentClocksEventReasons", &n->reasons},
        {"nvmlDeviceGetCurrPcieLinkWidth", &n->pcie_width},
        {"nvmlDeviceGetMaxPcieLinkWidth", &n->pcie_max_width},
        {"nvmlDeviceGetCurrPcieLinkGeneration", &n->pcie_gen},
        {"nvmlDeviceGetMaxPcieLinkGeneration", &n->pcie_max_gen},
        {"nvmlDeviceGetPcieReplayCounter", &n->pcie_replays},
        {"nvmlDeviceGetPersistenceMode", &n->persistence},
        {"nvmlDeviceGetComputeMode", &n->compute_mode},
        {"nvmlDeviceGetMigMode", &n->mig_mode},
        {"nvmlDeviceGetEccMode", &n->ecc_mode},
        {"nvmlDeviceGetTotalEccErrors", &n->ecc_errors},
        {"nvmlDeviceGetRemappedRows", &n->remapped},
        {"nvmlDeviceGetCudaComputeCapability", &n->capability},
        {"nvmlDeviceGetGpuFabricInfoV", &n->fabric},
        {"nvmlDeviceGetFieldValues", &n->fields},
        {"nvmlDeviceGetP2PStatus", &n->p2p_status},
        {"nvmlDeviceGetTotalEnergyConsumption", &n->energy},
        {"nvmlDeviceGetPcieThroughput", &n->pcie_throughput},
    };
    for (size_t i = 0; i < COUNT_OF(symbols); i++)
        *(void **)symbols[i].fn = dlsym(n->lib, symbols[i].name);
    if (!n->reasons) /* its name before version 535 of the driver */
        *(void **)&n->reasons = dlsym(n->lib, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (n->init && n->count && n->by_index)
        return true;
    err_set(why, -ENOSYS, "the library lacks nvmlInit_v2 or the functions that list GPUs");
    return false;
}

void nvml_close(struct nvml *n)
{
    if (n->lib)
        dlclose(n->lib);
    n->lib = NULL;
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
