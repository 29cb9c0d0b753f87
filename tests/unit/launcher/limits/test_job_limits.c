/* test_job_limits - which limit of a job is reached first, and what the user is told. */
#include "launcher/limits/job_limits.h"

#include <math.h>

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(a_budget_is_in_gpu_hours_or_in_money_with_a_price)
{
    static const struct {
        const char *text;
        double price, gpu_h;
        const char *error; /* NULL: it is valid */
    } cases[] = {
        {"12gpuh", 0, 12, NULL},
        {"0.5gpuh", 2, 0.5, NULL},
        {"30", 2, 15, NULL},
        {"30.00", 1.5, 20, NULL},
        {"30.00", 0, 0, "needs the price"},
        {"0gpuh", 0, 0, "more than 0"},
        {"0", 1, 0, "more than 0"},
        {"", 0, 0, "is not a budget"},
        {"gpuh", 0, 0, "is not a budget"},
        {"-3gpuh", 0, 0, "is not a budget"},
        {"3 gpuh", 0, 0, "is not a budget"},
        {"1.2.3gpuh", 0, 0, "is not a budget"},
        {"3h", 0, 0, "is not a budget"},
        {"inf", 1, 0, "is not a budget"},
        {"1e3gpuh", 0, 0, "is not a budget"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = {0};
        struct job_limits l = {.budget_text = cases[i].text, .price = cases[i].price};
        CHECK_INT(job_limits_parse_budget(&l, &e), cases[i].error ? -EINVAL : 0);
        if (cases[i].error)
            CHECK_HAS(e.text, cases[i].error);
        else
            CHECK_NEAR(job_limits_budget_gpu_h(&l), cases[i].gpu_h, 1e-12);
    }
}

TEST(the_nearest_limit_is_the_next_one)
{
    static const struct job_limits none = {0}, timeout = {.timeout_s = 100},
                                   budget = {.budget_gpu_h = 2},
                                   all = {.timeout_s = 100, .deadline_s = 5060, .budget_gpu_h = 2};
    static const struct {
        const struct job_limits *limits;
        struct job_limits_usage usage;
        double next_s;
        enum job_limit limit;
    } cases[] = {
        {&none, {1e9, 1e9, 1e9, 8}, INFINITY, JOB_LIMITS},
        {&timeout, {40, 5000, 0, 8}, 60, JOB_LIMIT_TIMEOUT},
        {&all, {40, 5001, 0, 8}, 59, JOB_LIMIT_DEADLINE},
        {&all, {40, 5000, 0, 8}, 60, JOB_LIMIT_TIMEOUT},    /* two at once: the first row */
        {&all, {10, 5000, 1.9, 8}, 45, JOB_LIMIT_BUDGET},   /* 0.1 h are left for 8 GPUs */
        {&all, {10, 5000, 1.9, 0}, 60, JOB_LIMIT_DEADLINE}, /* between two attempts */
        {&budget, {10, 5000, 1.9, 0}, INFINITY, JOB_LIMITS},
        {&budget, {10, 5000, 2.1, 0}, 0, JOB_LIMIT_BUDGET},
        {&all, {100, 5060, 2, 8}, 0, JOB_LIMIT_TIMEOUT},
        {&timeout, {130, 5000, 0, 8}, -30, JOB_LIMIT_TIMEOUT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        enum job_limit limit = JOB_LIMITS;
        double next_s = job_limits_next_s(cases[i].limits, &cases[i].usage, &limit);
        if (isinf(cases[i].next_s))
            CHECK(isinf(next_s));
        else
            CHECK_NEAR(next_s, cases[i].next_s, 1e-9);
        CHECK_INT(limit, cases[i].limit);
    }
}

TEST(the_user_is_told_which_limit_it_was_and_by_how_much)
{
    static const struct job_limits l = {.timeout_s = 90,
                                        .deadline_s = 5000,
                                        .deadline_text = "18:00",
                                        .budget_gpu_h = 12,
                                        .budget_text = "12gpuh"},
                                   money = {.budget_money = 30, .budget_text = "30.00", .price = 2};
    static const struct {
        const struct job_limits *limits;
        enum job_limit limit;
        struct job_limits_usage at_end;
        const char *text;
    } cases[] = {
        {&l, JOB_LIMIT_TIMEOUT, {90.01, 0, 0, 0}, "after 90 s (--timeout)"},
        {&l, JOB_LIMIT_TIMEOUT, {92.14, 0, 0, 0}, "after 90 s (--timeout) and ended 2.1 s later"},
        {&l,
         JOB_LIMIT_DEADLINE,
         {10, 5030, 0, 0},
         "at its deadline (--deadline 18:00) and ended 30.0 s later"},
        {&l,
         JOB_LIMIT_BUDGET,
         {10, 0, 12.001, 0},
         "at its budget (--budget 12gpuh): it has used 12 GPU hours"},
        {&l,
         JOB_LIMIT_BUDGET,
         {10, 0, 12.07, 0},
         "at its budget (--budget 12gpuh): it has used 12.07 GPU hours, 0.07 more than the budget"},
        {&money,
         JOB_LIMIT_BUDGET,
         {10, 0, 15.25, 0},
         "at its budget (--budget 30.00): it has used 15.25 GPU hours, which cost 30.50 at 2, 0.50 "
         "more than the budget"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        job_limits_describe(&b, cases[i].limits, cases[i].limit, &cases[i].at_end);
        CHECK_STR(strbuf_str(&b), cases[i].text);
    }
}
