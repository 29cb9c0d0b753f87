/* test_gpu_sampler - values of GPUs, as tests/fake/nvml.c reports them. */
#include "launcher/gpu/gpu_sampler.h"

#include <math.h>

#include "tests/unit/fake_nvml.h"
#include "tests/unit/test.h"

static int64_t value_of(const struct gpu_sample *s, enum gpu_fact f)
{
    return gpu_sample_value(s, f, -1);
}

static void use_gpus(const char *gpus, const char *init_code)
{
    fake_nvml_use();
    setenv("DROVER_FAKE_GPUS", gpus, 1);
    setenv("DROVER_FAKE_NVML_INIT", init_code, 1);
}

/* Reads all values. Returns the number of samples. */
static int sample(const struct gpu_sample **out, struct gpu_sampler *s)
{
    struct err e = {0};
    int n = 0;
    if (gpu_sampler_read(s, out, &n, 5000, &e) < 0)
        FAIL("%s", e.text);
    return n;
}

/* Opens a sampler of a machine, and reads once. */
static struct gpu_sampler *open_machine(const char *text, char *const *uuids,
                                        const struct gpu_sample **out, int *count)
{
    const struct gpu_sampler_opts o = {.purposes = GPU_SAMPLE, .uuids = uuids};
    struct gpu_sampler *s = NULL;
    fake_nvml_machine(text);
    CHECK_INT(gpu_sampler_open(&s, &o, NULL), 0);
    *count = sample(out, s);
    fake_nvml_forget();
    return s;
}

TEST(a_sample_has_every_value_in_its_unit)
{
    const struct gpu_sample *g;
    int n;
    AUTO(gpu_sampler)
    struct gpu_sampler *s = open_machine("gpus 1\n"
                                         "gpu 0 utilization 71\ngpu 0 memory_utilization 33\n"
                                         "gpu 0 power 350500\ngpu 0 energy 7000+250\n"
                                         "gpu 0 temperature 64\ngpu 0 clock_sm 1755\n"
                                         "gpu 0 reasons 4\ngpu 0 pcie_tx 12000\n"
                                         "gpu 0 pcie_rx 11000\ngpu 0 nvlink_tx 10+2\n"
                                         "gpu 0 nvlink_rx 20\ngpu 0 process 4711 1000\n",
                                         NULL, &g, &n);
    CHECK_INT(n, 1);
    CHECK_STR(g->gpu.uuid, "GPU-00000000-0000-0000-0000-000000000000");
    CHECK_STR(g->gpu.name, "NVIDIA H100 80GB HBM3");
    CHECK_STR(g->gpu.bus_id, "0000:1b:00.0");
    CHECK_INT(g->gpu.index, 0);
    CHECK_INT(value_of(g, GPU_FACT_BUSY), 71);
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_BUSY), 33);
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_USED), 1005LL << 20);
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_TOTAL), 81559LL << 20);
    CHECK_INT(value_of(g, GPU_FACT_POWER), 350500);
    CHECK_NEAR(gpu_facts_number(g, GPU_FACT_POWER), 350.5, 1e-9);
    CHECK_INT(value_of(g, GPU_FACT_POWER_LIMIT), 700000);
    CHECK_INT(value_of(g, GPU_FACT_ENERGY), 7000);
    CHECK_INT(value_of(g, GPU_FACT_TEMPERATURE), 64);
    CHECK_INT(value_of(g, GPU_FACT_SM_CLOCK), 1755);
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_CLOCK), 2619);
    CHECK_INT(value_of(g, GPU_FACT_THROTTLE), 4);
    CHECK_INT(value_of(g, GPU_FACT_PCIE_TX), 12000000);
    CHECK_INT(value_of(g, GPU_FACT_PCIE_RX), 11000000);
    CHECK_INT(value_of(g, GPU_FACT_NVLINK_TX), 10 * 1024);
    CHECK_INT(value_of(g, GPU_FACT_NVLINK_RX), 20 * 1024);
    CHECK_INT(value_of(g, GPU_FACT_PCIE_CAPACITY), 16 * 3938000000LL); /* generation 5 x16 */
    CHECK_INT(value_of(g, GPU_FACT_NVLINK_CAPACITY), 18 * 26562000000LL);
    CHECK_INT(sample(&g, s), 1);
    CHECK_INT(value_of(g, GPU_FACT_ENERGY), 7250);
    CHECK_INT(value_of(g, GPU_FACT_NVLINK_TX), 12 * 1024);
}

