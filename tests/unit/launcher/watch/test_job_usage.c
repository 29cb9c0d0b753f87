/* test_job_usage - from samples to a summary. */
#include "launcher/watch/job_usage.h"

#include "tests/unit/test.h"

enum { UNKNOWN = JOB_USAGE_UNKNOWN };

static struct gpu_sample busy(const char *uuid, int percent)
{
    struct gpu_sample s = {.gpu = {.name = "H100"}};
    snprintf(s.gpu.uuid, sizeof s.gpu.uuid, "%s", uuid);
    gpu_sample_set(&s, GPU_FACT_BUSY, percent);
    return s;
}

static struct job_usage_summary summary(const struct job_usage *u)
{
    struct job_usage_summary s;
    job_usage_summarise(&s, u);
    return s;
}

TEST(utilisation_is_a_mean_per_gpu_and_the_lowest_one_is_named)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    for (int t = 0; t < 4; t++) {
        struct gpu_sample s[] = {busy("GPU-aa", 90), busy("GPU-bb", t % 2 ? 60 : 10)};
        job_usage_add(u, t, s, 2);
    }
    struct job_usage_summary s = summary(u);
    CHECK_INT(s.count, 2);
    CHECK_INT(s.samples, 4);
    CHECK_NEAR(s.seconds, 3, 1e-9);
    CHECK_NEAR(s.gpus[0].utilisation, 0.9, 1e-12);
    CHECK_NEAR(s.gpus[1].utilisation, 0.35, 1e-12);
    CHECK_NEAR(s.utilisation, 0.625, 1e-12);
    CHECK_INT(s.worst, 1);
    job_usage_summary_end(&s);
}

TEST(idle_time_is_a_share_and_the_longest_time_without_a_pause)
{
    static const int percents[] = {0, 4, 4, 5, 0, 0, 80, 3};
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    for (int t = 0; t < 8; t++) {
        struct gpu_sample s = busy("GPU-aa", percents[t]);
        job_usage_add(u, 10 + t, &s, 1);
    }
    struct job_usage_summary s = summary(u);
    CHECK_NEAR(s.gpus[0].idle_share, 6.0 / 8, 1e-12);
    CHECK_NEAR(s.gpus[0].longest_idle_s, 2, 1e-9); /* from 10 s to 12 s */
    job_usage_summary_end(&s);
}

TEST(the_job_is_idle_as_long_as_all_its_gpus)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    CHECK_NEAR(job_usage_idle_s(u, 2), 0, 0);
    struct gpu_sample s[] = {busy("GPU-aa", 0), busy("GPU-bb", 50)};
    job_usage_add(u, 1, s, 2);
    gpu_sample_set(&s[1], GPU_FACT_BUSY, 0);
    job_usage_add(u, 2, s, 2);
    CHECK_NEAR(job_usage_idle_s(u, 2), 0, 1e-9);
    job_usage_add(u, 5, s, 2);
    CHECK_NEAR(job_usage_idle_s(u, 2), 3, 1e-9);
    s[0].known[GPU_FACT_BUSY] = false; /* it may be busy */
    job_usage_add(u, 6, s, 2);
    CHECK_NEAR(job_usage_idle_s(u, 2), 0, 1e-9);
    gpu_sample_set(&s[0], GPU_FACT_BUSY, 0);
    job_usage_add(u, 7, s, 2);
    job_usage_add(u, 9, s, 2);
    CHECK_NEAR(job_usage_idle_s(u, 2), 2, 1e-9);
    job_usage_pause(u);
    CHECK_NEAR(job_usage_idle_s(u, 2), 0, 1e-9);
}

TEST(a_job_is_idle_only_if_each_of_its_gpus_is_sampled_and_idle)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    const struct gpu_sample here = busy("GPU-aa", 0), there = busy("GPU-bb", 0);
    job_usage_add(u, 1, &here, 1);
    job_usage_add(u, 4, &here, 1);
    CHECK_NEAR(job_usage_idle_s(u, 1), 3, 1e-9);
    CHECK_NEAR(job_usage_idle_s(u, 2), 0, 0); /* the other node has sent no samples */
    job_usage_add(u, 5, &there, 1);
    job_usage_add(u, 6, &here, 1);
    job_usage_add(u, 7, &there, 1);
    CHECK_NEAR(job_usage_idle_s(u, 2), 2, 1e-9);
    for (int t = 8; t < 20; t++)
        job_usage_add(u, t, &here, 1);
    CHECK_NEAR(job_usage_idle_s(u, 2), 0, 0); /* … and none for over 10 s */
    job_usage_pause(u);
    job_usage_add(u, 30, &here, 1);
    job_usage_add(u, 33, &here, 1);
    CHECK_NEAR(job_usage_idle_s(u, 1), 3, 1e-9); /* the next attempt runs without that node */
}

