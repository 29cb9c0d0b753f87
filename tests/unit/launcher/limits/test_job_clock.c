/* test_job_clock - what a job uses of its limits, measured. */
#include "launcher/limits/job_clock.h"

#include "tests/unit/test.h"

struct reached {
    struct job_clock *clock;
    int count;
    enum job_limit limit;
};

static void on_limit(void *arg, enum job_limit limit)
{
    struct reached *r = arg;
    r->count++;
    r->limit = limit;
    job_clock_close(r->clock);
}

TEST(gpu_hours_count_over_all_attempts_and_not_between_them)
{
    uv_loop_t loop;
    const struct job_limits l = {.budget_gpu_h = 0.2 / 3600, .timeout_s = 100};
    struct reached r = {.limit = JOB_LIMITS};
    CHECK_INT(uv_loop_init(&loop), 0);
    r.clock = job_clock_open(&loop, &l, on_limit, &r);
    job_clock_set_gpus(r.clock, 2);
    usleep(60000);
    job_clock_set_gpus(r.clock, 0);
    double first = job_clock_usage(r.clock).gpu_hours;
    CHECK(first >= 2 * 0.06 / 3600);
    usleep(20000);
    CHECK(job_clock_usage(r.clock).gpu_hours == first);
    CHECK_INT(job_clock_usage(r.clock).gpus, 0);
    job_clock_set_gpus(r.clock, 2);
    CHECK_INT(job_clock_usage(r.clock).gpus, 2);
    CHECK_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(r.count, 1);
    CHECK_INT(r.limit, JOB_LIMIT_BUDGET);
    CHECK_INT(uv_loop_close(&loop), 0);
}

TEST(without_limits_nothing_is_reached)
{
    uv_loop_t loop;
    const struct job_limits none = {0};
    CHECK_INT(uv_loop_init(&loop), 0);
    struct job_clock *c = job_clock_open(&loop, &none, on_limit, NULL);
    CHECK_INT(uv_run(&loop, UV_RUN_DEFAULT), 0); /* no timer keeps the loop */
    job_clock_close(c);
    CHECK_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&loop), 0);
}