TEST(a_value_that_the_driver_does_not_report_is_unknown)
{
    const struct gpu_sample *g;
    int n;
    AUTO(gpu_sampler)
    struct gpu_sampler *s = open_machine("gpus 1\n"
                                         "gpu 0 memory error 3\ngpu 0 power error 3\n"
                                         "gpu 0 power_limit error 3\ngpu 0 energy error 3\n"
                                         "gpu 0 temperature error 3\ngpu 0 clock_sm error 3\n"
                                         "gpu 0 clock_memory error 3\ngpu 0 reasons error 3\n"
                                         "gpu 0 pcie_tx error 3\ngpu 0 pcie_rx error 3\n"
                                         "gpu 0 fields error 3\ngpu 0 pcie_max_gen error 3\n",
                                         NULL, &g, &n);
    CHECK_INT(value_of(g, GPU_FACT_BUSY), -1); /* has no default in the stand-in */
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_BUSY), -1);
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_USED), -1);
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_TOTAL), -1);
    CHECK(isnan(gpu_facts_number(g, GPU_FACT_POWER)));
    CHECK_INT(value_of(g, GPU_FACT_POWER_LIMIT), -1);
    CHECK_INT(value_of(g, GPU_FACT_ENERGY), -1);
    CHECK_INT(value_of(g, GPU_FACT_TEMPERATURE), -1);
    CHECK_INT(value_of(g, GPU_FACT_SM_CLOCK), -1);
    CHECK_INT(value_of(g, GPU_FACT_MEMORY_CLOCK), -1);
    CHECK_INT(value_of(g, GPU_FACT_THROTTLE), -1);
    CHECK_INT(value_of(g, GPU_FACT_PCIE_TX), -1);
    CHECK_INT(value_of(g, GPU_FACT_PCIE_RX), -1);
    CHECK_INT(value_of(g, GPU_FACT_NVLINK_TX), -1);
    CHECK_INT(value_of(g, GPU_FACT_NVLINK_RX), -1);
    CHECK_INT(value_of(g, GPU_FACT_PCIE_CAPACITY), -1);
    CHECK_INT(value_of(g, GPU_FACT_NVLINK_CAPACITY), -1);
}

TEST(only_the_gpus_with_these_uuids_are_sampled)
{
    char *uuids[] = {(char *)"GPU-00000002-0000-0000-0000-000000000000", (char *)"GPU-elsewhere",
                     NULL};
    const struct gpu_sample *g;
    int n;
    AUTO(gpu_sampler)
    struct gpu_sampler *s = open_machine("gpus 4\ngpu 2 utilization 9\n", uuids, &g, &n);
    CHECK_INT(n, 1);
    CHECK_INT(g->gpu.index, 2);
    CHECK_INT(value_of(g, GPU_FACT_BUSY), 9);
}

TEST(a_mig_instance_stands_for_its_gpu_and_has_no_utilisation)
{
    const struct gpu_sampler_opts o = {.purposes = GPU_SAMPLE};
    const struct gpu_sample *g;
    use_gpus("GPU-aa,A100,1b,40960,30000,MIG-5a1f;GPU-bb,A100,c3,40960,5000", "0");
    setenv("DROVER_FAKE_GPU_BUSY", "42", 1);
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    CHECK_INT(gpu_sampler_open(&s, &o, NULL), 0);
    CHECK_INT(sample(&g, s), 2);
    CHECK_STR(g[0].gpu.uuid, "MIG-5a1f");
    CHECK_STR(g[0].gpu.bus_id, "0000:1b:00.0");
    CHECK_INT(g[0].gpu.index, 0);
    CHECK_INT(value_of(&g[0], GPU_FACT_BUSY), -1);
    CHECK_INT(value_of(&g[0], GPU_FACT_POWER), -1);
    CHECK_STR(g[1].gpu.uuid, "GPU-bb");
    CHECK_INT(value_of(&g[1], GPU_FACT_BUSY), 42);
}

