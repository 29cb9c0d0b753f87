#include "launcher/gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t has 24 bytes");
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t has 68 bytes");
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t has 24 bytes");

bool nvml_open(struct nvml *n, struct err *why)
{
    const char *path = getenv("DROVER_NVML_LIB");
    /* Without the driver's device the library is useless, and opening it costs 2 ms. */
    if (!path && access("/dev/nvidiactl", F_OK) != 0)
        return false;
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
    };
    for (size_t i = 0; i < COUNT_OF(symbols); i++)
        *(void **)symbols[i].fn = dlsym(n->lib, symbols[i].name);
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
