/* A stand-in for libnvidia-ml.so.1, for tests without a GPU; DROVER_NVML_LIB names it.
 *
 * DROVER_FAKE_NVML names a file that describes a machine, one fact per line:
 *
 *     gpus 8                       number of GPUs; each of them is healthy
 *     gpu 3 remap_pending 1        a value of one GPU; `defaults` lists the keys
 *     gpu all ecc_mode error 3     a call that fails on all GPUs, with NVML's code
 *     gpu 2 temperature hang       a call that does not return
 *     gpu 2 power slow 7000        a call that needs 0.4 s
 *     gpu 0 pcie_replays 7+2       a counter that grows by 2 at each call
 *     gpu 2 xid 48,45              events: these codes, once
 *     gpu 1 nvlink4 down           the end of a link: "switch", a bus id ("0f"), "down", "none"
 *     gpu 1 p2p3 4                 the P2P status of GPU 1 to GPU 3
 *     gpu 1 process 4711 500       a process that computes on it, and its MiB; also `graphics` and
 *                                  `mps`; "-" as its MiB: the driver does not tell
 *     system driver_version 570.1  a value of the machine
 *
 * A later line overrides an earlier one.
 *
 * Older tests use variables: DROVER_FAKE_GPUS lists GPUs, separated by ';', as "uuid,name,bus,total
 * MiB,free MiB", followed by ",MIG-a" for a MIG instance; a GPU named "lost" has fallen off the
 * bus. DROVER_FAKE_GPU_USERS names a file with a line "UUID PID MiB" per process that uses a GPU
 * (PID 0: the process is not listed; MiB "-": not told). DROVER_FAKE_GPU_BUSY is the load of each
 * GPU in percent (not set: not reported). DROVER_FAKE_NVLINKS lists links, separated by ';', as
 * "GPU LINK END". DROVER_FAKE_NVML_INIT is the code that nvmlInit_v2() returns. */
#include "tests/fake/nvml_machine.h"

#define API __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the header is NVIDIA's */
enum {
    LINKS = 18,
    INVALID_ARGUMENT = 2,
    NOT_FOUND = 6,
    TOO_SMALL = 7,
    GPU_LOST = 15,
    BAD_VERSION = 25
};

static int text(char *out, unsigned size, const char *from)
{
    if (strlen(from) >= size)
        return TOO_SMALL;
    memcpy(out, from, strlen(from) + 1);
    return 0;
}

/* ---- the machine ---------------------------------------------------------------------------- */

API int nvmlInit_v2(void)
{
    static const unsigned buses[] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf};
    const char *code = getenv("DROVER_FAKE_NVML_INIT"), *list = getenv("DROVER_FAKE_GPUS"), *none;
    if (code && atoi(code))
        return atoi(code);
    count = 0;
    read_file();
    for (unsigned i = 0; i < count && i < GPUS; i++) {
        struct fake_gpu *g = &gpus[i];
        *g = (struct fake_gpu){.bus = i < 8 ? buses[i] : 0xe0 + i - 8, .total_mib = 81559};
        g->free_mib = 81554;
        snprintf(g->uuid, sizeof g->uuid, "GPU-%08x-0000-0000-0000-000000000000", i);
        snprintf(g->name, sizeof g->name, "NVIDIA H100 80GB HBM3");
    }
    if (list && *list)
        count = 0;
    while (list && *list && count < GPUS) {
        struct fake_gpu *g = &gpus[count++];
        memset(g, 0, sizeof *g);
        sscanf(list, "%95[^,],%95[^,],%x,%llu,%llu,%95[^;]", g->uuid, g->name, &g->bus,
               &g->total_mib, &g->free_mib, g->part);
        list += strcspn(list, ";");
        list += *list == ';';
    }
    int rc = get_text(NULL, "init", &none);
    return rc == NOT_SUPPORTED ? 0 : rc;
}

API int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

API int nvmlShutdown(void)
{
    return 0;
}

API int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    const char *value = "";
    int rc = get_text(NULL, "driver_version", &value);
    return rc ? rc : text(out, size, value);
}