static int read_once(char *const *uuids, struct err *e)
{
    const struct gpu_sampler_opts o = {.purposes = GPU_SAMPLE, .uuids = uuids};
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    const struct gpu_sample *g;
    int n, rc = gpu_sampler_open(&s, &o, e);
    return rc < 0 ? rc : gpu_sampler_read(s, &g, &n, 5000, e);
}

TEST(without_a_driver_or_without_these_gpus_there_is_no_sample)
{
    char *other[] = {(char *)"GPU-elsewhere", NULL};
    struct err e = {0};
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    CHECK_INT(read_once(NULL, &e), -ENODEV);
    CHECK_HAS(e.text, "/nowhere");
    use_gpus("GPU-aa,H100,1b,9000,9000", "0");
    CHECK_INT(read_once(other, &e), -ENODEV);
    CHECK_STR(e.text, "the NVIDIA driver lists none of the GPUs");
    use_gpus("GPU-aa,H100,1b,9000,9000", "9"); /* NVML_ERROR_DRIVER_NOT_LOADED */
    CHECK_INT(read_once(NULL, &e), -ENODEV);
    use_gpus("GPU-aa,H100,1b,9000,9000", "18"); /* NVML_ERROR_LIB_RM_VERSION_MISMATCH */
    CHECK_INT(read_once(NULL, &e), -EIO);
    gpu_sampler_close(NULL);
}

TEST(who_uses_a_gpu_is_told_with_what_is_in_use)
{
    use_gpus("GPU-aa,H100,1b,1000,900;GPU-bb,A100,43,1000,1000,MIG-5a1f", "0");
    char path[] = "/tmp/test_gpu.XXXXXX";
    AUTO(fd) int fd = mkstemp(path);
    const char text[] = "GPU-aa 4711 50\nGPU-aa 12 7\nMIG-5a1f 0 3\n";
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    setenv("DROVER_FAKE_GPU_USERS", path, 1);
    setenv("DROVER_FAKE_GPU_BUSY", "42", 1);
    AUTO(free) struct gpu_sample *u = NULL;
    int n = 0;
    CHECK_INT(gpu_sampler_once(&u, &n, GPU_USE, 5000, NULL), 0);
    unlink(path);
    unsetenv("DROVER_FAKE_GPU_USERS");
    CHECK_INT(n, 2);
    CHECK_STR(u[0].gpu.uuid, "GPU-aa");
    CHECK_INT(value_of(&u[0], GPU_FACT_BUSY), 42);
    CHECK_INT(u[0].process_count, 2);
    CHECK_INT(u[0].processes[0].pid, 4711);
    CHECK_INT(u[0].processes[1].pid, 12);
    CHECK_INT(u[0].processes[0].bytes, 50LL << 20);
    CHECK_INT(value_of(&u[0], GPU_FACT_MEMORY_USED), 157LL << 20);
    CHECK_INT(value_of(&u[0], GPU_FACT_MEMORY_TOTAL), 1000LL << 20);
    CHECK_STR(u[1].gpu.uuid, "MIG-5a1f"); /* instead of the GPU that it belongs to */
    CHECK_INT(u[1].process_count, 0);
    CHECK_INT(value_of(&u[1], GPU_FACT_BUSY),
              -1); /* the driver does not report it for MIG instances */
}

