/* test_sweep_report_totals - the order of trials, their cost, causes of failures, and repeats. */
#include "serve/report/sweep_report_totals.h"

#include <math.h>

#include "tests/unit/serve/kit_columns.h"

static const char sweep[] = "method: random\nprogram: t.sh\nmetric: {name: loss}\n"
                            "parameters:\n"
                            "  lr: {values: [0.1, 0.2]}\n"
                            "  seed: {values: [1, 2, 3]}\n";

static void trial(struct kit *k, int id, const char *params)
{
    AUTO(free) char *text = xasprintf("{\"params\":%s}", params);
    kit_record(k, SCHEDULER_REC_CREATED, id, 0, text);
}

static void ended(struct kit *k, int id, const char *node, double loss, const char *state,
                  const char *error)
{
    AUTO(free) char *lease = xasprintf("{\"worker\":\"w\",\"node\":\"%s\"}", node);
    AUTO(free) char *report = xasprintf("{\"step\":1,\"values\":{\"loss\":%g}}", loss);
    AUTO(free)
    char *end = error
                    ? xasprintf("{\"state\":\"%s\",\"seconds\":1.0,\"error\":\"%s\"}", state, error)
                    : xasprintf("{\"state\":\"%s\",\"seconds\":1.0}", state);
    kit_record(k, SCHEDULER_REC_LEASED, id, id + 1, lease);
    if (!isnan(loss))
        kit_record(k, SCHEDULER_REC_REPORT, id, id + 1, report);
    kit_record(k, SCHEDULER_REC_ENDED, id, id + 1, end);
}

static struct kit sample(void)
{
    static const char *const params[] = {
        "{\"lr\":0.1,\"seed\":1}", "{\"lr\":0.1,\"seed\":2}", "{\"lr\":0.2,\"seed\":1}",
        "{\"lr\":0.2,\"seed\":2}", "{\"lr\":0.2,\"seed\":3}",
    };
    struct kit k = kit_new(sweep);
    for (int i = 0; i < 5; i++)
        trial(&k, i, params[i]);
    ended(&k, 0, "c01", 3, "done", NULL);
    ended(&k, 1, "c02", 1, "done", NULL);
    ended(&k, 2, "c01", 0.5, "done", NULL);
    ended(&k, 3, "c01", NAN, "failed", "out of memory at 0x7f3a, 12 GiB");
    ended(&k, 4, "c01", NAN, "failed", "out of memory at 0x11, 7 GiB");
    return k;
}

TEST(the_best_trial_is_first_and_failed_ones_have_no_place)
{
    struct kit k = sample();
    struct sweep_report_totals t;
    sweep_report_totals(&t, k.columns, k.spec, 0);
    CHECK_INT(t.order_count, 3);
    CHECK_INT(t.order[0], 2);
    CHECK_INT(t.order[1], 1);
    CHECK_INT(t.order[2], 0);
    sweep_report_totals_end(&t);
    kit_free(&k);
}

TEST(time_is_counted_by_state_and_by_node)
{
    struct kit k = sample();
    struct sweep_report_totals t;
    sweep_report_totals(&t, k.columns, k.spec, 0);
    /* A record per second: leased, report, ended. */
    CHECK(fabs(t.seconds[TRIAL_DONE] - 6) < 1e-9);
    CHECK(fabs(t.seconds[TRIAL_FAILED] - 2) < 1e-9);
    CHECK_INT(t.node_count, 2);
    CHECK_STR(t.nodes[0].name, "c01");
    CHECK_INT(t.nodes[0].leases, 4);
    CHECK_INT(t.nodes[0].failed, 2);
    CHECK(t.lost_seconds == 0);
    sweep_report_totals_end(&t);
    kit_free(&k);
}

TEST(failures_that_differ_in_numbers_have_one_cause)
{
    struct kit k = sample();
    struct sweep_report_totals t;
    sweep_report_totals(&t, k.columns, k.spec, 0);
    CHECK_INT(t.cause_count, 1);
    CHECK_INT(t.causes[0].trials, 2);
    CHECK_INT(t.causes[0].newest[0], 4);
    CHECK_STR(t.causes[0].text, "out of memory at 0x11, 7 GiB");
    sweep_report_totals_end(&t);
    kit_free(&k);
}

TEST(trials_that_differ_in_their_seed_are_repeats)
{
    struct kit k = sample();
    struct sweep_report_totals t;
    sweep_report_totals(&t, k.columns, k.spec, 0);
    CHECK_INT(t.repeat_count, 1); /* of lr 0.2, only one trial has a value */
    CHECK_INT(t.repeats[0].count, 2);
    CHECK(fabs(t.repeats[0].mean - 2) < 1e-9);
    CHECK(fabs(t.repeats[0].deviation - sqrt(2)) < 1e-9);
    sweep_report_totals_end(&t);
    kit_free(&k);
}

TEST(a_running_lease_counts_until_now_if_its_coordinator_lives)
{
    struct kit k = kit_new(sweep);
    struct sweep_report_totals t;
    trial(&k, 0, "{\"lr\":0.1,\"seed\":1}");
    kit_record(&k, SCHEDULER_REC_LEASED, 0, 1, "{\"worker\":\"w\",\"node\":\"n\"}"); /* at 2 s */
    sweep_report_totals(&t, k.columns, k.spec, 9000);
    CHECK(fabs(t.seconds[TRIAL_LEASED] - 7) < 1e-9);
    sweep_report_totals_end(&t);
    sweep_report_totals(&t, k.columns, k.spec, 0);
    CHECK(t.seconds[TRIAL_LEASED] == 0);
    sweep_report_totals_end(&t);
    kit_free(&k);
}
