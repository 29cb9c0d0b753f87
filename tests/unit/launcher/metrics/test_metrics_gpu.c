/* test_metrics_gpu - GPU fields by the names, units and labels of dcgm-exporter. */
#include "launcher/metrics/metrics_gpu.h"

#include "tests/unit/test.h"

static const struct gpu_sample unknown = {.uuid = "MIG-1",
                                          .name = "NVIDIA A100",
                                          .index = 3,
                                          .busy_percent = -1,
                                          .memory_percent = -1,
                                          .memory_used_bytes = -1,
                                          .memory_total_bytes = -1,
                                          .power_w = -1,
                                          .power_limit_w = -1,
                                          .energy_mj = -1,
                                          .temperature_c = -1,
                                          .sm_mhz = -1,
                                          .memory_mhz = -1,
                                          .pcie_tx_bytes_per_s = -1,
                                          .pcie_rx_bytes_per_s = -1,
                                          .nvlink_tx_bytes = -1,
                                          .nvlink_rx_bytes = -1};

static char *text_of(const struct gpu_sample *g)
{
    AUTO(metrics_text) struct metrics_text *t = metrics_text_new();
    metrics_gpu_add(t, g, 1, "c03");
    return metrics_text_take(t);
}

TEST(a_gpu_has_dcgm_exporters_names_units_and_labels)
{
    const struct gpu_sample g = {.uuid = "GPU-5c8b1d2e",
                                 .name = "NVIDIA H200",
                                 .bus_id = "0000:0f:00.0",
                                 .index = 2,
                                 .busy_percent = 97,
                                 .memory_percent = 41,
                                 .memory_used_bytes = (int64_t)100 << 20,
                                 .memory_total_bytes = (int64_t)140 << 20,
                                 .power_w = 612.5,
                                 .power_limit_w = 700,
                                 .energy_mj = 123456789,
                                 .temperature_c = 64,
                                 .sm_mhz = 1755,
                                 .memory_mhz = 2619,
                                 .pcie_tx_bytes_per_s = 12000000,
                                 .pcie_rx_bytes_per_s = 11000000,
                                 .nvlink_tx_bytes = 1 << 30,
                                 .nvlink_rx_bytes = 2048};
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
    g.memory_used_bytes = 0; /* the size is unknown, and so is the free memory */
    g.busy_percent = 0;
    AUTO(free) char *two = text_of(&g);
    CHECK_HAS(two, "\nDCGM_FI_DEV_FB_USED{gpu=\"3\",UUID=\"MIG-1\",device=\"nvidia3\","
                   "Hostname=\"c03\",modelName=\"NVIDIA A100\"} 0\n");
    CHECK_HAS(two, "\nDCGM_FI_DEV_GPU_UTIL{");
    CHECK(!strstr(two, "FB_FREE"));
}