API int nvmlSystemGetCudaDriverVersion_v2(unsigned *out)
{
    return get(NULL, "cuda_version", out);
}

API int nvmlDeviceGetCount_v2(unsigned *out)
{
    const char *ok;
    *out = count;
    return get_text(NULL, "count", &ok);
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct fake_gpu **out)
{
    const char *ok;
    if (index >= count)
        return INVALID_ARGUMENT;
    if (strcmp(gpus[index].name, "lost") == 0)
        return GPU_LOST;
    *out = &gpus[index];
    return get_text(&gpus[index], "handle", &ok);
}

/* ---- identity ------------------------------------------------------------------------------- */

API int nvmlDeviceGetUUID(const struct fake_gpu *g, char *out, unsigned size)
{
    const char *value = g->uuid;
    int rc = get_text(g, "uuid", &value);
    return rc && rc != NOT_SUPPORTED ? rc : text(out, size, value);
}

API int nvmlDeviceGetName(const struct fake_gpu *g, char *out, unsigned size)
{
    const char *value = g->name;
    int rc = get_text(g, "name", &value);
    return rc && rc != NOT_SUPPORTED ? rc : text(out, size, value);
}

API int nvmlDeviceGetVbiosVersion(const struct fake_gpu *g, char *out, unsigned size)
{
    const char *value = "";
    int rc = get_text(g, "vbios", &value);
    return rc ? rc : text(out, size, value);
}

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

API int nvmlDeviceGetPciInfo_v3(const struct fake_gpu *g, struct pci *out)
{
    memset(out, 0, sizeof *out);
    out->bus = g->bus;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", g->bus);
    return 0;
}

/* Index 1 is the only MIG instance. */
API int nvmlDeviceGetMigDeviceHandleByIndex(const struct fake_gpu *g, unsigned index,
                                            struct fake_gpu **out)
{
    static struct fake_gpu part;
    if (index != 1 || !g->part[0])
        return NOT_FOUND;
    memcpy(part.uuid, g->part, sizeof part.uuid);
    *out = &part;
    return 0;
}

/* ---- memory and processes ------------------------------------------------------------------- */

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

/* Returns the MiB of a text; 0 if they are not told. */
static unsigned long long mib_of(const char *text)
{
    return *text == '-' ? 0 : strtoull(text, NULL, 10);
}

/* Adds a process to `out` if there is room; `*n` counts all of them. */
static void add_process(struct process *out, unsigned max, unsigned *n, unsigned pid,
                        const char *mib)
{
    unsigned long long used = *mib == '-' ? ~0ULL : mib_of(mib) << 20;
    if (out && *n < max)
        out[*n] = (struct process){pid, used, ~0U, ~0U};
    (*n)++;
}

/* Returns the MiB that processes use on a GPU, and lists those of one kind (NULL: only count). */
static unsigned long long read_users(const struct fake_gpu *g, const char *kind,
                                     struct process *out, unsigned max, unsigned *n)
{
    const char *path = getenv("DROVER_FAKE_GPU_USERS");
    FILE *f = path ? fopen(path, "r") : NULL;
    char uuid[96], mib[16];
    unsigned pid;
    unsigned long long sum = 0;
    *n = 0;
    while (f && fscanf(f, "%95s %u %15s", uuid, &pid, mib) == 3) {
        if (strcmp(uuid, g->uuid) != 0)
            continue;
        sum += mib_of(mib);
        if (pid && strcmp(kind, "process") == 0)
            add_process(out, max, n, pid, mib);
    }
    if (f)
        fclose(f);
    for (unsigned i = 0; i < line_count; i++) {
        struct line *l = &lines[i];
        int is_process = strcmp(l->key, "process") == 0 || strcmp(l->key, "graphics") == 0 ||
                         strcmp(l->key, "mps") == 0;
        if ((l->gpu != GPUS && &gpus[l->gpu] != g) || !is_process ||
            sscanf(l->value, "%u %15s", &pid, mib) != 2)
            continue;
        sum += mib_of(mib);
        if (pid && strcmp(l->key, kind) == 0)
            add_process(out, max, n, pid, mib);
    }
    return sum;
}

