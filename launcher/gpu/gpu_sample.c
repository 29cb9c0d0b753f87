#include "launcher/gpu/gpu_sample.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "launcher/gpu/gpu.h"
#include "launcher/gpu/nvml.h"

struct device {
    nvml_device handle;
    struct gpu_sample constant; /* what does not change; the rest is UNKNOWN */
};

struct gpu_sampler {
    struct nvml nvml;
    bool initialised;
    struct device *devices;
    int count;
};

enum { UNKNOWN = GPU_SAMPLE_UNKNOWN };

_Static_assert(GPU_SAMPLE_THROTTLED == (NVML_REASON_HW_SLOWDOWN | NVML_REASON_SW_THERMAL |
                                        NVML_REASON_HW_THERMAL | NVML_REASON_POWER_BRAKE),
               "not the power limit or the clocks that the user has set");

/* ---- calls that may fail -------------------------------------------------------------------- */

static int64_t read_value(int (*f)(nvml_device, unsigned *), nvml_device d)
{
    unsigned v = 0;
    return f && f(d, &v) == NVML_SUCCESS ? (int64_t)v : UNKNOWN;
}

static int64_t read_choice(int (*f)(nvml_device, unsigned, unsigned *), nvml_device d, unsigned of)
{
    unsigned v = 0;
    return f && f(d, of, &v) == NVML_SUCCESS ? (int64_t)v : UNKNOWN;
}

static int64_t read_u64(int (*f)(nvml_device, unsigned long long *), nvml_device d)
{
    unsigned long long v = 0;
    return f && f(d, &v) == NVML_SUCCESS && v <= INT64_MAX ? (int64_t)v : UNKNOWN;
}

static int64_t times(int64_t value, int64_t unit)
{
    return value < 0 || value > INT64_MAX / unit ? UNKNOWN : value * unit;
}

static int64_t field_value(const struct nvml_field *f)
{
    /* Type 1 is 32 bits wide, types 2 and 3 are 64 bits wide. */
    uint64_t v = f->type == 1 ? f->value.u32 : f->value.u64;
    return f->rc == NVML_SUCCESS && f->type >= 1 && f->type <= 3 && v <= INT64_MAX ? (int64_t)v
                                                                                   : UNKNOWN;
}

/* ---- one sample ----------------------------------------------------------------------------- */

static void read_memory(const struct nvml *n, nvml_device d, struct gpu_sample *s)
{
    /* Version 2 does not count what the driver reserves as used. */
    struct nvml_memory_v2 v2 = {.version = NVML_VERSION_OF(struct nvml_memory_v2, 2)};
    struct nvml_memory v1 = {0};
    if (n->memory_v2 && n->memory_v2(d, &v2) == NVML_SUCCESS) {
        s->memory_used_bytes = (int64_t)v2.used;
        s->memory_total_bytes = (int64_t)v2.total;
    } else if (n->memory && n->memory(d, &v1) == NVML_SUCCESS) {
        s->memory_used_bytes = (int64_t)v1.used;
        s->memory_total_bytes = (int64_t)v1.total;
    }
}

static void read_nvlink(const struct nvml *n, nvml_device d, struct gpu_sample *s)
{
    enum { KIB = 1024 };
    struct nvml_field f[] = {{.field = NVML_FIELD_NVLINK_TX, .scope = NVML_ALL_LINKS},
                             {.field = NVML_FIELD_NVLINK_RX, .scope = NVML_ALL_LINKS}};
    if (!n->fields || n->fields(d, COUNT_OF(f), f) != NVML_SUCCESS)
        return;
    s->nvlink_tx_bytes = times(field_value(&f[0]), KIB);
    s->nvlink_rx_bytes = times(field_value(&f[1]), KIB);
}

static void read_device(const struct nvml *n, const struct device *of, struct gpu_sample *s)
{
    enum { KB = 1000 };
    nvml_device d = of->handle;
    struct nvml_utilization load = {0};
    *s = of->constant;
    if (n->utilization && n->utilization(d, &load) == NVML_SUCCESS && load.gpu <= 100 &&
        load.memory <= 100) {
        s->busy_percent = (int)load.gpu;
        s->memory_percent = (int)load.memory;
    }
    read_memory(n, d, s);
    int64_t power_mw = read_value(n->power, d), limit_mw = read_value(n->power_limit, d);
    s->power_w = power_mw < 0 ? UNKNOWN : (double)power_mw / 1000;
    s->power_limit_w = limit_mw < 0 ? UNKNOWN : (double)limit_mw / 1000;
    s->energy_mj = read_u64(n->energy, d);
    s->temperature_c = (int)read_choice(n->temperature, d, NVML_TEMPERATURE_GPU);
    s->sm_mhz = (int)read_choice(n->clock, d, NVML_CLOCK_SM);
    s->memory_mhz = (int)read_choice(n->clock, d, NVML_CLOCK_MEMORY);
    s->throttle_reasons = read_u64(n->reasons, d);
    s->pcie_tx_bytes_per_s = times(read_choice(n->pcie_throughput, d, NVML_PCIE_TX), KB);
    s->pcie_rx_bytes_per_s = times(read_choice(n->pcie_throughput, d, NVML_PCIE_RX), KB);
    read_nvlink(n, d, s);
}

int gpu_sampler_count(const struct gpu_sampler *s)
{
    return s->count;
}

void gpu_sampler_read(struct gpu_sampler *s, struct gpu_sample *out)
{
    for (int i = 0; i < s->count; i++)
        read_device(&s->nvml, &s->devices[i], &out[i]);
}

/* ---- what does not change ------------------------------------------------------------------- */

