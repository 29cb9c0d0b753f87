/* test_gpu_sample - samples of GPUs, as tests/fake/nvml.c reports them. */
#include "launcher/gpu/gpu_sample.h"

#include "tests/unit/fake_nvml.h"
#include "tests/unit/test.h"

static struct gpu_sampler *open_machine(const char *text, char *const *uuids)
{
    struct gpu_sampler *s = NULL;
    struct err e = {0};
    fake_nvml_machine(text);
    int rc = gpu_sampler_open(&s, uuids, &e);
    fake_nvml_forget();
    if (rc < 0)
        FAIL("%s", e.text);
    return s;
}

TEST(a_sample_has_every_value_in_its_unit)
{
    AUTO(gpu_sampler)
    struct gpu_sampler *s = open_machine("gpus 1\n"
                                         "gpu 0 utilization 71\ngpu 0 memory_utilization 33\n"
                                         "gpu 0 power 350500\ngpu 0 energy 7000+250\n"
                                         "gpu 0 temperature 64\ngpu 0 clock_sm 1755\n"
                                         "gpu 0 reasons 4\ngpu 0 pcie_tx 12000\n"
                                         "gpu 0 pcie_rx 11000\ngpu 0 nvlink_tx 10+2\n"
                                         "gpu 0 nvlink_rx 20\ngpu 0 process 4711 1000\n",
                                         NULL);
    struct gpu_sample g = {0};
    CHECK_INT(gpu_sampler_count(s), 1);
    gpu_sampler_read(s, &g);
    CHECK_STR(g.uuid, "GPU-00000000-0000-0000-0000-000000000000");
    CHECK_STR(g.name, "NVIDIA H100 80GB HBM3");
    CHECK_STR(g.bus_id, "0000:1b:00.0");
    CHECK_INT(g.index, 0);
    CHECK_INT(g.busy_percent, 71);
    CHECK_INT(g.memory_percent, 33);
    CHECK_INT(g.memory_used_bytes, 1005LL << 20);
    CHECK_INT(g.memory_total_bytes, 81559LL << 20);
    CHECK_NEAR(g.power_w, 350.5, 1e-9);
    CHECK_NEAR(g.power_limit_w, 700, 1e-9);
    CHECK_INT(g.energy_mj, 7000);
    CHECK_INT(g.temperature_c, 64);
    CHECK_INT(g.sm_mhz, 1755);
    CHECK_INT(g.memory_mhz, 2619);
    CHECK_INT(g.throttle_reasons, 4);
    CHECK_INT(g.pcie_tx_bytes_per_s, 12000000);
    CHECK_INT(g.pcie_rx_bytes_per_s, 11000000);
    CHECK_INT(g.nvlink_tx_bytes, 10 * 1024);
    CHECK_INT(g.nvlink_rx_bytes, 20 * 1024);
    CHECK_INT(g.pcie_max_bytes_per_s, 16 * 3938000000LL); /* generation 5 x16 */
    CHECK_INT(g.nvlink_max_bytes_per_s, 18 * 26562000000LL);
    gpu_sampler_read(s, &g);
    CHECK_INT(g.energy_mj, 7250);
    CHECK_INT(g.nvlink_tx_bytes, 12 * 1024);
}

