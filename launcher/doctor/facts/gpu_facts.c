#include "launcher/doctor/facts/gpu_facts.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "launcher/gpu/gpu.h"

enum {
    DEADLINE_MS = 1000,
    RESERVE_MS = 50, /* of a check's deadline, to report a call that does not return */
    GROWTH_MS = 300
};

typedef int fact_fn(const struct nvml *n, struct gpu_facts *g, unsigned long long *v);

/* ---- calls ---------------------------------------------------------------------------------- */

static int no_function(void)
{
    return NVML_FUNCTION_NOT_FOUND;
}

#define CALL(fn, ...) (n->fn ? n->fn(__VA_ARGS__) : no_function())

/* A function with one number as its output. */
#define NUMBER(fn)                                                                         \
    static int read_##fn(const struct nvml *n, struct gpu_facts *g, unsigned long long *v) \
    {                                                                                      \
        unsigned number = 0;                                                               \
        int rc = CALL(fn, g->device, &number);                                             \
        v[0] = number;                                                                     \
        return rc;                                                                         \
    }

NUMBER(power)
NUMBER(power_limit)
NUMBER(power_default)
NUMBER(pstate)
NUMBER(pcie_width)
NUMBER(pcie_max_width)
NUMBER(pcie_gen)
NUMBER(pcie_max_gen)
NUMBER(pcie_replays)
NUMBER(persistence)
NUMBER(compute_mode)

/* The same, with an argument. */
#define NUMBER_OF(id, fn, argument)                                                        \
    static int read_##id(const struct nvml *n, struct gpu_facts *g, unsigned long long *v) \
    {                                                                                      \
        unsigned number = 0;                                                               \
        int rc = CALL(fn, g->device, argument, &number);                                   \
        v[0] = number;                                                                     \
        return rc;                                                                         \
    }

NUMBER_OF(temperature, temperature, NVML_TEMPERATURE_GPU)
NUMBER_OF(slowdown, threshold, NVML_THRESHOLD_SLOWDOWN)
NUMBER_OF(clock, clock, NVML_CLOCK_SM)
NUMBER_OF(max_clock, max_clock, NVML_CLOCK_SM)
NUMBER_OF(max_memory_clock, max_clock, NVML_CLOCK_MEMORY)

static int read_handle(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    (void)v;
    return n->by_index((unsigned)g->index, &g->device);
}

static int read_uuid(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    (void)v;
    return CALL(uuid, g->device, g->uuid, sizeof g->uuid);
}

static int read_name(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    (void)v;
    return CALL(name, g->device, g->name, sizeof g->name);
}

static int read_vbios(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    (void)v;
    return CALL(vbios, g->device, g->vbios, sizeof g->vbios);
}