static const struct gpu_sample unknown = {
    .index = UNKNOWN,
    .busy_percent = UNKNOWN,
    .memory_percent = UNKNOWN,
    .memory_used_bytes = UNKNOWN,
    .memory_total_bytes = UNKNOWN,
    .power_w = UNKNOWN,
    .power_limit_w = UNKNOWN,
    .energy_mj = UNKNOWN,
    .temperature_c = UNKNOWN,
    .sm_mhz = UNKNOWN,
    .memory_mhz = UNKNOWN,
    .throttle_reasons = UNKNOWN,
    .pcie_tx_bytes_per_s = UNKNOWN,
    .pcie_rx_bytes_per_s = UNKNOWN,
    .nvlink_tx_bytes = UNKNOWN,
    .nvlink_rx_bytes = UNKNOWN,
    .pcie_max_bytes_per_s = UNKNOWN,
    .nvlink_max_bytes_per_s = UNKNOWN,
};

/* Returns the bytes per second and direction of a PCIe link, after its encoding. An idle GPU
 * reduces the generation, so this is what the link can be. */
static int64_t pcie_capacity(const struct nvml *n, nvml_device d)
{
    static const int64_t lane[] = {0,          250000000,  500000000, 984600000,
                                   1969000000, 3938000000, 7563000000};
    int64_t generation = read_value(n->pcie_max_gen, d), lanes = read_value(n->pcie_max_width, d);
    if (generation < 1 || generation >= (int64_t)COUNT_OF(lane) || lanes < 1 || lanes > 32)
        return UNKNOWN;
    return lane[generation] * lanes;
}

static int64_t nvlink_capacity(const struct nvml *n, nvml_device d)
{
    enum { MB = 1000000 };
    struct nvml_field speed = {.field = NVML_FIELD_NVLINK_SPEED};
    int64_t links = 0;
    for (unsigned i = 0; n->nvlink_state && i < NVML_NVLINKS_MAX; i++) {
        unsigned active = 0;
        links += n->nvlink_state(d, i, &active) == NVML_SUCCESS && active;
    }
    if (links == 0 || !n->fields || n->fields(d, 1, &speed) != NVML_SUCCESS)
        return UNKNOWN;
    return times(field_value(&speed), links * MB);
}

/* Adds a GPU or MIG instance if it has a UUID that is in `uuids`. `gpu`: the device itself, or the
 * GPU of the MIG instance. */
static void add_device(struct gpu_sampler *s, unsigned index, nvml_device gpu, nvml_device d,
                       char *const *uuids)
{
    const struct nvml *n = &s->nvml;
    struct gpu_sample c = unknown;
    struct nvml_pci pci = {0};
    if (!n->uuid || n->uuid(d, c.uuid, sizeof c.uuid) != NVML_SUCCESS)
        return;
    bool wanted = !uuids;
    for (size_t i = 0; uuids && uuids[i]; i++)
        wanted |= strcmp(uuids[i], c.uuid) == 0;
    if (!wanted)
        return;
    c.index = (int)index;
    if (!n->name || n->name(d, c.name, sizeof c.name) != NVML_SUCCESS)
        c.name[0] = '\0';
    if (n->pci && n->pci(gpu, &pci) == NVML_SUCCESS)
        snprintf(c.bus_id, sizeof c.bus_id, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    c.pcie_max_bytes_per_s = pcie_capacity(n, d);
    c.nvlink_max_bytes_per_s = nvlink_capacity(n, d);
    s->devices = xrealloc(s->devices, (size_t)s->count + 1, sizeof *s->devices);
    s->devices[s->count++] = (struct device){.handle = d, .constant = c};
}

/* Adds a GPU, or its MIG instances if it has any. A GPU that the driver has lost has no handle. */
static void add_gpu(struct gpu_sampler *s, unsigned index, char *const *uuids)
{
    const struct nvml *n = &s->nvml;
    nvml_device d = NULL, mig_device = NULL;
    if (n->by_index(index, &d) != NVML_SUCCESS)
        return;
    bool has_mig = false;
    for (unsigned i = 0; n->mig_device && i < GPU_MIG_MAX; i++)
        if (n->mig_device(d, i, &mig_device) == NVML_SUCCESS) {
            has_mig = true;
            add_device(s, index, d, mig_device, uuids);
        }
    if (!has_mig)
        add_device(s, index, d, d, uuids);
}

/* ---- open and close ------------------------------------------------------------------------- */

void gpu_sampler_close(struct gpu_sampler *s)
{
    if (!s)
        return;
    if (s->initialised && s->nvml.shutdown)
        (void)s->nvml.shutdown(); /* the result does not matter, since NVML was only read */
    nvml_close(&s->nvml);
    free(s->devices);
    free(s);
}

int gpu_sampler_open(struct gpu_sampler **out, char *const *uuids, struct err *e)
{
    AUTO(gpu_sampler) struct gpu_sampler *s = xzalloc(sizeof *s);
    struct err why = {0};
    unsigned total = 0;
    if (!nvml_open(&s->nvml, &why))
        return err_set(e, -ENODEV, "%s", why.code < 0 ? why.text : "no NVIDIA driver is loaded");
    int rc = s->nvml.init();
    s->initialised = rc == NVML_SUCCESS;
    rc = s->initialised ? s->nvml.count(&total) : rc;
    if (rc != NVML_SUCCESS)
        return err_set(e, rc == NVML_NO_DRIVER ? -ENODEV : -EIO, "NVIDIA driver: %s",
                       nvml_error(&s->nvml, rc));
    for (unsigned i = 0; i < total; i++)
        add_gpu(s, i, uuids);
    if (s->count == 0)
        return err_set(e, -ENODEV, "the NVIDIA driver lists none of the GPUs");
    *out = TAKE(s);
    return 0;
}
