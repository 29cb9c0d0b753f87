#include "launcher/gpu/gpu_facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(GPU_THROTTLED == (NVML_REASON_HW_SLOWDOWN | NVML_REASON_SW_THERMAL |
                                 NVML_REASON_HW_THERMAL | NVML_REASON_POWER_BRAKE),
               "not the power limit or the clocks that the user has set");

/* ---- calls: the values of `v` are in the order of the rows ----------------------------------- */

static int no_function(void)
{
    return NVML_FUNCTION_NOT_FOUND;
}

#define CALL(fn, ...) (n->fn ? n->fn(__VA_ARGS__) : no_function())

/* The functions of the rows. */
#define FACT(id)                                                                       \
    static int read_##id(const struct nvml *n, nvml_device d, const struct gpu_row *r, \
                         struct gpu_sample *s, unsigned long long *v)

/* A call that fills a text of the GPU, or one number of 64 bits. */
#define READ(id, call) \
    FACT(id)           \
    {                  \
        return call;   \
    }

/* Functions that return one number of 32 bits, of the GPU or of one of its parts, are found by
 * their names. */
FACT(number)
{
    unsigned number = 0;
    int (*call)(nvml_device device, unsigned *out);
    void *found = n->find(n->lib, r->function);
    memcpy(&call, &found, sizeof call);
    int rc = call ? call(d, &number) : no_function();
    v[0] = number;
    return rc;
}

FACT(number_of)
{
    unsigned number = 0;
    int (*call)(nvml_device device, unsigned part, unsigned *out);
    void *found = n->find(n->lib, r->function);
    memcpy(&call, &found, sizeof call);
    int rc = call ? call(d, r->part, &number) : no_function();
    v[0] = number;
    return rc;
}

READ(uuid, CALL(uuid, d, s->gpu.uuid, sizeof s->gpu.uuid))
READ(name, CALL(name, d, s->gpu.name, sizeof s->gpu.name))
READ(vbios, CALL(vbios, d, s->gpu.vbios, sizeof s->gpu.vbios))
READ(throttle, CALL(reasons, d, v))
READ(energy, CALL(energy, d, v))
READ(ecc_volatile, CALL(ecc_errors, d, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, v))
READ(ecc_aggregate, CALL(ecc_errors, d, NVML_ECC_UNCORRECTED, NVML_ECC_AGGREGATE, v))

void gpu_facts_bus_id(char *out, size_t size, const struct nvml_pci *p)
{
    snprintf(out, size, "%04x:%02x:%02x.0", p->domain, p->bus, p->device);
}

FACT(pci)
{
    struct nvml_pci pci = {0};
    int rc = CALL(pci, d, &pci);
    if (rc == NVML_SUCCESS)
        gpu_facts_bus_id(s->gpu.bus_id, sizeof s->gpu.bus_id, &pci);
    return rc;
}

FACT(load)
{
    struct nvml_utilization load = {0};
    int rc = CALL(utilization, d, &load);
    v[0] = load.gpu;
    v[1] = load.memory;
    return load.gpu > 100 || load.memory > 100 ? NVML_NOT_SUPPORTED : rc;
}

/* Version 2 does not count what the driver reserves as used, unlike version 1, which is all that
 * drivers before 510 have. */
FACT(memory)
{
    struct nvml_memory_v2 v2 = {.version = NVML_VERSION_OF(struct nvml_memory_v2, 2)};
    struct nvml_memory v1 = {0};
    int rc = CALL(memory_v2, d, &v2);
    bool old = gpu_facts_is_unavailable(rc);
    if (old)
        rc = CALL(memory, d, &v1);
    v[0] = old ? v1.used : v2.used;
    v[1] = old ? v1.total : v2.total;
    v[2] = old ? v1.free : v2.free;
    return rc;
}

FACT(margin)
{
    struct nvml_margin m = {.version = NVML_VERSION_OF(struct nvml_margin, 1)};
    int rc = CALL(margin, d, &m);
    v[0] = (unsigned long long)m.degrees;
    return rc;
}

