/* nvml_machine - the machine that NVML's stand-in (nvml.c) reports: its GPUs, and the values that
 * the file $DROVER_FAKE_NVML gives them. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GPUS = 64, LINES = 512, NOT_SUPPORTED = 3 };

struct fake_gpu {
    char uuid[96], name[96], part[96];
    unsigned bus;
    unsigned long long total_mib, free_mib;
};

static struct fake_gpu gpus[GPUS];
static unsigned count;

static const struct {
    const char *key, *value;
} defaults[] = {
    /* clang-format off */
    {"driver_version", "580.65.06"}, {"cuda_version", "13000"}, {"count", "ok"}, {"handle", "ok"},
    {"memory", "ok"}, {"memory_v2", "ok"}, {"reserved", "600"}, {"vbios", "96.00.74.00.1C"}, {"temperature", "35"},
    {"slowdown", "90"}, {"margin", "50"}, {"slowdown_tlimit", "-2"}, {"power", "120000"},
    {"power_limit", "700000"}, {"power_default", "700000"}, {"clock_sm", "1980"},
    {"clock_memory", "2619"}, {"max_clock_sm", "1980"}, {"max_clock_memory", "2619"},
    {"pstate", "0"}, {"reasons", "1"}, {"pcie_width", "16"}, {"pcie_max_width", "16"},
    {"pcie_gen", "5"}, {"pcie_max_gen", "5"}, {"pcie_replays", "0"}, {"persistence", "1"},
    {"compute_mode", "0"}, {"mig_mode", "0"}, {"mig_pending", "0"}, {"ecc_mode", "1"},
    {"ecc_pending", "1"}, {"ecc_volatile", "0"}, {"ecc_aggregate", "0"}, {"ecc_corrected", "0"},
    {"remapped", "ok"}, {"remap_corrected", "0"}, {"remap_uncorrected", "0"},
    {"remap_pending", "0"}, {"remap_failed", "0"}, {"capability", "9"}, {"capability_minor", "0"},
    {"fabric", "ok"}, {"fabric_state", "3"}, {"fabric_status", "0"}, {"fabric_health", "0"},
    {"fields", "ok"}, {"recovery_action", "0"}, {"nvlink_errors", "0"}, {"nvlink", "switch"},
    {"p2p", "0"}, {"processes", "ok"}, {"memory_utilization", "0"},
    {"energy", "5000000"}, {"pcie_tx", "0"}, {"pcie_rx", "0"}, {"nvlink_speed", "26562"},
    {"nvlink_tx", "0"}, {"nvlink_rx", "0"},
    /* clang-format on */
};

static struct line {
    unsigned gpu; /* GPUS: all of them, or the machine */
    char key[32], value[96];
    unsigned long long reads;
} lines[LINES];
static unsigned line_count;

static void read_file(void)
{
    const char *path = getenv("DROVER_FAKE_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    char text[256], gpu[8];
    line_count = 0;
    while (f && fgets(text, sizeof text, f) && line_count < LINES) {
        struct line *l = &lines[line_count];
        *l = (struct line){.gpu = GPUS};
        if (sscanf(text, "gpus %u", &count) == 1)
            continue;
        if (sscanf(text, "gpu %7s %31s %95[^\n]", gpu, l->key, l->value) == 3) {
            l->gpu = strcmp(gpu, "all") == 0 ? GPUS : (unsigned)atoi(gpu);
            line_count++;
        } else if (sscanf(text, "system %31s %95[^\n]", l->key, l->value) == 2) {
            line_count++;
        }
    }
    if (f)
        fclose(f);
}

static int is_mig(const struct fake_gpu *g)
{
    return g && strncmp(g->uuid, "MIG-", 4) == 0;
}

/* Returns the value of a key, which the file or the defaults have; NULL: none. */
static const char *value_of(const struct fake_gpu *g, const char *key, struct line **from)
{
    unsigned gpu = GPUS; /* also that of a MIG instance, which is not in the array */
    for (unsigned i = 0; g && i < count; i++)
        gpu = g == &gpus[i] ? i : gpu;
    for (unsigned i = line_count; i-- > 0;)
        if ((lines[i].gpu == gpu || lines[i].gpu == GPUS) && strcmp(lines[i].key, key) == 0) {
            *from = &lines[i];
            return lines[i].value;
        }
    for (unsigned i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(defaults[i].key, key) == 0)
            return defaults[i].value;
    return NULL;
}

/* Returns the code of a call, and its value. */
static int get_text(const struct fake_gpu *g, const char *key, const char **out)
{
    struct line *from = NULL;
    int of_mig = strcmp(key, "memory") == 0 || strcmp(key, "memory_v2") == 0 ||
                 strcmp(key, "reserved") == 0 || strcmp(key, "processes") == 0 ||
                 strcmp(key, "uuid") == 0 || strcmp(key, "name") == 0;
    if (is_mig(g) && !of_mig) /* as the driver: the rest is known of the whole GPU only */
        return NOT_SUPPORTED;
    const char *value = value_of(g, key, &from);
    if (value && strcmp(value, "hang") == 0)
        for (;;)
            pause();
    if (value && strncmp(value, "slow ", 5) == 0) {
        usleep(400000);
        value += 5;
    }
    if (value && strncmp(value, "error ", 6) == 0)
        return atoi(value + 6);
    if (value)
        *out = value;
    return value ? 0 : NOT_SUPPORTED;
}

static int get_u64(const struct fake_gpu *g, const char *key, unsigned long long *out)
{
    struct line *from = NULL;
    const char *value = NULL;
    char *end;
    int rc = get_text(g, key, &value);
    if (rc)
        return rc;
    *out = strtoull(value, &end, 0);
    (void)value_of(g, key, &from);
    if (*end == '+' && from)
        *out += strtoull(end + 1, NULL, 0) * from->reads++;
    return 0;
}

static int get(const struct fake_gpu *g, const char *key, unsigned *out)
{
    unsigned long long value = 0;
    int rc = get_u64(g, key, &value);
    if (rc == 0)
        *out = (unsigned)value;
    return rc;
}

static int get_two(const struct fake_gpu *g, const char *first, const char *second, unsigned *a,
                   unsigned *b)
{
    int rc = get(g, first, a);
    return rc ? rc : get(g, second, b);
}
