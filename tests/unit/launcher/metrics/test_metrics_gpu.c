/* test_metrics_gpu - GPU fields by the names, units and labels of dcgm-exporter. */
#include "launcher/metrics/metrics_text.h"

#include "tests/unit/test.h"

static const struct gpu_sample unknown = {
    .gpu = {.uuid = "MIG-1", .name = "NVIDIA A100", .index = 3}};

static char *text_of(const struct gpu_sample *g)
{
    AUTO(metrics_text) struct metrics_text *t = metrics_text_new();
    metrics_text_add_gpus(t, g, 1, "c03");
    return metrics_text_take(t);
}

TEST(a_gpu_has_dcgm_exporters_names_units_and_labels)
{
    struct gpu_sample g = {
        .gpu = {
            .uuid = "GPU-5c8b1d2e", .name = "NVIDIA H200", .bus_id = "0000:0f:00.0", .index = 2}};
    static const struct {
        enum gpu_fact fact;
        int64_t value;
    } known[] = {{GPU_FACT_BUSY, 97},
                 {GPU_FACT_MEMORY_BUSY, 41},
                 {GPU_FACT_MEMORY_USED, ((int64_t)101 << 20) - 1},
                 {GPU_FACT_MEMORY_FREE, (int64_t)40 << 20},
                 {GPU_FACT_MEMORY_TOTAL, (int64_t)141 << 20},
                 {GPU_FACT_POWER, 612500},
                 {GPU_FACT_POWER_LIMIT, 700000},
                 {GPU_FACT_ENERGY, 123456789},
                 {GPU_FACT_TEMPERATURE, 64},
                 {GPU_FACT_SM_CLOCK, 1755},
                 {GPU_FACT_MEMORY_CLOCK, 2619},
                 {GPU_FACT_PCIE_TX, 12000000},
                 {GPU_FACT_PCIE_RX, 11000000},
                 {GPU_FACT_NVLINK_TX, 1 << 30},
                 {GPU_FACT_NVLINK_RX, 2048}};
    for (size_t i = 0; i < COUNT_OF(known); i++)
        gpu_sample_set(&g, known[i].fact, known[i].value);
    static const char labels[] = "{gpu=\"2\",UUID=\"GPU-5c8b1d2e\",pci_bus_id=\"00000000:0F:00.0\","
                                 "device=\"nvidia2\",Hostname=\"c03\",modelName=\"NVIDIA H200\"}";
    static const char *const values[] = {
        "DCGM_FI_DEV_SM_CLOCK%s 1755",    "DCGM_FI_DEV_MEM_CLOCK%s 2619",
        "DCGM_FI_DEV_GPU_TEMP%s 64",      "DCGM_FI_DEV_POWER_USAGE%s 612.5",
        "DCGM_FI_DEV_GPU_UTIL%s 97",      "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION%s 123456789",
        "DCGM_FI_DEV_MEM_COPY_UTIL%s 41", "DCGM_FI_PROF_PCIE_TX_BYTES%s 12000000",
        "DCGM_FI_DEV_FB_FREE%s 40",       "DCGM_FI_PROF_PCIE_RX_BYTES%s 11000000",
        "DCGM_FI_DEV_FB_USED%s 100",
    };
    AUTO(free) char *text = text_of(&g);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        AUTO(free) char *name = xstrndup(values[i], strcspn(values[i], "%"));
        AUTO(free) char *line = xasprintf("\n%s%s%s\n", name, labels, strchr(values[i], '%') + 2);
        CHECK_HAS(text, line);
    }
    CHECK_HAS(text, "\ndrover_gpu_power_limit_watts{gpu=\"2\",UUID=\"GPU-5c8b1d2e\","
                    "pci_bus_id=\"00000000:0F:00.0\",device=\"nvidia2\",Hostname=\"c03\"} 700\n");
    CHECK_HAS(text, "\ndrover_gpu_nvlink_transmit_bytes_total{gpu=\"2\"");
    CHECK_HAS(text, "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n");
}

TEST(unknown_values_are_left_out)
{
    struct gpu_sample g = unknown;
    AUTO(free) char *none = text_of(&g);
    CHECK_STR(none, "");
    gpu_sample_set(&g, GPU_FACT_MEMORY_USED, 0);
    gpu_sample_set(&g, GPU_FACT_BUSY, 0);
    AUTO(free) char *two = text_of(&g);
    CHECK_HAS(two, "\nDCGM_FI_DEV_FB_USED{gpu=\"3\",UUID=\"MIG-1\",device=\"nvidia3\","
                   "Hostname=\"c03\",modelName=\"NVIDIA A100\"} 0\n");
    CHECK_HAS(two, "\nDCGM_FI_DEV_GPU_UTIL{");
    CHECK(!strstr(two, "FB_FREE"));
}
