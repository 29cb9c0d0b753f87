/* test_baseline_series - the speed that follows from a sequence of reports. */
#include "launcher/jobs/baseline_series.h"

#include <math.h>

#include "tests/unit/test.h"

static void add(struct baseline_series *s, double at_s, const char *text)
{
    AUTO(json) json_t *report = NULL;
    CHECK_INT(json_parse(&report, text, strlen(text), NULL), 0);
    baseline_series_add(s, at_s, report);
}

/* Adds `n` reports, one per `interval_s`, whose steps are `stride` apart. */
static void add_steps(struct baseline_series *s, int n, double interval_s, int stride)
{
    for (int i = 0; i < n; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"step\": %d, \"loss\": 1}", i * stride);
        add(s, i * interval_s, text);
    }
}

TEST(reports_become_a_speed)
{
    static const struct {
        const char *what;
        struct {
            double at_s;
            const char *report;
        } reports[6];
        const char *unit;
        double rate, step_s;
        int blocks;
    } cases[] = {
        {"no report", {{0, NULL}}, "", 0, 0, 0},
        {"one report", {{3, "{\"step\": 1}"}}, "", 0, 0, 0},
        {"two reports are one interval",
         {{3, "{\"step\": 1}"}, {5, "{\"step\": 2}"}},
         "steps/s",
         0.5,
         2,
         1},
        {"the first interval is the warm-up",
         {{0, "{\"step\": 0}"}, {9, "{\"step\": 1}"}, {10, "{\"step\": 2}"}},
         "steps/s",
         1,
         1,
         1},
        {"steps in between count",
         {{0, "{\"step\": 0}"}, {9, "{\"step\": 1}"}, {10, "{\"step\": 11}"}},
         "steps/s",
         10,
         0.1,
         1},
        {"without a step, reports count",
         {{0, "{\"loss\": 1}"}, {9, "{\"loss\": 1}"}, {11, "{\"loss\": 1}"}},
         "steps/s",
         0.5,
         2,
         1},
        {"further reports of a step do not count",
         {{0, "{\"step\": 0}"}, {9, "{\"step\": 1}"}, {10, "{\"step\": 1}"}, {11, "{\"step\": 2}"}},
         "steps/s",
         0.5,
         2,
         1},
        {"a lower step begins a new count",
         {{0, "{\"step\": 7}"}, {9, "{\"step\": 8}"}, {30, "{\"step\": 0}"}, {31, "{\"step\": 1}"}},
         "steps/s",
         1,
         1,
         1},
        {"reports of one moment are one interval",
         {{0, "{\"step\": 0}"}, {9, "{\"step\": 1}"}, {9, "{\"step\": 2}"}, {11, "{\"step\": 3}"}},
         "steps/s",
         1,
         1,
         1},
        {"a step that is not a number does not count",
         {{0, "{\"step\": 0}"},
          {5, "{\"step\": \"nan\"}"},
          {9, "{\"step\": 1}"},
          {10, "{\"step\": 2}"}},
         "steps/s",
         1,
         1,
         1},
        {"a reported throughput is the speed",
         {{0, "{\"tokens_per_s\": 7}"},
          {9, "{\"tokens_per_s\": 7}"},
          {11, "{\"tokens_per_s\": 300}"}},
         "tokens/s",
         300,
         2,
         1},
        {"the preferred name wins",
         {{0, "{\"it/s\": 1, \"samples_per_s\": 8}"}, {1, "{\"it/s\": 1, \"samples_per_s\": 8}"}},
         "samples/s",
         8,
         1,
         1},
        {"reports without the throughput do not count",
         {{0, "{\"step\": 0, \"it/s\": 1}"},
          {1, "{\"step\": 1, \"eval\": 2}"},
          {2, "{\"step\": 2, \"it/s\": 5}"}},
         "it/s",
         5,
         1,
         1},
        {"a throughput that is not positive does not count",
         {{0, "{\"step\": 0, \"it/s\": 1}"},
          {1, "{\"step\": 1, \"it/s\": \"nan\"}"},
          {1.5, "{\"step\": 2, \"it/s\": 0}"},
          {2, "{\"step\": 4, \"it/s\": 5}"}},
         "it/s",
         5,
         0.5,
         1},
        {"a throughput that is first reported late begins anew",
         {{0, "{\"step\": 0}"},
          {1, "{\"step\": 1}"},
          {2, "{\"step\": 2}"},
          {3, "{\"step\": 3, \"it/s\": 5}"},
          {5, "{\"step\": 4, \"it/s\": 6}"}},
         "it/s",
         6,
         2,
         1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(baseline_series) struct baseline_series *s = baseline_series_new();
        for (size_t k = 0; k < COUNT_OF(cases[i].reports) && cases[i].reports[k].report; k++)
            add(s, cases[i].reports[k].at_s, cases[i].reports[k].report);
        struct baseline_speed v = baseline_series_speed(s);
        if (strcmp(v.unit, cases[i].unit) != 0 || fabs(v.rate.mean - cases[i].rate) > 1e-9 ||
            fabs(v.step_s - cases[i].step_s) > 1e-9 || v.rate.n != cases[i].blocks)
            FAIL("%s: %g %s, %g s per step, %d blocks", cases[i].what, v.rate.mean, v.unit,
                 v.step_s, v.rate.n);
    }
}

TEST(the_first_tenth_is_the_warm_up)
{
    AUTO(baseline_series) struct baseline_series *s = baseline_series_new();
    char text[32];
    double at_s = 0;
    for (int i = 0; i <= 50; i++) { /* 5 slow intervals of 50 */
        snprintf(text, sizeof text, "{\"step\": %d}", i);
        add(s, at_s, text);
        at_s += i < 5 ? 100 : 0.5;
    }
    CHECK_NEAR(baseline_series_speed(s).rate.mean, 2, 1e-9);
}

/* Blocks of equal length: the mean of 0, 1 is 0.5, and so on. */
TEST(the_deviation_is_that_of_block_means)
{
    AUTO(baseline_series) struct baseline_series *s = baseline_series_new();
    char text[64];
    for (int i = 0; i <= 44; i++) { /* 4 of warm-up; 40 intervals, 2 per block */
        snprintf(text, sizeof text, "{\"step\": %d, \"tokens_per_s\": %d}", i, i % 2 ? 90 : 110);
        add(s, i, text);
    }
    struct baseline_speed v = baseline_series_speed(s);
    CHECK_INT(v.rate.n, 20);
    CHECK_NEAR(v.rate.mean, 100, 1e-9);
    CHECK_NEAR(v.rate.deviation, 0, 1e-9); /* neighbours cancel out */
}

TEST(a_few_intervals_are_blocks_of_their_own)
{
    AUTO(baseline_series) struct baseline_series *s = baseline_series_new();
    static const int values[] = {5, 5, 1, 2, 3, 4}; /* the first interval is the warm-up */
    char text[64];
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        snprintf(text, sizeof text, "{\"throughput\": %d}", values[i]);
        add(s, (double)i, text);
    }
    struct baseline_speed v = baseline_series_speed(s);
    CHECK_INT(v.rate.n, 4);
    CHECK_NEAR(v.rate.mean, 2.5, 1e-12);
    CHECK_NEAR(v.rate.deviation, 1.2909944487358056, 1e-12); /* sqrt(5 / 3) */
}

TEST(a_long_series_has_the_same_speed_as_a_short_one)
{
    static const int lengths[] = {3, 30, 4095, 4096, 4097, 4098, 8193, 100000};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        AUTO(baseline_series) struct baseline_series *s = baseline_series_new();
        add_steps(s, lengths[i], 0.25, 10);
        struct baseline_speed v = baseline_series_speed(s);
        CHECK_NEAR(v.rate.mean, 40, 1e-6);
        CHECK_NEAR(v.rate.deviation, 0, 1e-6);
        CHECK_NEAR(v.step_s, 0.025, 1e-9);
    }
}
