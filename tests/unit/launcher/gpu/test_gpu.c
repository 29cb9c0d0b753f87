#include "launcher/gpu/gpu.h"

#include "common/mem.h"
#include "tests/unit/fake_nvml.h"
#include "tests/unit/test.h"

static void use_fake(const char *gpus, const char *init_code)
{
    fake_nvml_use();
    setenv("DROVER_FAKE_GPUS", gpus, 1);
    setenv("DROVER_FAKE_NVML_INIT", init_code, 1);
}

TEST(parts_of_a_gpu_are_listed_with_it)
{
    use_fake("GPU-aa,A100,1b,40960,40000,MIG-5a1f;GPU-bb,A100,c3,40960,5", "0");
    struct gpu *g = NULL;
    int n = 0;
    CHECK_INT(gpu_list(&g, &n, 5000, NULL), 0);
    CHECK_INT(n, 2);
    CHECK_STR(g[0].mig_uuids[0], "MIG-5a1f");
    CHECK_STR(g[0].mig_uuids[1], "");
    CHECK_STR(g[1].mig_uuids[0], "");
    free(g);
}

TEST(gpus_are_listed_as_the_library_tells_them)
{
    use_fake("GPU-aa,NVIDIA H100,1b,81559,81000;GPU-bb,NVIDIA H100,c3,81559,5", "0");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1); /* not set by gpu_list() */
    struct gpu *g = NULL;
    int n = 0;
    CHECK_INT(gpu_list(&g, &n, 5000, NULL), 0);
    CHECK_INT(n, 2);
    CHECK_INT(g[0].index, 0);
    CHECK_STR(g[0].uuid, "GPU-aa");
    CHECK_STR(g[0].name, "NVIDIA H100");
    CHECK_STR(g[0].bus_id, "0000:1b:00.0");
    CHECK_INT(g[0].numa, -1);
    CHECK_INT(g[1].index, 1);
    CHECK_STR(g[1].bus_id, "0000:c3:00.0");
    free(g);
}

TEST(a_lost_gpu_is_left_out_and_the_others_keep_their_numbers)
{
    use_fake("GPU-aa,H100,1b,1,1;GPU-bb,lost,43,1,1;GPU-cc,H100,52,1,1", "0");
    struct gpu *g = NULL;
    int n = 0;
    CHECK_INT(gpu_list(&g, &n, 5000, NULL), 0);
    CHECK_INT(n, 2);
    CHECK_INT(g[0].index, 0);
    CHECK_INT(g[1].index, 2);
    CHECK_STR(g[1].uuid, "GPU-cc");
    free(g);
}

TEST(no_library_and_no_driver_are_no_gpus_and_no_error)
{
    struct gpu *g = NULL;
    int n = 5;
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    CHECK_INT(gpu_list(&g, &n, 5000, NULL), 0);
    CHECK_INT(n, 0);
    CHECK(g == NULL);
    use_fake("GPU-aa,H100,1b,1,1", "9"); /* NVML_ERROR_DRIVER_NOT_LOADED */
    CHECK_INT(gpu_list(&g, &n, 5000, NULL), 0);
    CHECK_INT(n, 0);
    use_fake("", "0");
    CHECK_INT(gpu_list(&g, &n, 5000, NULL), 0);
    CHECK_INT(n, 0);
    CHECK(g == NULL);
}

TEST(a_library_without_the_functions_is_no_gpus)
{
    struct gpu *g = NULL;
    int n = 5;
    setenv("DROVER_NVML_LIB", "libm.so.6", 1);
    CHECK_INT(gpu_list(&g, &n, 5000, NULL), 0);
    CHECK_INT(n, 0);
}

TEST(a_driver_that_does_not_answer_is_an_error_that_says_so)
{
    use_fake("GPU-aa,H100,1b,1,1", "18");
    struct gpu *g = NULL;
    int n = 5;
    struct err e = {0};
    CHECK_INT(gpu_list(&g, &n, 5000, &e), -EIO);
    CHECK_INT(n, 0);
    CHECK_HAS(e.text, "Driver/library version mismatch");
    CHECK(e.hint[0]);
}

TEST(bus_ids_have_one_form)
{
    char b[24];
    CHECK_INT(gpu_bus_id(b, sizeof b, "00000000:07:00.0"), 0);
    CHECK_STR(b, "0000:07:00.0");
    CHECK_INT(gpu_bus_id(b, sizeof b, "0001:AF:1F.7"), 0);
    CHECK_STR(b, "0001:af:1f.7");
    CHECK_INT(gpu_bus_id(b, sizeof b, "07:00.0"), 0);
    CHECK_STR(b, "0000:07:00.0");
    static const char *const bad[] = {
        "", "07", "07:00", "x:00.0", "0000:07:00.0 ", "0000:07:00.00"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(gpu_bus_id(b, sizeof b, bad[i]), -EINVAL);
    CHECK_STR(b, "0000:07:00.0");
}

TEST(a_driver_that_hangs_is_given_up)
{
    static const char *const hangs[] = {"system init hang\n", "system count hang\n",
                                        "gpu 1 handle hang\n"};
    use_fake("", "0");
    for (size_t i = 0; i < COUNT_OF(hangs); i++) {
        char path[] = "/tmp/drover-test-XXXXXX";
        struct gpu *g = NULL;
        struct err e = {0};
        int n = 0;
        AUTO(fd) int fd = mkstemp(path);
        CHECK(dprintf(fd, "gpus 2\n%s", hangs[i]) > 0);
        setenv("DROVER_FAKE_NVML", path, 1);
        CHECK_INT(gpu_list(&g, &n, 50, &e), -ETIMEDOUT);
        CHECK_HAS(e.text, "does not respond within 0.05 s");
        CHECK(!g && n == 0);
        unsetenv("DROVER_FAKE_NVML");
        unlink(path);
    }
}