TEST(without_a_driver_nobody_uses_a_gpu_and_one_that_does_not_answer_is_an_error)
{
    AUTO(free) struct gpu_sample *u = NULL;
    int n = 7;
    struct err e = {0};
    use_gpus("", "9");
    CHECK_INT(gpu_sampler_once(&u, &n, GPU_USE, 5000, &e), 0);
    CHECK_INT(n, 0);
    use_gpus("", "18");
    CHECK_INT(gpu_sampler_once(&u, &n, GPU_USE, 5000, &e), -EIO);
    CHECK_HAS(e.text, "mismatch");
}

static void read_memory(int64_t *used, int64_t *free_bytes, const char *text)
{
    AUTO(free) struct gpu_sample *g = NULL;
    int n = 0;
    fake_nvml_machine(text);
    CHECK_INT(gpu_sampler_once(&g, &n, GPU_LIST, 5000, NULL), 0);
    fake_nvml_forget();
    CHECK_INT(n, 1);
    *used = value_of(g, GPU_FACT_MEMORY_USED);
    *free_bytes = value_of(g, GPU_FACT_MEMORY_FREE);
}

TEST(memory_in_use_excludes_what_the_driver_reserves_if_the_driver_tells)
{
    static const char machine[] = "gpus 1\ngpu 0 reserved 600\ngpu 0 process 1 1000\n";
    AUTO(free) char *old = xasprintf("%sgpu 0 memory_v2 error 13\n", machine);
    int64_t used, left;
    read_memory(&used, &left, machine);
    CHECK_INT(used, 1005LL << 20);
    CHECK_INT(left, (81559LL - 1005 - 600) << 20);
    read_memory(&used, &left, old);
    CHECK_INT(used, 1605LL << 20);
    CHECK_INT(left, (81559LL - 1605) << 20);
}

TEST(a_slow_driver_is_waited_for_and_one_that_hangs_names_its_call)
{
    const struct gpu_sampler_opts o = {.purposes = GPU_HEALTH};
    const struct gpu_sample *g;
    struct err e = {0};
    int n, gpu;
    fake_nvml_machine("gpus 3\ngpu 1 power hang\n");
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    CHECK_INT(gpu_sampler_open(&s, &o, NULL), 0);
    CHECK_INT(gpu_sampler_read(s, &g, &n, 300, &e), -ETIMEDOUT);
    CHECK_HAS(e.text, "does not respond within 0.3 s");
    CHECK_INT(gpu_sampler_at(s, &gpu), GPU_FACT_POWER);
    CHECK_INT(gpu, 1);
    CHECK_INT(value_of(&g[0], GPU_FACT_POWER), 120000); /* the earlier GPUs are complete */
    CHECK_INT(gpu_sampler_read(s, &g, &n, 10, &e), -ETIMEDOUT);
    fake_nvml_forget();
}

TEST(a_driver_that_needs_longer_than_the_deadline_gives_every_second_reading)
{
    const struct gpu_sampler_opts o = {.purposes = GPU_HEALTH};
    const struct gpu_sample *g;
    int n;
    fake_nvml_machine("gpus 1\ngpu 0 power slow 7000\n");
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    CHECK_INT(gpu_sampler_open(&s, &o, NULL), 0);
    for (int i = 0; i < 2; i++) {
        struct err e = {0};
        CHECK_INT(gpu_sampler_read(s, &g, &n, 250, &e), -ETIMEDOUT);
        CHECK_INT(gpu_sampler_read(s, &g, &n, 300, NULL), 0);
        CHECK_INT(value_of(&g[0], GPU_FACT_POWER), 7000);
    }
    fake_nvml_forget();
}

TEST(each_row_of_a_call_has_a_function_and_each_metric_a_place_of_its_own)
{
    for (int f = 0; f < GPU_FACTS; f++) {
        const struct gpu_row *r = &gpu_rows[f];
        CHECK(!r->read || (r->function && r->purposes));
        CHECK(!r->place || (r->metric.name && r->metric.type && r->metric.help));
        for (int k = 0; k < f && r->place; k++)
            CHECK(gpu_rows[k].place != r->place);
    }
}