TEST(time_without_samples_is_not_idle_time)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    const struct gpu_sample s = busy("GPU-aa", 0);
    job_usage_add(u, 1, &s, 1);
    job_usage_add(u, 3, &s, 1);
    job_usage_add(u, 1000, &s, 1); /* drover was suspended */
    CHECK_NEAR(job_usage_idle_s(u, 1), 0, 1e-9);
    job_usage_add(u, 1001, &s, 1);
    CHECK_NEAR(job_usage_idle_s(u, 1), 1, 1e-9);
    struct job_usage_summary sum = summary(u);
    CHECK_NEAR(sum.gpus[0].longest_idle_s, 2, 1e-9);
    job_usage_summary_end(&sum);
}

TEST(memory_is_the_peak_and_the_fullest_gpu_is_named)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    for (int t = 0; t < 3; t++) {
        struct gpu_sample s[] = {busy("GPU-aa", 1), busy("GPU-bb", 1)};
        gpu_sample_set(&s[0], GPU_FACT_MEMORY_USED, t == 1 ? 30 : 20);
        gpu_sample_set(&s[0], GPU_FACT_MEMORY_TOTAL, 40);
        gpu_sample_set(&s[1], GPU_FACT_MEMORY_USED, 50);
        gpu_sample_set(&s[1], GPU_FACT_MEMORY_TOTAL, 80);
        job_usage_add(u, t, s, 2);
    }
    struct job_usage_summary s = summary(u);
    CHECK_INT(s.gpus[0].peak_bytes, 30);
    CHECK_INT(s.gpus[1].peak_bytes, 50);
    CHECK_INT(s.fullest, 0); /* 75 % of its memory */
    job_usage_summary_end(&s);
}

TEST(the_peak_is_that_of_the_jobs_processes_or_else_marked)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    for (int t = 0; t < 3; t++) {
        struct gpu_sample s[] = {busy("GPU-aa", 1), busy("GPU-bb", 1)};
        for (int i = 0; i < 2; i++) {
            gpu_sample_set(&s[i], GPU_FACT_MEMORY_USED, i ? 40 : 76);
            gpu_sample_set(&s[i], GPU_FACT_MEMORY_TOTAL, 80);
        }
        if (t == 1) /* before and after, the driver lists no process of the job */
            gpu_sample_set(&s[0], GPU_FACT_JOB_MEMORY, 30);
        job_usage_add(u, t, s, 2);
    }
    struct job_usage_summary s = summary(u);
    CHECK_INT(s.gpus[0].peak_bytes, 30);
    CHECK(!s.gpus[0].peak_of_all);
    CHECK_INT(s.gpus[0].all_peak_bytes, 76);
    CHECK_INT(s.gpus[1].peak_bytes, 40);
    CHECK(s.gpus[1].peak_of_all);
    CHECK_INT(s.fullest, 1);
    CHECK_NEAR(s.memory_share, 0.95, 1e-12); /* of all processes */
    job_usage_summary_end(&s);
}

TEST(energy_is_a_difference_that_survives_a_reset_and_leaves_pauses_out)
{
    static const int64_t counter[] = {5000000, 5100000, 5300000, 1000, 51000};
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    struct gpu_sample s = busy("GPU-aa", 1);
    for (int t = 0; t < 5; t++) {
        gpu_sample_set(&s, GPU_FACT_ENERGY, counter[t]);
        job_usage_add(u, t, &s, 1);
    }
    struct job_usage_summary sum = summary(u);
    CHECK_NEAR(sum.energy_j, 300 + 50, 1e-9); /* the reset lost one second */
    job_usage_summary_end(&sum);
    job_usage_pause(u);
    for (int t = 0; t < 2; t++) {
        gpu_sample_set(&s, GPU_FACT_ENERGY, 900000 + 1000 * t);
        job_usage_add(u, 100 + t, &s, 1);
    }
    sum = summary(u);
    CHECK_NEAR(sum.energy_j, 351, 1e-9);
    CHECK_NEAR(sum.seconds, 5, 1e-9);
    job_usage_summary_end(&sum);
}

TEST(power_and_clock_are_means_and_throttling_is_a_share)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    static const int reasons[] = {0, 4, 0x48, 0x20}; /* 4: the power limit, which is usual */
    struct gpu_sample s = busy("GPU-aa", 1);
    for (int t = 0; t < 4; t++) {
        gpu_sample_set(&s, GPU_FACT_POWER, 1000 * (100 + 100 * t));
        gpu_sample_set(&s, GPU_FACT_POWER_LIMIT, 1000 * (500));
        gpu_sample_set(&s, GPU_FACT_SM_CLOCK, 1000 + 200 * t);
        gpu_sample_set(&s, GPU_FACT_TEMPERATURE, t == 1 ? 80 : 60);
        gpu_sample_set(&s, GPU_FACT_THROTTLE, reasons[t]);
        job_usage_add(u, t, &s, 1);
    }
    struct job_usage_summary sum = summary(u);
    CHECK_NEAR(sum.gpus[0].power_w, 250, 1e-9);
    CHECK_NEAR(sum.gpus[0].power_share, 0.5, 1e-9);
    CHECK_NEAR(sum.gpus[0].sm_mhz, 1300, 1e-9);
    CHECK_INT(sum.gpus[0].temperature_c, 80);
    CHECK_NEAR(sum.gpus[0].throttled_share, 0.5, 1e-9);
    job_usage_summary_end(&sum);
}