FACT(mig_mode)
{
    unsigned current = 0, pending = 0;
    int rc = CALL(mig_mode, d, &current, &pending);
    v[0] = current;
    v[1] = pending;
    return rc;
}

FACT(ecc_mode)
{
    unsigned current = 0, pending = 0;
    int rc = CALL(ecc_mode, d, &current, &pending);
    v[0] = current;
    return rc;
}

FACT(remapped)
{
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    int rc = CALL(remapped, d, &corrected, &uncorrected, &pending, &failed);
    v[0] = pending;
    v[1] = failed;
    return rc;
}

FACT(capability)
{
    int major = 0, minor = 0;
    int rc = CALL(capability, d, &major, &minor);
    v[0] = (unsigned)(10 * major + minor);
    return rc;
}

FACT(fabric)
{
    struct nvml_fabric f = {.version = NVML_VERSION_OF(struct nvml_fabric, 2)};
    int rc = CALL(fabric, d, &f);
    v[0] = f.state;
    v[1] = (unsigned)f.status;
    return rc;
}

/* ---- calls for fields ------------------------------------------------------------------------ */

static unsigned long long field_value(const struct nvml_field *f)
{
    return f->type == 5   ? (unsigned long long)f->value.i32
           : f->type == 1 ? f->value.u32
                          : f->value.u64;
}

static int read_field(const struct nvml *n, nvml_device d, unsigned field, unsigned scope,
                      unsigned long long *v)
{
    struct nvml_field f = {.field = field, .scope = scope};
    int rc = CALL(fields, d, 1, &f);
    if (rc == NVML_SUCCESS && f.rc == NVML_INVALID_ARGUMENT) /* an older driver lacks the field */
        return NVML_NOT_SUPPORTED;
    v[0] = field_value(&f);
    return rc ? rc : f.rc;
}

READ(recovery_action, read_field(n, d, NVML_FIELD_RECOVERY_ACTION, 0, v))
READ(slowdown_tlimit, read_field(n, d, NVML_FIELD_SLOWDOWN_TLIMIT, 0, v))

static int read_nvlink_data(const struct nvml *n, nvml_device d, unsigned field,
                            unsigned long long *v)
{
    enum { KIB = 1024 };
    int rc = read_field(n, d, field, NVML_ALL_LINKS, v);
    v[0] *= KIB;
    return rc;
}

READ(nvlink_tx, read_nvlink_data(n, d, NVML_FIELD_NVLINK_TX, v))
READ(nvlink_rx, read_nvlink_data(n, d, NVML_FIELD_NVLINK_RX, v))

/* ---- links ----------------------------------------------------------------------------------- */

static int read_throughput(const struct nvml *n, nvml_device d, unsigned direction,
                           unsigned long long *v)
{
    enum { KB = 1000 };
    unsigned kb_per_s = 0;
    int rc = CALL(pcie_throughput, d, direction, &kb_per_s);
    v[0] = (unsigned long long)kb_per_s * KB;
    return rc;
}

READ(pcie_tx, read_throughput(n, d, NVML_PCIE_TX, v))
READ(pcie_rx, read_throughput(n, d, NVML_PCIE_RX, v))

/* The bytes per second and direction of a PCIe link, after its encoding. An idle GPU reduces the
 * generation, so this is what the link can be. */
FACT(pcie_capacity)
{
    static const unsigned long long lane[] = {0,          250000000,  500000000, 984600000,
                                              1969000000, 3938000000, 7563000000};
    unsigned long long generation = 0, lanes = 0;
    int rc = read_number(n, d, &gpu_rows[GPU_FACT_PCIE_MAX_GEN], s, &generation);
    rc = rc ? rc : read_number(n, d, &gpu_rows[GPU_FACT_PCIE_MAX_WIDTH], s, &lanes);
    if (generation < 1 || generation >= COUNT_OF(lane) || lanes < 1 || lanes > 32)
        return rc ? rc : NVML_NOT_SUPPORTED;
    v[0] = lane[generation] * lanes;
    return rc;
}