TEST(a_value_that_the_driver_does_not_report_is_unknown)
{
    AUTO(gpu_sampler)
    struct gpu_sampler *s = open_machine("gpus 1\n"
                                         "gpu 0 memory error 3\ngpu 0 power error 3\n"
                                         "gpu 0 power_limit error 3\ngpu 0 energy error 3\n"
                                         "gpu 0 temperature error 3\ngpu 0 clock_sm error 3\n"
                                         "gpu 0 clock_memory error 3\ngpu 0 reasons error 3\n"
                                         "gpu 0 pcie_tx error 3\ngpu 0 pcie_rx error 3\n"
                                         "gpu 0 fields error 3\ngpu 0 pcie_max_gen error 3\n",
                                         NULL);
    struct gpu_sample g = {0};
    gpu_sampler_read(s, &g);
    CHECK_INT(g.busy_percent, GPU_SAMPLE_UNKNOWN); /* has no default in the stand-in */
    CHECK_INT(g.memory_percent, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.memory_used_bytes, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.memory_total_bytes, GPU_SAMPLE_UNKNOWN);
    CHECK_NEAR(g.power_w, GPU_SAMPLE_UNKNOWN, 0);
    CHECK_NEAR(g.power_limit_w, GPU_SAMPLE_UNKNOWN, 0);
    CHECK_INT(g.energy_mj, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.temperature_c, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.sm_mhz, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.memory_mhz, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.throttle_reasons, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.pcie_tx_bytes_per_s, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.pcie_rx_bytes_per_s, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.nvlink_tx_bytes, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.nvlink_rx_bytes, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.pcie_max_bytes_per_s, GPU_SAMPLE_UNKNOWN);
    CHECK_INT(g.nvlink_max_bytes_per_s, GPU_SAMPLE_UNKNOWN);
}

TEST(only_the_gpus_with_these_uuids_are_sampled)
{
    char *uuids[] = {(char *)"GPU-00000002-0000-0000-0000-000000000000", (char *)"GPU-elsewhere",
                     NULL};
    AUTO(gpu_sampler)
    struct gpu_sampler *s = open_machine("gpus 4\ngpu 2 utilization 9\n", uuids);
    struct gpu_sample g = {0};
    CHECK_INT(gpu_sampler_count(s), 1);
    gpu_sampler_read(s, &g);
    CHECK_INT(g.index, 2);
    CHECK_INT(g.busy_percent, 9);
}

TEST(a_mig_instance_stands_for_its_gpu_and_has_no_utilisation)
{
    fake_nvml_use();
    setenv("DROVER_FAKE_GPUS", "GPU-aa,A100,1b,40960,40000,MIG-5a1f;GPU-bb,A100,c3,40960,5", 1);
    setenv("DROVER_FAKE_GPU_BUSY", "42", 1);
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    CHECK_INT(gpu_sampler_open(&s, NULL, NULL), 0);
    CHECK_INT(gpu_sampler_count(s), 2);
    struct gpu_sample g[2] = {0};
    gpu_sampler_read(s, g);
    CHECK_STR(g[0].uuid, "MIG-5a1f");
    CHECK_STR(g[0].bus_id, "0000:1b:00.0");
    CHECK_INT(g[0].index, 0);
    CHECK_INT(g[0].busy_percent, GPU_SAMPLE_UNKNOWN);
    CHECK_NEAR(g[0].power_w, GPU_SAMPLE_UNKNOWN, 0);
    CHECK_STR(g[1].uuid, "GPU-bb");
    CHECK_INT(g[1].busy_percent, 42);
}

TEST(without_a_driver_or_without_these_gpus_there_is_no_sampler)
{
    char *other[] = {(char *)"GPU-elsewhere", NULL};
    struct gpu_sampler *s = NULL;
    struct err e = {0};
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    CHECK_INT(gpu_sampler_open(&s, NULL, &e), -ENODEV);
    fake_nvml_use();
    setenv("DROVER_FAKE_GPUS", "GPU-aa,H100,1b,9,9", 1);
    CHECK_INT(gpu_sampler_open(&s, other, &e), -ENODEV);
    setenv("DROVER_FAKE_NVML_INIT", "9", 1); /* NVML_ERROR_DRIVER_NOT_LOADED */
    CHECK_INT(gpu_sampler_open(&s, NULL, &e), -ENODEV);
    setenv("DROVER_FAKE_NVML_INIT", "18", 1); /* NVML_ERROR_LIB_RM_VERSION_MISMATCH */
    CHECK_INT(gpu_sampler_open(&s, NULL, &e), -EIO);
    CHECK(s == NULL);
    gpu_sampler_close(NULL);
}