/* Version 1 counts what the driver reserves as used. */
API int nvmlDeviceGetMemoryInfo(const struct fake_gpu *g, struct memory *out)
{
    const char *ok;
    unsigned n;
    unsigned long long used = g->total_mib - g->free_mib + read_users(g, "process", NULL, 0, &n);
    unsigned long long reserved = 0;
    (void)get_u64(g, "reserved", &reserved);
    used += reserved;
    *out = (struct memory){g->total_mib << 20, (g->total_mib - used) << 20, used << 20};
    return get_text(g, "memory", &ok);
}

API int nvmlDeviceGetMemoryInfo_v2(const struct fake_gpu *g, struct memory_v2 *out)
{
    const char *ok;
    struct memory m;
    unsigned long long reserved = 0;
    if (out->version != (sizeof *out | 2U << 24))
        return BAD_VERSION;
    int rc = get_text(g, "memory_v2", &ok);
    rc = rc ? rc : nvmlDeviceGetMemoryInfo(g, &m);
    rc = rc ? rc : get_u64(g, "reserved", &reserved);
    if (rc)
        return rc;
    *out = (struct memory_v2){out->version, m.total, reserved << 20, m.free,
                              m.used - (reserved << 20)};
    return 0;
}

struct utilization {
    unsigned gpu, memory;
};

API int nvmlDeviceGetUtilizationRates(const struct fake_gpu *g, struct utilization *out)
{
    const char *busy = getenv("DROVER_FAKE_GPU_BUSY");
    *out = (struct utilization){busy ? (unsigned)atoi(busy) : 0, 0};
    if (busy && !is_mig(g))
        return 0;
    return get_two(g, "utilization", "memory_utilization", &out->gpu, &out->memory);
}

