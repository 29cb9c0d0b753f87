/* A stand-in for libnvidia-ml.so.1, for tests without a GPU; DROVER_NVML_LIB names it.
 * DROVER_FAKE_GPUS lists its GPUs, separated by ';', as "uuid,name,bus,total MiB,free MiB",
 * followed by ",MIG-a" for a MIG instance. A GPU named "lost" has fallen off the bus.
 * DROVER_FAKE_GPU_USERS names a file with a line "UUID PID MiB" per process that uses a GPU (PID 0:
 * the process is not listed). DROVER_FAKE_GPU_BUSY is the load of each GPU in percent (not set: not
 * reported). DROVER_FAKE_NVLINKS lists links, separated by ';', as "GPU LINK END"; END is the bus
 * id of a GPU ("0f"), "switch" or "down". DROVER_FAKE_NVML_INIT is the code that nvmlInit_v2()
 * returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum {
    GPUS = 64,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    TOO_SMALL = 7,
    GPU_LOST = 15
};

struct fake_gpu {
    char uuid[96], name[96], part[96];
    unsigned bus;
    unsigned long long total_mib, free_mib;
};

static struct fake_gpu gpus[GPUS];
static unsigned count;

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct memory {
    unsigned long long total, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API int nvmlDeviceGetCount_v2(unsigned *out);
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct fake_gpu **out);
API int nvmlDeviceGetUUID(const struct fake_gpu *g, char *out, unsigned size);
API int nvmlDeviceGetName(const struct fake_gpu *g, char *out, unsigned size);
API int nvmlDeviceGetPciInfo_v3(const struct fake_gpu *g, struct pci *out);
API int nvmlDeviceGetMemoryInfo(const struct fake_gpu *g, struct memory *out);
API int nvmlDeviceGetUtilizationRates(const struct fake_gpu *g, struct utilization *out);
API int nvmlDeviceGetMigDeviceHandleByIndex(const struct fake_gpu *g, unsigned index,
                                            struct fake_gpu **out);
API int nvmlDeviceGetComputeRunningProcesses_v3(const struct fake_gpu *g, unsigned *n,
                                                struct process *out);
API int nvmlDeviceGetNvLinkState(const struct fake_gpu *g, unsigned link, unsigned *active);
API int nvmlDeviceGetNvLinkRemoteDeviceType(const struct fake_gpu *g, unsigned link,
                                            unsigned *type);
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct fake_gpu *g, unsigned link,
                                            struct pci *out);
API const char *nvmlErrorString(int code);

int nvmlInit_v2(void)
{
    const char *code = getenv("DROVER_FAKE_NVML_INIT"), *list = getenv("DROVER_FAKE_GPUS");
    if (code && atoi(code))
        return atoi(code);
    count = 0;
    while (list && *list && count < GPUS) {
        struct fake_gpu *g = &gpus[count++];
        memset(g, 0, sizeof *g);
        sscanf(list, "%95[^,],%95[^,],%x,%llu,%llu,%95[^;]", g->uuid, g->name, &g->bus,
               &g->total_mib, &g->free_mib, g->part);
        list += strcspn(list, ";");
        list += *list == ';';
    }
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = count;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct fake_gpu **out)
{
    if (index >= count)
        return INVALID_ARGUMENT;
    if (strcmp(gpus[index].name, "lost") == 0)
        return GPU_LOST;
    *out = &gpus[index];
    return 0;
}

static int text(char *out, unsigned size, const char *from)
{
    if (strlen(from) >= size)
        return TOO_SMALL;
    memcpy(out, from, strlen(from) + 1);
    return 0;
}

int nvmlDeviceGetUUID(const struct fake_gpu *g, char *out, unsigned size)
{
    return text(out, size, g->uuid);
}

int nvmlDeviceGetName(const struct fake_gpu *g, char *out, unsigned size)
{
    return text(out, size, g->name);
}

int nvmlDeviceGetPciInfo_v3(const struct fake_gpu *g, struct pci *out)
{
    memset(out, 0, sizeof *out);
    out->bus = g->bus;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", g->bus);
    return 0;
}

/* Returns the MiB that processes use on a GPU. `out` (NULL: only count) has room for all of them.
 */
static unsigned long long read_users(const struct fake_gpu *g, struct process *out, unsigned *n)
{
    const char *path = getenv("DROVER_FAKE_GPU_USERS");
    FILE *f = path ? fopen(path, "r") : NULL;
    char uuid[96];
    unsigned pid;
    unsigned long long mib, sum = 0;
    while (f && fscanf(f, "%95s %u %llu", uuid, &pid, &mib) == 3) {
        if (strcmp(uuid, g->uuid) != 0)
            continue;
        sum += mib;
        if (out && pid)
            out[(*n)++] = (struct process){.pid = pid, .used = mib << 20};
    }
    if (f)
        fclose(f);
    return sum;
}

int nvmlDeviceGetMemoryInfo(const struct fake_gpu *g, struct memory *out)
{
    unsigned long long used = g->total_mib - g->free_mib + read_users(g, NULL, NULL);
    *out = (struct memory){g->total_mib << 20, (g->total_mib - used) << 20, used << 20};
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const struct fake_gpu *g, unsigned *n,
                                            struct process *out)
{
    unsigned max = *n;
    *n = 0;
    (void)read_users(g, out, n);
    return *n > max ? TOO_SMALL : 0;
}

int nvmlDeviceGetUtilizationRates(const struct fake_gpu *g, struct utilization *out)
{
    const char *busy = getenv("DROVER_FAKE_GPU_BUSY");
    if (!busy || strncmp(g->uuid, "MIG-", 4) == 0)
        return NOT_SUPPORTED;
    *out = (struct utilization){(unsigned)atoi(busy), 0};
    return 0;
}

/* Index 1 is the only MIG instance. */
int nvmlDeviceGetMigDeviceHandleByIndex(const struct fake_gpu *g, unsigned index,
                                        struct fake_gpu **out)
{
    static struct fake_gpu part;
    if (index != 1 || !g->part[0])
        return NOT_FOUND;
    memcpy(part.uuid, g->part, sizeof part.uuid);
    *out = &part;
    return 0;
}

/* Returns where a link ends; empty: there is no such link. */
static const char *link_end(const struct fake_gpu *g, unsigned link)
{
    static char end[16];
    const char *list = getenv("DROVER_FAKE_NVLINKS");
    unsigned gpu, number;
    while (list && *list) {
        if (sscanf(list, "%u %u %15[^;]", &gpu, &number, end) == 3 && &gpus[gpu] == g &&
            number == link)
            return end;
        list += strcspn(list, ";");
        list += *list == ';';
    }
    return "";
}

int nvmlDeviceGetNvLinkState(const struct fake_gpu *g, unsigned link, unsigned *active)
{
    const char *end = link_end(g, link);
    *active = end[0] && strcmp(end, "down") != 0;
    return end[0] ? 0 : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(const struct fake_gpu *g, unsigned link, unsigned *type)
{
    *type = strcmp(link_end(g, link), "switch") == 0 ? 2 : 0;
    return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct fake_gpu *g, unsigned link, struct pci *out)
{
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)strtoul(link_end(g, link), NULL, 16);
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == 18 ? "Driver/library version mismatch" : "an error of the fake";
}