static int read_pci(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    (void)v;
    struct nvml_pci pci = {0};
    int rc = CALL(pci, g->device, &pci);
    if (rc == NVML_SUCCESS)
        snprintf(g->bus_id, sizeof g->bus_id, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    return rc;
}

static int read_memory(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    struct nvml_memory_v2 m = {.version = NVML_VERSION_OF(struct nvml_memory_v2, 2)};
    int rc = CALL(memory_v2, g->device, &m);
    v[0] = m.total;
    v[1] = m.reserved;
    v[2] = m.used;
    return rc;
}

static int read_margin(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    struct nvml_margin m = {.version = NVML_VERSION_OF(struct nvml_margin, 1)};
    int rc = CALL(margin, g->device, &m);
    v[0] = (unsigned long long)m.degrees;
    return rc;
}

static int read_reasons(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    return CALL(reasons, g->device, v);
}

static int read_ecc_volatile(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    return CALL(ecc_errors, g->device, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, v);
}

static int read_ecc_aggregate(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    return CALL(ecc_errors, g->device, NVML_ECC_UNCORRECTED, NVML_ECC_AGGREGATE, v);
}

static int read_mig_mode(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    unsigned current = 0, pending = 0;
    int rc = CALL(mig_mode, g->device, &current, &pending);
    v[0] = current;
    v[1] = pending;
    return rc;
}

static int read_ecc_mode(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    unsigned current = 0, pending = 0;
    int rc = CALL(ecc_mode, g->device, &current, &pending);
    v[0] = current;
    v[1] = pending;
    return rc;
}

static int read_remapped(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    unsigned r[4] = {0};
    int rc = CALL(remapped, g->device, &r[0], &r[1], &r[2], &r[3]);
    for (int i = 0; i < 4; i++)
        v[i] = r[i];
    return rc;
}

static int read_capability(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    int major = 0, minor = 0;
    int rc = CALL(capability, g->device, &major, &minor);
    v[0] = (unsigned)major;
    v[1] = (unsigned)minor;
    return rc;
}

static int read_fabric(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    struct nvml_fabric f = {.version = NVML_VERSION_OF(struct nvml_fabric, 2)};
    int rc = CALL(fabric, g->device, &f);
    v[0] = f.state;
    v[1] = (unsigned)f.status;
    v[2] = f.health_mask;
    return rc;
}

static int read_field(const struct nvml *n, struct gpu_facts *g, unsigned field,
                      unsigned long long *v)
{
    struct nvml_field f = {.field = field};
    int rc = CALL(fields, g->device, 1, &f);
    v[0] = f.type == 5 ? (unsigned long long)f.value.i32 : f.value.u32;
    if (rc == NVML_SUCCESS && f.rc == NVML_INVALID_ARGUMENT) /* an older driver lacks the field */
        return NVML_NOT_SUPPORTED;
    return rc ? rc : f.rc;
}

static int read_recovery_action(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    return read_field(n, g, NVML_FIELD_RECOVERY_ACTION, v);
}

static int read_slowdown_tlimit(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    return read_field(n, g, NVML_FIELD_SLOWDOWN_TLIMIT, v);
}

static int read_processes(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    unsigned count = GPU_FACTS_PROCESSES_MAX;
    int rc = CALL(processes, g->device, &count, g->processes);
    v[0] = count;
    g->process_count = rc == NVML_SUCCESS ? count : 0;
    return rc == NVML_TOO_SMALL ? NVML_SUCCESS : rc; /* too many of them for the array */
}

static int read_graphics(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    struct nvml_process ignored[GPU_FACTS_PROCESSES_MAX];
    unsigned count = GPU_FACTS_PROCESSES_MAX;
    int rc = CALL(graphics, g->device, &count, ignored);
    v[0] = count;
    return rc == NVML_TOO_SMALL ? NVML_SUCCESS : rc;
}

/* A number beyond the last link is an invalid argument, which is not an error of the GPU. */
static int read_nvlinks(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    if (!n->nvlink_state)
        return no_function();
    for (unsigned link = 0; link < NVML_NVLINKS_MAX; link++) {
        unsigned active = 0;
        int rc = n->nvlink_state(g->device, link, &active);
        if (rc == NVML_SUCCESS) {
            v[0] |= 1ULL << link;
            v[1] |= (active ? 1ULL : 0) << link;
        } else if (rc != NVML_INVALID_ARGUMENT && (link == 0 || !gpu_facts_is_unavailable(rc))) {
            return rc;
        }
    }
    return NVML_SUCCESS;
}

static int read_nvlink_errors(const struct nvml *n, struct gpu_facts *g, unsigned long long *v)
{
    static const unsigned fields[] = {NVML_FIELD_NVLINK_REPLAY, NVML_FIELD_NVLINK_RECOVERY,
                                      NVML_FIELD_NVLINK_CRC, NVML_FIELD_NVLINK_RCV_ERRORS,
                                      NVML_FIELD_NVLINK_RECOVERY_EVENTS};
    struct nvml_field f[NVML_NVLINKS_MAX * COUNT_OF(fields)];
    int asked = 0;
    memset(f, 0, sizeof f);
    for (unsigned link = 0; link < NVML_NVLINKS_MAX; link++)
        for (size_t i = 0; i < COUNT_OF(fields); i++)
            if (g->value[GPU_FACT_NVLINKS][1] & 1ULL << link)
                f[asked++] = (struct nvml_field){.field = fields[i], .scope = link};
    if (asked == 0)
        return NVML_NOT_SUPPORTED;
    int rc = CALL(fields, g->device, asked, f);
    for (int i = 0; rc == NVML_SUCCESS && i < asked; i++)
        if (f[i].rc == NVML_SUCCESS)
            v[0] += f[i].type == 1 ? f[i].value.u32 : f[i].value.u64;
    return rc;
}

static const struct {
    fact_fn *read;
    const char *function;
} calls[GPU_FACTS] = {
    [GPU_FACT_HANDLE] = {read_handle, "nvmlDeviceGetHandleByIndex_v2"},
    [GPU_FACT_UUID] = {read_uuid, "nvmlDeviceGetUUID"},
    [GPU_FACT_NAME] = {read_name, "nvmlDeviceGetName"},
    [GPU_FACT_PCI] = {read_pci, "nvmlDeviceGetPciInfo_v3"},
    [GPU_FACT_VBIOS] = {read_vbios, "nvmlDeviceGetVbiosVersion"},
    [GPU_FACT_MEMORY] = {read_memory, "nvmlDeviceGetMemoryInfo_v2"},
    [GPU_FACT_TEMPERATURE] = {read_temperature, "nvmlDeviceGetTemperature"},
    [GPU_FACT_SLOWDOWN] = {read_slowdown, "nvmlDeviceGetTemperatureThreshold"},
    [GPU_FACT_MARGIN] = {read_margin, "nvmlDeviceGetMarginTemperature"},
    [GPU_FACT_SLOWDOWN_TLIMIT] = {read_slowdown_tlimit, "nvmlDeviceGetFieldValues"},
    [GPU_FACT_POWER] = {read_power, "nvmlDeviceGetPowerUsage"},
    [GPU_FACT_POWER_LIMIT] = {read_power_limit, "nvmlDeviceGetPowerManagementLimit"},
    [GPU_FACT_POWER_DEFAULT] = {read_power_default, "nvmlDeviceGetPowerManagementDefaultLimit"},
    [GPU_FACT_CLOCK] = {read_clock, "nvmlDeviceGetClockInfo"},
    [GPU_FACT_MAX_CLOCK] = {read_max_clock, "nvmlDeviceGetMaxClockInfo"},
    [GPU_FACT_MAX_MEMORY_CLOCK] = {read_max_memory_clock, "nvmlDeviceGetMaxClockInfo"},
    [GPU_FACT_PSTATE] = {read_pstate, "nvmlDeviceGetPerformanceState"},
    [GPU_FACT_REASONS] = {read_reasons, "nvmlDeviceGetCurrentClocksEventReasons"},
    [GPU_FACT_PCIE_WIDTH] = {read_pcie_width, "nvmlDeviceGetCurrPcieLinkWidth"},
    [GPU_FACT_PCIE_MAX_WIDTH] = {read_pcie_max_width, "nvmlDeviceGetMaxPcieLinkWidth"},
    [GPU_FACT_PCIE_GEN] = {read_pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration"},
    [GPU_FACT_PCIE_MAX_GEN] = {read_pcie_max_gen, "nvmlDeviceGetMaxPcieLinkGeneration"},
    [GPU_FACT_PCIE_REPLAYS] = {read_pcie_replays, "nvmlDeviceGetPcieReplayCounter"},
    [GPU_FACT_PERSISTENCE] = {read_persistence, "nvmlDeviceGetPersistenceMode"},
    [GPU_FACT_COMPUTE_MODE] = {read_compute_mode, "nvmlDeviceGetComputeMode"},
    [GPU_FACT_MIG_MODE] = {read_mig_mode, "nvmlDeviceGetMigMode"},
    [GPU_FACT_ECC_MODE] = {read_ecc_mode, "nvmlDeviceGetEccMode"},
    [GPU_FACT_ECC_VOLATILE] = {read_ecc_volatile, "nvmlDeviceGetTotalEccErrors"},
    [GPU_FACT_ECC_AGGREGATE] = {read_ecc_aggregate, "nvmlDeviceGetTotalEccErrors"},
    [GPU_FACT_REMAPPED] = {read_remapped, "nvmlDeviceGetRemappedRows"},
    [GPU_FACT_CAPABILITY] = {read_capability, "nvmlDeviceGetCudaComputeCapability"},
    [GPU_FACT_FABRIC] = {read_fabric, "nvmlDeviceGetGpuFabricInfoV"},
    [GPU_FACT_RECOVERY_ACTION] = {read_recovery_action, "nvmlDeviceGetFieldValues"},
    [GPU_FACT_PROCESSES] = {read_processes, "nvmlDeviceGetComputeRunningProcesses_v3"},
    [GPU_FACT_GRAPHICS] = {read_graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3"},
    [GPU_FACT_NVLINKS] = {read_nvlinks, "nvmlDeviceGetNvLinkState"},
    [GPU_FACT_NVLINK_ERRORS] = {read_nvlink_errors, "nvmlDeviceGetFieldValues"},
};

/* ---- reading -------------------------------------------------------------------------------- */

/* The state of the process of the checks, which opens NVML once. */
static struct {
    struct nvml nvml;
    int init_rc;
    bool quick, read;
    uint64_t asked; /* GPUs that are asked, a bit per index */
    int count;
    struct gpu_facts gpus[GPU_FACTS_GPUS_MAX];
    atomic_int at; /* the call in progress: GPU * GPU_FACTS + fact */
    int64_t end_ms;
    bool stuck;
    int waited_ms;
    int done[2]; /* a pipe that the thread closes */
} facts;

int gpu_facts_open(struct check_env *env, struct err *why)
{
    if (env->nvml)
        return facts.init_rc;
    if (env->driver_failed || !nvml_open(&facts.nvml, why))
        return -1;
    facts.init_rc = facts.nvml.init();
    env->nvml = &facts.nvml;
    return facts.init_rc;
}

static void *read_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < facts.count; i++) {
        struct gpu_facts *g = &facts.gpus[i];
        *g = (struct gpu_facts){.index = i};
        memset(g->rc, 0xff, sizeof g->rc);
        for (int f = 0; f < GPU_FACTS; f++) {
            atomic_store(&facts.at, i * GPU_FACTS + f);
            bool ask = facts.asked >> i & 1 && (f == 0 || g->rc[GPU_FACT_HANDLE] == NVML_SUCCESS) &&
                       !(f == GPU_FACT_NVLINK_ERRORS && facts.quick);
            g->rc[f] = ask ? calls[f].read(&facts.nvml, g, g->value[f]) : NVML_NOT_SUPPORTED;
        }
    }
    close(facts.done[1]);
    return NULL;
}

/* Waits for the thread until the deadline of the check. */
static void wait_for_thread(int deadline_ms)
{
    struct pollfd p = {.fd = facts.done[0], .events = POLLIN};
    int64_t begin = clock_ms();
    facts.stuck = poll(&p, 1, deadline_ms) == 0;
    facts.waited_ms = (int)(clock_ms() - begin);
    facts.end_ms = clock_ms();
}

const struct gpu_facts *gpu_facts_read(struct check_env *env, int *count)
{
    pthread_t thread;
    unsigned n = 0;
    *count = 0;
    if (gpu_facts_open(env, NULL) != NVML_SUCCESS)
        return NULL;
    if (!facts.read && facts.nvml.count(&n) == NVML_SUCCESS) {
        facts.read = true;
        facts.quick = env->quick;
        facts.asked = env->gpus ? env->gpus : UINT64_MAX;
        facts.count = n < GPU_FACTS_GPUS_MAX ? (int)n : GPU_FACTS_GPUS_MAX;
        memset(facts.gpus, 0xff, sizeof facts.gpus); /* no call has succeeded yet */
        if (pipe2(facts.done, O_CLOEXEC) < 0 || pthread_create(&thread, NULL, read_all, NULL) != 0)
            read_all(NULL); /* then a call that does not return is not named */
        else
            pthread_detach(thread);
        wait_for_thread((env->deadline_ms ? env->deadline_ms : DEADLINE_MS) - RESERVE_MS);
    }
    *count = facts.count;
    return facts.count ? facts.gpus : NULL;
}

bool gpu_facts_stuck(int *gpu, enum gpu_fact *fact, int *waited_ms)
{
    int at = atomic_load(&facts.at);
    *gpu = at / GPU_FACTS;
    *fact = (enum gpu_fact)(at % GPU_FACTS);
    *waited_ms = facts.waited_ms;
    return facts.stuck;
}

bool gpu_facts_get(unsigned long long *out, const struct gpu_facts *g, enum gpu_fact f)
{
    if (g->rc[f] != NVML_SUCCESS)
        return false;
    if (out)
        *out = g->value[f][0];
    return true;
}

/* The last two: an older or a newer driver, which knows another version of a struct or has dropped
 * the function. */
bool gpu_facts_is_unavailable(int rc)
{
    return rc == NVML_NOT_SUPPORTED || rc == NVML_NO_PERMISSION || rc == NVML_FUNCTION_NOT_FOUND ||
           rc == NVML_ARGUMENT_VERSION || rc == NVML_DEPRECATED;
}

const char *gpu_facts_function(enum gpu_fact f)
{
    return calls[f].function;
}

void gpu_facts_again(struct gpu_facts *out, const struct check_env *env, enum gpu_fact f)
{
    memset(out->value[f], 0, sizeof out->value[f]);
    out->rc[f] = calls[f].read(env->nvml, out, out->value[f]);
}

void gpu_facts_let_counters_grow(const struct check_env *env)
{
    int64_t left = facts.end_ms + (env->growth_ms ? env->growth_ms : GROWTH_MS) - clock_ms();
    if (left > 0)
        (void)poll(NULL, 0, (int)left); /* a signal only makes the wait shorter */
}