static int list_processes(const struct fake_gpu *g, const char *kind, unsigned *n,
                          struct process *out)
{
    const char *ok;
    unsigned max = *n;
    int rc = get_text(g, "processes", &ok);
    (void)read_users(g, kind, out, max, n);
    return rc ? rc : *n > max ? TOO_SMALL : 0;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(const struct fake_gpu *g, unsigned *n,
                                                struct process *out)
{
    return list_processes(g, "process", n, out);
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(const struct fake_gpu *g, unsigned *n,
                                                 struct process *out)
{
    return list_processes(g, "graphics", n, out);
}

API int nvmlDeviceGetMPSComputeRunningProcesses_v3(const struct fake_gpu *g, unsigned *n,
                                                   struct process *out)
{
    return list_processes(g, "mps", n, out);
}

/* ---- values --------------------------------------------------------------------------------- */

#define VALUE(function, key)                                  \
    API int function(const struct fake_gpu *g, unsigned *out) \
    {                                                         \
        return get(g, key, out);                              \
    }

VALUE(nvmlDeviceGetPowerUsage, "power")
VALUE(nvmlDeviceGetPowerManagementLimit, "power_limit")
VALUE(nvmlDeviceGetPowerManagementDefaultLimit, "power_default")
VALUE(nvmlDeviceGetPerformanceState, "pstate")
VALUE(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
VALUE(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_width")
VALUE(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
VALUE(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_gen")
VALUE(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
VALUE(nvmlDeviceGetPersistenceMode, "persistence")
VALUE(nvmlDeviceGetComputeMode, "compute_mode")

#define PAIR(function, first, second)                                    \
    API int function(const struct fake_gpu *g, unsigned *a, unsigned *b) \
    {                                                                    \
        return get_two(g, first, second, a, b);                          \
    }

PAIR(nvmlDeviceGetMigMode, "mig_mode", "mig_pending")
PAIR(nvmlDeviceGetEccMode, "ecc_mode", "ecc_pending")
PAIR(nvmlDeviceGetCudaComputeCapability, "capability", "capability_minor")

/* A function with an argument that selects one of several keys. */
#define CHOICE(function, ...)                                                 \
    API int function(const struct fake_gpu *g, unsigned which, unsigned *out) \
    {                                                                         \
        static const char *const keys[] = {__VA_ARGS__};                      \
        if (which >= sizeof keys / sizeof *keys || !keys[which])              \
            return NOT_SUPPORTED;                                             \
        return get(g, keys[which], out);                                      \
    }

CHOICE(nvmlDeviceGetTemperature, "temperature")
CHOICE(nvmlDeviceGetTemperatureThreshold, NULL, "slowdown")
CHOICE(nvmlDeviceGetClockInfo, NULL, "clock_sm", "clock_memory")
CHOICE(nvmlDeviceGetMaxClockInfo, NULL, "max_clock_sm", "max_clock_memory")
CHOICE(nvmlDeviceGetPcieThroughput, "pcie_tx", "pcie_rx")

API int nvmlDeviceGetCurrentClocksEventReasons(const struct fake_gpu *g, unsigned long long *out)
{
    return get_u64(g, "reasons", out);
}

API int nvmlDeviceGetTotalEnergyConsumption(const struct fake_gpu *g, unsigned long long *out)
{
    return get_u64(g, "energy", out);
}

API int nvmlDeviceGetTotalEccErrors(const struct fake_gpu *g, unsigned kind, unsigned counter,
                                    unsigned long long *out)
{
    if (kind == 0)
        return get_u64(g, "ecc_corrected", out);
    return get_u64(g, counter ? "ecc_aggregate" : "ecc_volatile", out);
}

/* ---- events --------------------------------------------------------------------------------- */

struct events { /* of one GPU */
    const struct fake_gpu *gpu;
    const char *left; /* "48,45" */
};

struct event {
    const struct fake_gpu *gpu;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

API int nvmlEventSetCreate(struct events **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? 0 : 999;
}

API int nvmlDeviceRegisterEvents(const struct fake_gpu *g, unsigned long long types,
                                 struct events *set)
{
    set->gpu = g;
    set->left = "";
    if (is_mig(g) || types != 0x8)
        return NOT_SUPPORTED;
    (void)get_text(g, "xid", &set->left);
    return 0;
}

API int nvmlEventSetWait_v2(struct events *set, struct event *out, unsigned timeout_ms)
{
    (void)timeout_ms;
    if (!set->left || !*set->left)
        return 10;
    *out = (struct event){.gpu = set->gpu, .type = 0x8, .data = strtoull(set->left, NULL, 10)};
    set->left += strcspn(set->left, ",");
    set->left += *set->left == ',';
    return 0;
}

API int nvmlEventSetFree(struct events *set)
{
    free(set);
    return 0;
}

/* ---- more values ---------------------------------------------------------------------------- */

API int nvmlDeviceGetRemappedRows(const struct fake_gpu *g, unsigned *corrected,
                                  unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    const char *ok;
    int rc = get_text(g, "remapped", &ok);
    rc = rc ? rc : get_two(g, "remap_corrected", "remap_uncorrected", corrected, uncorrected);
    return rc ? rc : get_two(g, "remap_pending", "remap_failed", pending, failed);
}

struct margin {
    unsigned version;
    int degrees;
};

API int nvmlDeviceGetMarginTemperature(const struct fake_gpu *g, struct margin *out)
{
    unsigned degrees = 0;
    if (out->version != (sizeof *out | 1U << 24))
        return BAD_VERSION;
    int rc = get(g, "margin", &degrees);
    out->degrees = (int)degrees;
    return rc;
}

struct fabric { /* version 3; version 2 ends before the summary */
    unsigned version;
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char health_summary;
};

API int nvmlDeviceGetGpuFabricInfoV(const struct fake_gpu *g, struct fabric *out)
{
    const char *ok;
    unsigned state = 0, status = 0;
    if (out->version != (sizeof *out | 3U << 24) && out->version != ((sizeof *out - 4) | 2U << 24))
        return BAD_VERSION;
    int rc = get_text(g, "fabric", &ok);
    rc = rc ? rc : get_two(g, "fabric_state", "fabric_status", &state, &status);
    out->state = (unsigned char)state;
    out->status = (int)status;
    if (out->version >> 24 == 3)
        out->health_summary = 1;
    return rc ? rc : get(g, "fabric_health", &out->health_mask);
}

/* ---- links ---------------------------------------------------------------------------------- */

/* Returns where a link ends; "none": there is no such link. */
static const char *link_end(const struct fake_gpu *g, unsigned link)
{
    static char end[16];
    struct line *from = NULL;
    const char *list = getenv("DROVER_FAKE_NVLINKS"), *value;
    unsigned gpu, number;
    char key[32];
    while (list && *list) {
        if (sscanf(list, "%u %u %15[^;]", &gpu, &number, end) == 3 && &gpus[gpu] == g &&
            number == link)
            return end;
        list += strcspn(list, ";");
        list += *list == ';';
    }
    if (!getenv("DROVER_FAKE_NVML") || link >= LINKS)
        return "none";
    snprintf(key, sizeof key, "nvlink%u", link);
    value = value_of(g, key, &from);
    return value ? value : value_of(g, "nvlink", &from);
}

API int nvmlDeviceGetNvLinkState(const struct fake_gpu *g, unsigned link, unsigned *active)
{
    const char *end = link_end(g, link);
    if (strncmp(end, "error ", 6) == 0)
        return atoi(end + 6);
    *active = strcmp(end, "none") != 0 && strcmp(end, "down") != 0;
    return strcmp(end, "none") == 0 ? INVALID_ARGUMENT : 0;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(const struct fake_gpu *g, unsigned link, unsigned *type)
{
    *type = strcmp(link_end(g, link), "switch") == 0 ? 2 : 0;
    return 0;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct fake_gpu *g, unsigned link,
                                            struct pci *out)
{
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)strtoul(link_end(g, link), NULL, 16);
    return 0;
}

API int nvmlDeviceGetP2PStatus(const struct fake_gpu *a, const struct fake_gpu *b, unsigned index,
                               unsigned *status)
{
    char key[32];
    (void)index;
    snprintf(key, sizeof key, "p2p%u", (unsigned)(b - gpus));
    int rc = get(a, key, status);
    return rc == NOT_SUPPORTED ? get(a, "p2p", status) : rc;
}

/* ---- fields --------------------------------------------------------------------------------- */

struct field {
    unsigned field, scope;
    long long timestamp_us, latency_us;
    int type, rc;
    union {
        int i32;
        unsigned u32;
        unsigned long long u64;
    } value;
};

static void get_field(const struct fake_gpu *g, struct field *f)
{
    char key[32];
    unsigned value = 0;
    f->value.u64 = 0;
    switch (f->field) {
    case 90: /* NVLink speed */
        f->type = 1;
        f->rc = get(g, "nvlink_speed", &f->value.u32);
        break;
    case 138: /* NVLink data, of all links together */
    case 139:
        f->type = 3;
        f->rc = f->scope != ~0U
                    ? NOT_SUPPORTED
                    : get_u64(g, f->field == 138 ? "nvlink_tx" : "nvlink_rx", &f->value.u64);
        break;
    case 163: /* NVLink CRC errors: of all links, or of one ("nvlink_errors4") */
        f->type = 3;
        snprintf(key, sizeof key, "nvlink_errors%u", f->scope);
        f->rc = get_u64(g, key, &f->value.u64);
        if (f->rc == NOT_SUPPORTED)
            f->rc = get_u64(g, "nvlink_errors", &f->value.u64);
        break;
    case 194:
        f->type = 5;
        f->rc = get(g, "slowdown_tlimit", &value);
        f->value.i32 = (int)value;
        break;
    case 230:
        f->type = 1;
        f->rc = get(g, "recovery_action", &f->value.u32);
        break;
    default:
        f->rc = NOT_SUPPORTED;
    }
}

API int nvmlDeviceGetFieldValues(const struct fake_gpu *g, int n, struct field *inout)
{
    const char *ok;
    int rc = get_text(g, "fields", &ok);
    for (int i = 0; rc == 0 && i < n; i++)
        get_field(g, &inout[i]);
    return rc;
}

API const char *nvmlErrorString(int code)
{
    return code == 18 ? "Driver/library version mismatch" : "an error of the fake";
}
