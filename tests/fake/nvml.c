/* A libnvidia-ml.so.1 without a GPU, for tests: DROVER_NVML_LIB points at it, DROVER_FAKE_GPUS says
 * what it shows: "uuid,name,bus,total MiB,free MiB" for each GPU, apart by ';'; behind that
 * ",MIG-a" for a part. A GPU called "lost" has fallen off the bus. DROVER_FAKE_NVML_INIT is the
 * code that nvmlInit_v2() returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { GPUS = 64, INVALID_ARGUMENT = 2, NOT_FOUND = 6, TOO_SMALL = 7, GPU_LOST = 15 };

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

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API int nvmlDeviceGetCount_v2(unsigned *out);
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct fake_gpu **out);
API int nvmlDeviceGetUUID(const struct fake_gpu *g, char *out, unsigned size);
API int nvmlDeviceGetName(const struct fake_gpu *g, char *out, unsigned size);
API int nvmlDeviceGetPciInfo_v3(const struct fake_gpu *g, struct pci *out);
API int nvmlDeviceGetMemoryInfo(const struct fake_gpu *g, struct memory *out);
API int nvmlDeviceGetMigDeviceHandleByIndex(const struct fake_gpu *g, unsigned index,
                                            struct fake_gpu **out);
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

int nvmlDeviceGetMemoryInfo(const struct fake_gpu *g, struct memory *out)
{
    *out =
        (struct memory){g->total_mib << 20, g->free_mib << 20, (g->total_mib - g->free_mib) << 20};
    return 0;
}

/* Its second instance is the one that is there. */
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

const char *nvmlErrorString(int code)
{
    return code == 18 ? "Driver/library version mismatch" : "an error of the fake";
}
