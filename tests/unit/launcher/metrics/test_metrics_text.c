/* test_metrics_text - the exposition format, and the rows of the metrics. */
#include "launcher/metrics/metrics_text.h"

#include <ctype.h>
#include <math.h>

#include "launcher/gpu/gpu_facts.h"
#include "tests/unit/test.h"

TEST(metrics_are_grouped_in_the_order_of_their_rows)
{
    AUTO(metrics_text) struct metrics_text *t = metrics_text_new();
    const struct metrics_label a[] = {{"sweep", "s"}, {"state", "done"}},
                               b[] = {{"sweep", "s"}, {"state", "oom"}};
    metrics_text_add(t, METRICS_SWEEP_TRIALS, 3, a, 2);
    metrics_text_add(t, METRICS_BUILD_INFO, 1, NULL, 0);
    metrics_text_add(t, METRICS_SWEEP_TRIALS, 0, b, 2);
    AUTO(free) char *text = metrics_text_take(t), *again = metrics_text_take(t);
    CHECK_STR(text, "# HELP drover_build_info Version of drover; the value is 1.\n"
                    "# TYPE drover_build_info gauge\n"
                    "drover_build_info 1\n"
                    "# HELP drover_sweep_trials Trials of the sweep by state.\n"
                    "# TYPE drover_sweep_trials gauge\n"
                    "drover_sweep_trials{sweep=\"s\",state=\"done\"} 3\n"
                    "drover_sweep_trials{sweep=\"s\",state=\"oom\"} 0\n");
    CHECK_STR(again, "");
}

TEST(labels_are_escaped_and_are_utf8)
{
    static const struct {
        const char *value, *line;
    } cases[] = {
        {"a\"b\\c\nd", "drover_job_ranks{job_id=\"a\\\"b\\\\c\\nd\"} 2\n"},
        {"f\xc3\xbcr \xff", "drover_job_ranks{job_id=\"f\xc3\xbcr ?\"} 2\n"},
        {"", "drover_job_ranks{job_id=\"\"} 2\n"},
        {NULL, "drover_job_ranks 2\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(metrics_text) struct metrics_text *t = metrics_text_new();
        metrics_text_add(t, METRICS_JOB_RANKS, 2, &(struct metrics_label){"job_id", cases[i].value},
                         1);
        AUTO(free) char *text = metrics_text_take(t);
        CHECK_STR(strstr(text, " gauge\n") + 7, cases[i].line);
    }
}

TEST(a_value_is_exact_and_nan_is_left_out)
{
    static const struct {
        double value;
        const char *line;
    } cases[] = {{0.1, "drover_sweep_best_value 0.1\n"},
                 {-1e-30, "drover_sweep_best_value -1e-30\n"},
                 {123456789012345, "drover_sweep_best_value 123456789012345\n"},
                 {1795608000.125, "drover_sweep_best_value 1795608000.125\n"},
                 {-INFINITY, "drover_sweep_best_value -Inf\n"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(metrics_text) struct metrics_text *t = metrics_text_new();
        metrics_text_add(t, METRICS_SWEEP_BEST_VALUE, cases[i].value, NULL, 0);
        metrics_text_add(t, METRICS_SWEEP_SLOTS, NAN, NULL, 0);
        AUTO(free) char *text = metrics_text_take(t);
        CHECK_STR(strstr(text, " gauge\n") + 7, cases[i].line);
    }
}

/* Returns the name, which the caller frees; NULL: a place that no value of GPUs has. */
static char *name_of(int metric)
{
    bool found = metric >= METRICS_BUILD_INFO;
    for (int f = 0; f < GPU_FACTS; f++)
        found |= gpu_rows[f].place && gpu_rows[f].place == metric;
    AUTO(metrics_text) struct metrics_text *t = metrics_text_new();
    if (!found)
        return NULL;
    metrics_text_add(t, (enum metrics_name)metric, 1, NULL, 0);
    AUTO(free) char *text = metrics_text_take(t);
    const char *name = text + strlen("# HELP ");
    return xstrndup(name, strcspn(name, " "));
}

TEST(each_metric_has_a_name_of_its_own)
{
    char *names[METRICS_NAMES];
    for (int i = 0; i < METRICS_NAMES; i++)
        names[i] = name_of(i);
    for (int i = 0; i < METRICS_NAMES; i++) {
        const char *name = names[i];
        if (!name)
            continue; /* a place that no value of GPUs has */
        CHECK(*name);
        bool dcgm = strncmp(name, "DCGM_FI_", 8) == 0;
        CHECK(!dcgm || i < METRICS_BUILD_INFO);
        CHECK(dcgm || strncmp(name, "drover_", 7) == 0);
        for (const char *s = name; *s; s++)
            CHECK(*s == '_' || isdigit((unsigned char)*s) ||
                  (dcgm ? isupper((unsigned char)*s) : islower((unsigned char)*s)));
        for (int k = 0; k < i; k++)
            CHECK(!names[k] || strcmp(name, names[k]) != 0);
    }
    for (int i = 0; i < METRICS_NAMES; i++)
        free(names[i]);
}
