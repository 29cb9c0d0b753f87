#include "launcher/metrics/metrics_gpu.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static double whole(int64_t value)
{
    return value == GPU_SAMPLE_UNKNOWN ? (double)NAN : (double)value;
}

static double mib(int64_t bytes)
{
    return bytes < 0 ? (double)NAN : floor((double)bytes / (1 << 20));
}

static double watts(double w)
{
    return w < 0 ? (double)NAN : w;
}

/* DCGM writes bus ids as NVML does: "00000000:0F:00.0" for "0000:0f:00.0". */
static void dcgm_bus_id(char *out, size_t size, const char *bus_id)
{
    int n = snprintf(out, size, "%s%s", *bus_id ? "0000" : "", bus_id);
    for (int i = 0; i < n && (size_t)i < size; i++)
        out[i] = (char)toupper((unsigned char)out[i]);
}

static void add_gpu(struct metrics_text *t, const struct gpu_sample *g, const char *host)
{
    bool has_free = g->memory_used_bytes >= 0 && g->memory_total_bytes >= 0;
    const struct {
        enum metrics_name name;
        double value;
    } values[] = {
        {METRICS_GPU_SM_CLOCK, whole(g->sm_mhz)},
        {METRICS_GPU_MEM_CLOCK, whole(g->memory_mhz)},
        {METRICS_GPU_TEMP, whole(g->temperature_c)},
        {METRICS_GPU_POWER_USAGE, watts(g->power_w)},
        {METRICS_GPU_ENERGY, whole(g->energy_mj)},
        {METRICS_GPU_PCIE_TX, whole(g->pcie_tx_bytes_per_s)},
        {METRICS_GPU_PCIE_RX, whole(g->pcie_rx_bytes_per_s)},
        {METRICS_GPU_UTIL, whole(g->busy_percent)},
        {METRICS_GPU_MEM_COPY_UTIL, whole(g->memory_percent)},
        {METRICS_GPU_FB_FREE, mib(has_free ? g->memory_total_bytes - g->memory_used_bytes : -1)},
        {METRICS_GPU_FB_USED, mib(g->memory_used_bytes)},
        {METRICS_GPU_POWER_LIMIT, watts(g->power_limit_w)},
        {METRICS_GPU_NVLINK_TX, whole(g->nvlink_tx_bytes)},
        {METRICS_GPU_NVLINK_RX, whole(g->nvlink_rx_bytes)},
    };
    char index[16], device[32], bus_id[sizeof g->bus_id + 4];
    snprintf(index, sizeof index, "%d", g->index);
    snprintf(device, sizeof device, "nvidia%d", g->index);
    dcgm_bus_id(bus_id, sizeof bus_id, g->bus_id);
    const struct metrics_label labels[] = {
        {"gpu", index},     {"UUID", g->uuid},  {"pci_bus_id", *bus_id ? bus_id : NULL},
        {"device", device}, {"Hostname", host}, {"modelName", g->name},
    };
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        /* Prometheus wants no capitals inside of a label's name. */
        size_t count = COUNT_OF(labels) - (values[i].name >= METRICS_GPU_POWER_LIMIT);
        metrics_text_add(t, values[i].name, values[i].value, labels, count);
    }
}

void metrics_gpu_add(struct metrics_text *t, const struct gpu_sample *gpus, int count,
                     const char *host)
{
    for (int i = 0; i < count; i++)
        add_gpu(t, &gpus[i], host);
}