/* A number beyond the last link is an invalid argument, which is not an error of the GPU. */
FACT(nvlinks)
{
    for (unsigned link = 0; link < NVML_NVLINKS_MAX; link++) {
        unsigned active = 0;
        int rc = CALL(nvlink_state, d, link, &active);
        if (rc == NVML_SUCCESS) {
            v[0] |= 1ULL << link;
            v[1] |= (active ? 1ULL : 0) << link;
        } else if (rc != NVML_INVALID_ARGUMENT && (link == 0 || !gpu_facts_is_unavailable(rc))) {
            return rc;
        }
    }
    return NVML_SUCCESS;
}

FACT(nvlink_capacity)
{
    enum { MB = 1000000 };
    unsigned links = 0;
    for (int64_t active = gpu_sample_value(s, GPU_FACT_NVLINKS_ACTIVE, 0); active; active >>= 1)
        links += active & 1;
    if (links == 0)
        return NVML_NOT_SUPPORTED;
    int rc = read_field(n, d, NVML_FIELD_NVLINK_SPEED, 0, v);
    v[0] *= (unsigned long long)links * MB;
    return rc;
}

FACT(nvlink_errors)
{
    static const unsigned fields[] = {NVML_FIELD_NVLINK_REPLAY, NVML_FIELD_NVLINK_RECOVERY,
                                      NVML_FIELD_NVLINK_CRC, NVML_FIELD_NVLINK_RCV_ERRORS,
                                      NVML_FIELD_NVLINK_RECOVERY_EVENTS};
    struct nvml_field f[NVML_NVLINKS_MAX * COUNT_OF(fields)];
    int asked = 0;
    memset(f, 0, sizeof f);
    for (unsigned link = 0; link < NVML_NVLINKS_MAX; link++)
        for (size_t i = 0; i < COUNT_OF(fields); i++)
            if (gpu_sample_value(s, GPU_FACT_NVLINKS_ACTIVE, 0) & 1LL << link)
                f[asked++] = (struct nvml_field){.field = fields[i], .scope = link};
    if (asked == 0)
        return NVML_NOT_SUPPORTED;
    int rc = CALL(fields, d, asked, f);
    for (int i = 0; rc == NVML_SUCCESS && i < asked; i++)
        if (f[i].rc == NVML_SUCCESS)
            v[0] += field_value(&f[i]);
    return rc;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Adds the processes that a call lists, each one once. With too many for the array, none is listed,
 * and `*count` is more than there are. */
static int list_processes(struct gpu_process *out, int *listed, unsigned long long *count,
                          int (*call)(nvml_device, unsigned *, struct nvml_process *),
                          nvml_device d)
{
    struct nvml_process p[GPU_PROCESSES_MAX];
    unsigned n = GPU_PROCESSES_MAX;
    int rc = call ? call(d, &n, p) : no_function();
    if (rc == NVML_TOO_SMALL)
        *count += n;
    for (unsigned i = 0; rc == NVML_SUCCESS && i < n; i++) {
        bool new = true;
        for (int k = 0; k < *listed; k++)
            new &= out[k].pid != (int)p[i].pid;
        *count += new;
        if (new &&*listed < GPU_PROCESSES_MAX)
            out[(*listed)++] = (struct gpu_process){
                (int)p[i].pid, p[i].used_bytes <= INT64_MAX ? (int64_t)p[i].used_bytes : -1};
    }
    return rc == NVML_TOO_SMALL ? NVML_SUCCESS : rc;
}

/* A driver may list the clients of MPS apart. */
FACT(processes)
{
    s->process_count = 0;
    int rc = list_processes(s->processes, &s->process_count, v, n->processes, d);
    (void)list_processes(s->processes, &s->process_count, v, n->mps, d); /* old ones list none */
    return rc;
}

FACT(graphics)
{
    s->graphics_count = 0;
    return list_processes(s->graphics, &s->graphics_count, v, n->graphics, d);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void *open_events(const struct nvml *n, nvml_device d)
{
    void *set = NULL;
    if (!n->events_register || !n->events_wait || !n->events_free ||
        CALL(events_create, &set) != NVML_SUCCESS)
        return NULL;
    if (n->events_register(d, NVML_EVENT_XID, set) == NVML_SUCCESS)
        return set;
    (void)n->events_free(set);
    return NULL;
}

void gpu_facts_read_xids(const struct nvml *n, nvml_device d, void **events, struct gpu_sample *s)
{
    struct nvml_event ev = {0};
    int64_t codes = 0;
    s->known[GPU_FACT_XIDS] = false;
    if (!*events)
        *events = open_events(n, d);
    if (!*events)
        return;
    for (int i = 0; i < GPU_XIDS && n->events_wait(*events, &ev, 0) == NVML_SUCCESS; i++)
        if (ev.type == NVML_EVENT_XID && ev.data < 1 << GPU_XID_BITS)
            codes |= (int64_t)ev.data << (i * GPU_XID_BITS);
    gpu_sample_set(s, GPU_FACT_XIDS, codes);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define GAUGE "gauge"
#define COUNTER "counter"

const struct gpu_row gpu_rows[GPU_FACTS] = {
    [GPU_FACT_HANDLE] = {.function = "nvmlDeviceGetHandleByIndex_v2"},
    [GPU_FACT_JOB_MEMORY] = {.unit = GPU_MEMORY_BYTES,
                             .summary = GPU_SUM_PEAK,
                             .place = 15,
                             .metric = {"drover_gpu_job_memory_bytes", GAUGE,
                                        "Memory of the GPU that the processes of the job use"}},
    [GPU_FACT_XIDS] = {.function = "nvmlEventSetWait_v2"},
    [GPU_FACT_UUID] = {"nvmlDeviceGetUUID", read_uuid, GPU_ANY, .once = true},
    [GPU_FACT_NAME] = {"nvmlDeviceGetName", read_name, GPU_ANY, .once = true},
    [GPU_FACT_PCI] = {"nvmlDeviceGetPciInfo_v3", read_pci, GPU_ANY, .once = true},
    [GPU_FACT_VBIOS] = {"nvmlDeviceGetVbiosVersion", read_vbios, GPU_HEALTH, .once = true},
    [GPU_FACT_BUSY] = {"nvmlDeviceGetUtilizationRates", read_load, GPU_USE | GPU_SAMPLE,
                       .summary = GPU_SUM_MEAN, .json = "utilisation_percent", .place = 8,
                       .metric = {"DCGM_FI_DEV_GPU_UTIL", GAUGE,
                                  "Share of the last sample period in which a kernel ran in %"},
                       .column = {"UTIL", .least = 5, .format = "%.0f %%"}},
    [GPU_FACT_MEMORY_BUSY] = {.place = 9,
                              .metric = {"DCGM_FI_DEV_MEM_COPY_UTIL", GAUGE,
                                         "Share of the last sample period in which memory was used "
                                         "in %"}},
    [GPU_FACT_MEMORY_USED] = {"nvmlDeviceGetMemoryInfo_v2", read_memory,
                              GPU_LIST | GPU_USE | GPU_SAMPLE | GPU_HEALTH,
                              .unit = GPU_MEMORY_BYTES, .summary = GPU_SUM_PEAK,
                              .json = "memory_used_bytes", .place = 11,
                              .metric = {"DCGM_FI_DEV_FB_USED", GAUGE,
                                         "Memory of the GPU that all processes use in MiB"},
                              .column = {"MEMORY", 13, 2, "%.1f", GPU_FACT_MEMORY_TOTAL, "GiB"}},
    [GPU_FACT_MEMORY_TOTAL] = {.unit = GPU_MEMORY_BYTES,
                               .summary = GPU_SUM_LAST,
                               .json = "memory_total_bytes"},
    [GPU_FACT_MEMORY_FREE] = {.unit = GPU_MEMORY_BYTES,
                              .place = 10,
                              .metric = {"DCGM_FI_DEV_FB_FREE", GAUGE,
                                         "Free memory of the GPU in MiB"}},
    [GPU_FACT_POWER] = {"nvmlDeviceGetPowerUsage", read_number, GPU_SAMPLE | GPU_HEALTH,
                        .unit = GPU_MILLIWATT, .summary = GPU_SUM_MEAN, .json = "power_w",
                        .place = 4, .metric = {"DCGM_FI_DEV_POWER_USAGE", GAUGE, "Power draw in W"},
                        .column = {"POWER", 9, 3, "%.0f", GPU_FACT_POWER_LIMIT, "W"}},
    [GPU_FACT_POWER_LIMIT] = {"nvmlDeviceGetPowerManagementLimit", read_number,
                              GPU_SAMPLE | GPU_HEALTH, .unit = GPU_MILLIWATT,
                              .json = "power_limit_w", .place = 12,
                              .metric = {"drover_gpu_power_limit_watts", GAUGE,
                                         "Power limit of the GPU"}},
    [GPU_FACT_POWER_DEFAULT] = {"nvmlDeviceGetPowerManagementDefaultLimit", read_number, GPU_HEALTH,
                                .unit = GPU_MILLIWATT},
    [GPU_FACT_SM_CLOCK] = {"nvmlDeviceGetClockInfo", read_number_of, GPU_SAMPLE | GPU_HEALTH,
                           .part = NVML_CLOCK_SM, .summary = GPU_SUM_MEAN, .json = "sm_clock_mhz",
                           .place = 1,
                           .metric = {"DCGM_FI_DEV_SM_CLOCK", GAUGE,
                                      "Clock of the multiprocessors in MHz"},
                           .column = {"SM CLOCK", .priority = 4, .format = "%.0f MHz"}},
    [GPU_FACT_MEMORY_CLOCK] = {"nvmlDeviceGetClockInfo", read_number_of, GPU_SAMPLE,
                               .part = NVML_CLOCK_MEMORY, .place = 2,
                               .metric = {"DCGM_FI_DEV_MEM_CLOCK", GAUGE,
                                          "Clock of the GPU's memory in MHz"}},
    [GPU_FACT_TEMPERATURE] = {"nvmlDeviceGetTemperature", read_number_of, GPU_SAMPLE | GPU_HEALTH,
                              .part = NVML_TEMPERATURE_GPU, .summary = GPU_SUM_PEAK,
                              .json = "temperature_c", .place = 3,
                              .metric = {"DCGM_FI_DEV_GPU_TEMP", GAUGE,
                                         "Temperature of the GPU in degrees C"},
                              .column = {"TEMP", .priority = 7, .format = "%.0f C"}},
    [GPU_FACT_SLOWDOWN] = {"nvmlDeviceGetTemperatureThreshold", read_number_of, GPU_HEALTH,
                           .part = NVML_THRESHOLD_SLOWDOWN},
    [GPU_FACT_MARGIN] = {"nvmlDeviceGetMarginTemperature", read_margin, GPU_HEALTH,
                         .unit = GPU_SIGNED},
    [GPU_FACT_SLOWDOWN_TLIMIT] = {"nvmlDeviceGetFieldValues", read_slowdown_tlimit, GPU_HEALTH,
                                  .unit = GPU_SIGNED},
    [GPU_FACT_MAX_SM_CLOCK] = {"nvmlDeviceGetMaxClockInfo", read_number_of, GPU_HEALTH,
                               .part = NVML_CLOCK_SM},
    [GPU_FACT_MAX_MEMORY_CLOCK] = {"nvmlDeviceGetMaxClockInfo", read_number_of, GPU_HEALTH,
                                   .part = NVML_CLOCK_MEMORY},
    [GPU_FACT_PSTATE] = {"nvmlDeviceGetPerformanceState", read_number, .purposes = GPU_HEALTH},
    [GPU_FACT_THROTTLE] = {"nvmlDeviceGetCurrentClocksEventReasons", read_throttle,
                           GPU_SAMPLE | GPU_HEALTH, .json = "throttle_reasons",
                           .column = {"THROTTLE", .priority = 5}},
    [GPU_FACT_ENERGY] = {"nvmlDeviceGetTotalEnergyConsumption", read_energy, GPU_SAMPLE,
                         .summary = GPU_SUM_GROWTH, .place = 5,
                         .metric = {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", COUNTER,
                                    "Energy since the driver was loaded in mJ"}},
    [GPU_FACT_PCIE_TX] = {"nvmlDeviceGetPcieThroughput", read_pcie_tx, GPU_SAMPLE,
                          .summary = GPU_SUM_MEAN, .place = 6,
                          .metric = {"DCGM_FI_PROF_PCIE_TX_BYTES", GAUGE,
                                     "Rate at which the GPU sends over PCIe in bytes per second"}},
    [GPU_FACT_PCIE_RX] = {"nvmlDeviceGetPcieThroughput", read_pcie_rx, GPU_SAMPLE,
                          .summary = GPU_SUM_MEAN, .place = 7,
                          .metric = {"DCGM_FI_PROF_PCIE_RX_BYTES", GAUGE,
                                     "Rate at which the GPU receives over PCIe in bytes per "
                                     "second"}},
    [GPU_FACT_NVLINK_TX] = {"nvmlDeviceGetFieldValues", read_nvlink_tx, GPU_SAMPLE,
                            .summary = GPU_SUM_GROWTH, .place = 13,
                            .metric = {"drover_gpu_nvlink_transmit_bytes_total", COUNTER,
                                       "Bytes sent over all NVLinks since the driver was loaded"}},
    [GPU_FACT_NVLINK_RX] = {"nvmlDeviceGetFieldValues", read_nvlink_rx, GPU_SAMPLE,
                            .summary = GPU_SUM_GROWTH, .place = 14,
                            .metric = {"drover_gpu_nvlink_receive_bytes_total", COUNTER,
                                       "Bytes received over all NVLinks since the driver was "
                                       "loaded"}},
    [GPU_FACT_PCIE_CAPACITY] = {"nvmlDeviceGetMaxPcieLinkWidth", read_pcie_capacity, GPU_SAMPLE,
                                .once = true, .summary = GPU_SUM_LAST},
    [GPU_FACT_PCIE_WIDTH] = {"nvmlDeviceGetCurrPcieLinkWidth", read_number, .purposes = GPU_HEALTH},
    [GPU_FACT_PCIE_MAX_WIDTH] = {"nvmlDeviceGetMaxPcieLinkWidth", read_number,
                                 .purposes = GPU_HEALTH},
    [GPU_FACT_PCIE_GEN] = {"nvmlDeviceGetCurrPcieLinkGeneration", read_number,
                           .purposes = GPU_HEALTH},
    [GPU_FACT_PCIE_MAX_GEN] = {"nvmlDeviceGetMaxPcieLinkGeneration", read_number,
                               .purposes = GPU_HEALTH},
    [GPU_FACT_PCIE_REPLAYS] = {"nvmlDeviceGetPcieReplayCounter", read_number,
                               .purposes = GPU_HEALTH},
    [GPU_FACT_PERSISTENCE] = {"nvmlDeviceGetPersistenceMode", read_number, .purposes = GPU_HEALTH},
    [GPU_FACT_COMPUTE_MODE] = {"nvmlDeviceGetComputeMode", read_number, .purposes = GPU_HEALTH},
    [GPU_FACT_MIG_MODE] = {"nvmlDeviceGetMigMode", read_mig_mode, .purposes = GPU_HEALTH},
    [GPU_FACT_ECC_MODE] = {"nvmlDeviceGetEccMode", read_ecc_mode, .purposes = GPU_HEALTH},
    [GPU_FACT_ECC_VOLATILE] = {"nvmlDeviceGetTotalEccErrors", read_ecc_volatile,
                               GPU_SAMPLE | GPU_HEALTH, .summary = GPU_SUM_GROWTH},
    [GPU_FACT_ECC_AGGREGATE] = {"nvmlDeviceGetTotalEccErrors", read_ecc_aggregate,
                                .purposes = GPU_HEALTH},
    [GPU_FACT_REMAP_PENDING] = {"nvmlDeviceGetRemappedRows", read_remapped, .purposes = GPU_HEALTH},
    [GPU_FACT_CAPABILITY] = {"nvmlDeviceGetCudaComputeCapability", read_capability,
                             .purposes = GPU_HEALTH},
    [GPU_FACT_FABRIC_STATE] = {"nvmlDeviceGetGpuFabricInfoV", read_fabric, .purposes = GPU_HEALTH},
    [GPU_FACT_RECOVERY_ACTION] = {"nvmlDeviceGetFieldValues", read_recovery_action,
                                  .purposes = GPU_HEALTH},
    [GPU_FACT_PROCESSES] = {"nvmlDeviceGetComputeRunningProcesses_v3", read_processes,
                            .purposes = GPU_USE | GPU_HEALTH | GPU_SAMPLE},
    [GPU_FACT_GRAPHICS] = {"nvmlDeviceGetGraphicsRunningProcesses_v3", read_graphics,
                           .purposes = GPU_HEALTH | GPU_SAMPLE},
    [GPU_FACT_NVLINKS] = {"nvmlDeviceGetNvLinkState", read_nvlinks, GPU_HEALTH | GPU_SAMPLE,
                          .once = true},
    [GPU_FACT_NVLINK_CAPACITY] = {"nvmlDeviceGetFieldValues", read_nvlink_capacity, GPU_SAMPLE,
                                  .once = true, .summary = GPU_SUM_LAST},
    [GPU_FACT_NVLINK_ERRORS] = {"nvmlDeviceGetFieldValues", read_nvlink_errors,
                                .purposes = GPU_HEALTH_LONG},
};

/* ---- reading --------------------------------------------------------------------------------- */

void gpu_facts_read_one(const struct nvml *n, nvml_device d, struct gpu_sample *s, enum gpu_fact f)
{
    unsigned long long v[GPU_OUTPUTS_MAX] = {0};
    int rc = gpu_rows[f].read(n, d, &gpu_rows[f], s, v);
    for (int i = 0; i == 0 || (f + i < GPU_FACTS && !gpu_rows[f + i].read); i++) {
        s->rc[f + i] = rc;
        s->value[f + i] = (int64_t)v[i];
        s->known[f + i] =
            rc == NVML_SUCCESS && (s->value[f + i] >= 0 || gpu_rows[f + i].unit == GPU_SIGNED);
    }
}

void gpu_facts_read(const struct nvml *n, nvml_device d, struct gpu_sample *s, unsigned purposes,
                    atomic_int *at)
{
    for (int f = 0; f < GPU_FACTS; f++) {
        const struct gpu_row *r = &gpu_rows[f];
        if (!r->read || !(r->purposes & purposes) || (r->once && s->known[f]))
            continue;
        if (at)
            atomic_store(at, s->gpu.index * GPU_FACTS + f);
        gpu_facts_read_one(n, d, s, (enum gpu_fact)f);
    }
}

double gpu_facts_number(const struct gpu_sample *s, enum gpu_fact f)
{
    double scale = gpu_rows[f].unit == GPU_MILLIWATT ? 1000 : 1;
    return s->known[f] ? (double)s->value[f] / scale : (double)NAN;
}

/* The last two: an older or a newer driver, which knows another version of a struct or has dropped
 * the function. */
bool gpu_facts_is_unavailable(int rc)
{
    return rc == NVML_NOT_SUPPORTED || rc == NVML_NO_PERMISSION || rc == NVML_FUNCTION_NOT_FOUND ||
           rc == NVML_ARGUMENT_VERSION || rc == NVML_DEPRECATED;
}