TEST(new_memory_errors_and_the_first_xids_are_kept)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    struct gpu_sample s = busy("GPU-aa", 0);
    gpu_sample_set(&s, GPU_FACT_ECC_VOLATILE, 7); /* from before the job */
    gpu_sample_set(&s, GPU_FACT_XIDS, 0);
    job_usage_add(u, 1, &s, 1);
    gpu_sample_set(&s, GPU_FACT_ECC_VOLATILE, 9);
    gpu_sample_set(&s, GPU_FACT_XIDS, 48 | 45 << GPU_XID_BITS);
    job_usage_add(u, 2, &s, 1);
    struct job_usage_summary sum = summary(u);
    CHECK_INT(sum.gpus[0].ecc_errors, 2);
    CHECK_INT(sum.gpus[0].xid_count, 2);
    CHECK_INT(sum.gpus[0].xids[0].code, 48);
    CHECK_INT(sum.gpus[0].xids[1].code, 45);
    CHECK_NEAR(sum.gpus[0].xids[1].at_s, 2, 0);
    job_usage_summary_end(&sum);
    for (int t = 3; t < 30; t++)
        job_usage_add(u, t, &s, 1);
    sum = summary(u);
    CHECK_INT(sum.gpus[0].xid_count, JOB_USAGE_XIDS);
    CHECK_INT(sum.gpus[0].xids[7].code, 45);
    job_usage_summary_end(&sum);
}

TEST(a_link_counts_in_the_direction_with_less_traffic)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    struct gpu_sample s = busy("GPU-aa", 1);
    gpu_sample_set(&s, GPU_FACT_PCIE_CAPACITY, 1000);
    gpu_sample_set(&s, GPU_FACT_NVLINK_CAPACITY, 10000);
    for (int t = 0; t < 3; t++) {
        gpu_sample_set(&s, GPU_FACT_PCIE_TX, 100);
        gpu_sample_set(&s, GPU_FACT_PCIE_RX, 900);
        gpu_sample_set(&s, GPU_FACT_NVLINK_TX, 7777777 + 4000 * t);
        gpu_sample_set(&s, GPU_FACT_NVLINK_RX, 3000 * t);
        job_usage_add(u, t, &s, 1);
    }
    struct job_usage_summary sum = summary(u);
    CHECK_NEAR(sum.gpus[0].link_share, 0.3, 1e-9);
    CHECK_NEAR(sum.link_share, 0.3, 1e-9);
    job_usage_summary_end(&sum);
}

TEST(the_machine_counts_between_its_samples)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    const struct host_sample first = {100, 50, 10, 1000, 2000, 500, 600, 1000};
    const struct host_sample second = {110, 57, 12, 1500, 2000, 4500, 2600, 1000};
    job_usage_add_host(u, 5, &first);
    job_usage_add_host(u, 10, &second);
    struct job_usage_summary s = summary(u);
    CHECK_NEAR(s.cpu_busy, 0.7, 1e-9);
    CHECK_NEAR(s.cpu_wait, 0.2, 1e-9);
    CHECK_INT(s.disk_read_bytes, 500);
    CHECK_INT(s.disk_written_bytes, 0);
    CHECK_INT(s.net_received_bytes, 4000);
    CHECK_INT(s.net_sent_bytes, 2000);
    CHECK_NEAR(s.link_share, 0.4, 1e-9);
    job_usage_summary_end(&s);
}

TEST(what_no_sample_has_is_unknown)
{
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    const struct gpu_sample unknown = {.gpu = {.uuid = "GPU-aa", .name = "H100"}};
    job_usage_add(u, 1, &unknown, 1);
    job_usage_add(u, 2, &unknown, 1);
    AUTO(job_usage) struct job_usage *copy = job_usage_copy(u);
    struct job_usage_summary s = summary(copy);
    CHECK_INT(s.count, 1);
    CHECK_INT(s.samples, 2);
    CHECK_INT(s.worst, -1);
    CHECK_INT(s.fullest, -1);
    CHECK_NEAR(s.utilisation, UNKNOWN, 0);
    CHECK_NEAR(s.energy_j, UNKNOWN, 0);
    CHECK_NEAR(s.power_share, UNKNOWN, 0);
    CHECK_NEAR(s.cpu_busy, UNKNOWN, 0);
    CHECK_NEAR(s.link_share, UNKNOWN, 0);
    CHECK_INT(s.disk_read_bytes, UNKNOWN);
    CHECK_NEAR(s.gpus[0].idle_share, UNKNOWN, 0);
    CHECK_NEAR(s.gpus[0].longest_idle_s, UNKNOWN, 0);
    CHECK_INT(s.gpus[0].peak_bytes, UNKNOWN);
    CHECK_NEAR(s.memory_share, UNKNOWN, 0);
    CHECK_NEAR(s.gpus[0].power_w, UNKNOWN, 0);
    CHECK_NEAR(s.gpus[0].sm_mhz, UNKNOWN, 0);
    CHECK_INT(s.gpus[0].temperature_c, UNKNOWN);
    CHECK_NEAR(s.gpus[0].throttled_share, UNKNOWN, 0);
    job_usage_summary_end(&s);
}
