#include "launcher/metrics/metrics_gpu.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "launcher/gpu/gpu_facts.h"

/* DCGM writes bus ids as NVML does: "00000000:0F:00.0" for "0000:0f:00.0". */
static void dcgm_bus_id(char *out, size_t size, const char *bus_id)
{
    int n = snprintf(out, size, "%s%s", *bus_id ? "0000" : "", bus_id);
    for (int i = 0; i < n && (size_t)i < size; i++)
        out[i] = (char)toupper((unsigned char)out[i]);
}

/* Returns the value in the unit of --metrics; NaN: unknown. */
static double number(const struct gpu_sample *s, enum gpu_fact f)
{
    double v = gpu_facts_number(s, f);
    return gpu_rows[f].unit == GPU_MEMORY_BYTES ? floor(v / (1 << 20)) : v;
}

static void add_gpu(struct metrics_text *t, const struct gpu_sample *s, const char *host)
{
    const struct gpu *g = &s->gpu;
    char index[16], device[32], bus_id[sizeof g->bus_id + 4];
    snprintf(index, sizeof index, "%d", g->index);
    snprintf(device, sizeof device, "nvidia%d", g->index);
    dcgm_bus_id(bus_id, sizeof bus_id, g->bus_id);
    const struct metrics_label labels[] = {
        {"gpu", index},     {"UUID", g->uuid},  {"pci_bus_id", *bus_id ? bus_id : NULL},
        {"device", device}, {"Hostname", host}, {"modelName", g->name},
    };
    for (int f = 0; f < GPU_FACTS; f++) {
        const struct gpu_row *r = &gpu_rows[f];
        if (!r->place)
            continue;
        /* Prometheus wants no capitals inside of a label's name. */
        size_t count = COUNT_OF(labels) - (strncmp(r->metric.name, "drover_", 7) == 0);
        metrics_text_add(t, (enum metrics_name)(METRICS_GPU + r->place),
                         number(s, (enum gpu_fact)f), labels, count);
    }
}

void metrics_gpu_add(struct metrics_text *t, const struct gpu_sample *gpus, int count,
                     const char *host)
{
    for (int i = 0; i < count; i++)
        add_gpu(t, &gpus[i], host);
}
