/* test_gpu_load - the load of a job's GPUs, as tests/fake/nvml.c reports it. */
#include "launcher/history/gpu_load.h"

#include <limits.h>

#include "tests/unit/test.h"

static void use_fake(const char *busy)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    AUTO(free) char *path = xasprintf("%s/../fake/libnvidia-ml.so.1", self);
    CHECK_INT(access(path, R_OK), 0);
    setenv("DROVER_NVML_LIB", path, 1);
    setenv("DROVER_FAKE_GPUS", "GPU-aa,H100,1b,9,9;GPU-bb,H100,43,9,9", 1);
    if (busy)
        setenv("DROVER_FAKE_GPU_BUSY", busy, 1);
}

TEST(the_load_is_the_mean_of_the_samples)
{
    char *uuids[] = {(char *)"GPU-bb", NULL};
    use_fake("42");
    AUTO(gpu_load) struct gpu_load *g = gpu_load_open(uuids);
    CHECK(g);
    while (gpu_load_mean(g) < 0) /* the test's limit ends it if no sample arrives */
        usleep(20000);
    CHECK_NEAR(gpu_load_mean(g), 0.42, 1e-12);
}

TEST(without_gpus_the_load_is_unknown)
{
    char *none[] = {NULL};
    use_fake("42");
    CHECK(!gpu_load_open(NULL));
    CHECK(!gpu_load_open(none));
    CHECK_NEAR(gpu_load_mean(NULL), -1, 0);
    gpu_load_close(NULL);
}

TEST(a_sampler_that_is_closed_at_once_has_no_sample)
{
    char *uuids[] = {(char *)"GPU-aa", NULL};
    use_fake("42");
    struct gpu_load *g = gpu_load_open(uuids);
    CHECK_NEAR(gpu_load_mean(g), -1, 0);
    gpu_load_close(g);
}
