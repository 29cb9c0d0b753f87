/* test_job_monitor - a job's monitor over the GPUs of tests/fake/nvml.c. */
#include "launcher/watch/job_monitor.h"

#include "tests/unit/fake_nvml.h"
#include "tests/unit/test.h"

static char *const second[] = {(char *)"GPU-00000001-0000-0000-0000-000000000000", NULL};

/* The test's limit ends the wait if no sample arrives. */
static void await_samples(struct job_monitor *m, int n)
{
    for (;;) {
        AUTO(job_usage) struct job_usage *u = job_monitor_usage(m);
        struct job_usage_summary s;
        job_usage_summarise(&s, u);
        bool enough = s.samples >= n;
        job_usage_summary_end(&s);
        if (enough)
            return;
        usleep(20000);
    }
}

TEST(the_gpus_of_the_job_are_sampled)
{
    fake_nvml_machine("gpus 2\ngpu 0 utilization 7\ngpu 1 utilization 42\ngpu 1 energy 100+3000\n");
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, NULL);
    CHECK(m);
    await_samples(m, 2);
    fake_nvml_forget();
    AUTO(job_monitor_reading) struct job_monitor_reading latest;
    job_monitor_latest(m, &latest);
    CHECK_INT(latest.count, 1);
    CHECK_STR(latest.samples[0].gpu.uuid, second[0]);
    CHECK_INT(gpu_sample_value(&latest.samples[0], GPU_FACT_BUSY, -1), 42);
    AUTO(job_usage) struct job_usage *u = job_monitor_usage(m);
    struct job_usage_summary s;
    job_usage_summarise(&s, u);
    CHECK_NEAR(s.utilisation, 0.42, 1e-12);
    CHECK(s.energy_j >= 3);
    job_usage_summary_end(&s);
}

TEST(a_driver_that_hangs_stops_neither_the_job_nor_its_end)
{
    fake_nvml_machine("gpus 2\ngpu 1 utilization 42\ngpu 1 power hang\n");
    struct job_monitor *m = job_monitor_open(second, NULL, NULL);
    CHECK(m);
    usleep(50000); /* the thread may be in the driver by now */
    AUTO(job_monitor_reading) struct job_monitor_reading latest;
    job_monitor_latest(m, &latest);
    CHECK_INT(latest.count, 0);
    CHECK_NEAR(job_monitor_idle_s(m), 0, 0);
    job_monitor_close(m);
    fake_nvml_forget();
}

TEST(a_later_monitor_continues_the_samples)
{
    fake_nvml_machine("gpus 2\ngpu 1 utilization 10+80\n");
    struct job_monitor *first = job_monitor_open(second, NULL, NULL);
    await_samples(first, 1);
    AUTO(job_usage) struct job_usage *before = job_monitor_usage(first);
    job_monitor_close(first);
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, before);
    await_samples(m, 2);
    fake_nvml_forget();
}

TEST(without_gpus_or_without_a_driver_nothing_is_sampled)
{
    struct job_monitor_reading latest;
    job_monitor_latest(NULL, &latest);
    CHECK_INT(latest.count, 0);
    CHECK(!job_monitor_usage(NULL));
    CHECK_NEAR(job_monitor_idle_s(NULL), 0, 0);
    job_monitor_close(NULL);
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, NULL);
    CHECK(m);
    job_monitor_latest(m, &latest);
    CHECK_INT(latest.count, 0);
    free(latest.samples);
}
