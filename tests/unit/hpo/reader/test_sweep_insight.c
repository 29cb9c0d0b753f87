/* test_sweep_insight - the sentences say what the trials say, and no more. */
#include "hpo/reader/sweep_insight.h"

#include <math.h>

#include "tests/unit/serve/kit_columns.h"

static const char sweep[] = "method: random\nprogram: t.sh\nmetric: {name: loss}\n"
                            "parameters:\n"
                            "  lr: {min: 0.0, max: 100.0}\n"
                            "  opt: {values: [sgd, adam]}\n";

static void add(struct kit *k, int id, double lr, const char *opt, double loss, const char *end)
{
    AUTO(free) char *params = xasprintf("{\"params\":{\"lr\":%g,\"opt\":\"%s\"}}", lr, opt);
    AUTO(free) char *report = xasprintf("{\"step\":1,\"values\":{\"loss\":%g}}", loss);
    kit_record(k, SCHEDULER_REC_CREATED, id, 0, params);
    kit_record(k, SCHEDULER_REC_LEASED, id, id + 1, "{\"worker\":\"w\",\"node\":\"n\"}");
    if (!isnan(loss))
        kit_record(k, SCHEDULER_REC_REPORT, id, id + 1, report);
    kit_record(k, SCHEDULER_REC_ENDED, id, id + 1, end);
}

static const char done[] = "{\"state\":\"done\",\"seconds\":1.0}",
                  pruned[] = "{\"state\":\"pruned\",\"seconds\":1.0}",
                  failed[] = "{\"state\":\"failed\",\"seconds\":1.0,\"error\":\"exit 1: no 17\"}",
                  failed_too[] =
                      "{\"state\":\"failed\",\"seconds\":1.0,\"error\":\"exit 1: no 8\"}";

/* The sentences, one per line; the caller frees them. */
static char *said(const struct kit *k, const char *importance)
{
    struct strbuf b = {0};
    AUTO(json) json_t *shares = json_loads(importance, JSON_DECODE_ANY, NULL);
    AUTO(strv) char **list = sweep_insight(k->columns, shares, 0);
    for (size_t i = 0; i < strv_len(list); i++)
        strbuf_printf(&b, "%s\n", list[i]);
    strbuf_puts(&b, "");
    return b.data ? strbuf_take(&b) : xstrdup("");
}

TEST(a_sweep_without_an_end_says_nothing)
{
    struct kit k = kit_new(sweep);
    AUTO(free) char *text = said(&k, "null");
    CHECK_STR(text, "");
    kit_free(&k);
}

TEST(one_trial_has_no_next_and_no_median)
{
    struct kit k = kit_new(sweep);
    add(&k, 0, 1, "sgd", 0.5, done);
    AUTO(free) char *text = said(&k, "null");
    CHECK_STR(text, "The best loss is 0.5, of trial 0.\nTime by outcome: 100 % done.\n");
    kit_free(&k);
}

TEST(the_best_is_compared_with_the_next_and_the_median_of_those_that_are_done)
{
    struct kit k = kit_new(sweep);
    add(&k, 0, 1, "sgd", 1.0, done);
    add(&k, 1, 1, "sgd", 0.5, done);
    add(&k, 2, 1, "sgd", 2.0, done);
    add(&k, 3, 1, "sgd", 4.0, done);
    add(&k, 4, 1, "sgd", 0.8, pruned);
    AUTO(free) char *text = said(&k, "null");
    CHECK_STR(text, "The best loss is 0.5, of trial 1: 38 % under the next, 67 % under the median "
                    "of 4 trials that are done.\nNo gain for 3 trials.\n"
                    "Time by outcome: 80 % done, 20 % pruned.\n");
    kit_free(&k);
}

TEST(values_of_both_signs_have_a_difference_instead_of_a_share)
{
    struct kit k = kit_new(sweep);
    add(&k, 0, 1, "sgd", 1.0, done);
    add(&k, 1, 1, "sgd", -0.5, done);
    AUTO(free) char *text = said(&k, "null");
    CHECK(strstr(text, "-0.5, of trial 1: 1.5 under the next."));
    kit_free(&k);
}

TEST(what_decides_has_the_range_or_the_value_of_the_best_trials)
{
    struct kit k = kit_new(sweep);
    for (int i = 0; i < 12; i++)
        add(&k, i, 1 + i, i < 6 ? "adam" : "sgd", 1 + i, done);
    AUTO(free) char *by_lr = said(&k, "{\"lr\":0.8,\"opt\":0.1}");
    CHECK(strstr(by_lr, "lr decides: the 5 best trials have 1 to 5.\n"));
    AUTO(free) char *by_opt = said(&k, "{\"lr\":[0.2,0.1,0.3],\"opt\":[0.4,0.3,0.5]}");
    CHECK(strstr(by_opt, "opt matters most: 5 of the 5 best trials have adam.\n"));
    kit_free(&k);
}

TEST(failures_have_their_cause_and_the_part_of_the_space_in_which_all_of_them_are)
{
    struct kit k = kit_new(sweep);
    for (int i = 0; i < 10; i++)
        add(&k, i, i, i % 2 ? "adam" : "sgd", 1 + i, done);
    add(&k, 10, 50, "sgd", NAN, failed);
    add(&k, 11, 60, "adam", NAN, failed_too);
    AUTO(free) char *two = said(&k, "null");
    CHECK(strstr(two, "2 of 12 trials failed; 2 with: exit 1: no 8.\n")); /* too few for a region */
    add(&k, 12, 40, "sgd", NAN, failed);
    AUTO(free) char *three = said(&k, "null");
    CHECK(strstr(three, "3 of 13 trials failed, all with lr >= 40, where 0 others ended well; "
                        "3 with: exit 1: no 17.\n"));
    add(&k, 13, 4, "sgd", NAN, failed);
    AUTO(free) char *spread = said(&k, "null");
    CHECK(strstr(spread, "4 of 14 trials failed; 4 with"));
    kit_free(&k);
}

TEST(the_best_trial_satisfies_the_outcome_constraints)
{
    struct kit k = kit_new("method: random\nprogram: t.sh\nmetric: {name: loss}\n"
                           "parameters:\n  lr: {min: 0.0, max: 1.0}\n"
                           "drover: {outcome_constraints: [{metric: ms, max: 5}]}\n");
    static const char *const reports[] = {"{\"step\":1,\"values\":{\"loss\":0.1,\"ms\":9}}",
                                          "{\"step\":1,\"values\":{\"loss\":0.5,\"ms\":4}}"};
    for (int id = 0; id < 2; id++) {
        kit_record(&k, SCHEDULER_REC_CREATED, id, 0, "{\"params\":{\"lr\":0.5}}");
        kit_record(&k, SCHEDULER_REC_LEASED, id, id + 1, "{\"worker\":\"w\",\"node\":\"n\"}");
        kit_record(&k, SCHEDULER_REC_REPORT, id, id + 1, reports[id]);
        kit_record(&k, SCHEDULER_REC_ENDED, id, id + 1, done);
        AUTO(free) char *text = said(&k, "null");
        CHECK_HAS(text, id == 0 ? "There is no best trial, since no trial satisfies "
                                  "outcome_constraints.\n"
                                : "The best loss is 0.5, of trial 1.\n");
    }
    for (int id = 2; id < 4; id++) {
        kit_record(&k, SCHEDULER_REC_CREATED, id, 0, "{\"params\":{\"lr\":0.5}}");
        kit_record(&k, SCHEDULER_REC_LEASED, id, id + 1, "{\"worker\":\"w\",\"node\":\"n\"}");
        kit_record(&k, SCHEDULER_REC_REPORT, id, id + 1, reports[1]);
        kit_record(&k, SCHEDULER_REC_ENDED, id, id + 1, done);
    }
    AUTO(free) char *text = said(&k, "null");
    CHECK_HAS(text, "equal to the median of 3 feasible trials that are done.\n");
    kit_free(&k);
}

TEST(a_metric_of_the_outcome_constraints_that_none_has_reported_is_named)
{
    struct kit k = kit_new("method: random\nprogram: t.sh\nmetric: {name: loss}\n"
                           "parameters:\n  lr: {min: 0.0, max: 1.0}\n"
                           "drover: {outcome_constraints: [{metric: latency, max: 5}]}\n");
    add(&k, 0, 0.5, "sgd", NAN, failed);
    CHECK(!sweep_insight_infeasible(k.columns));
    kit_record(&k, SCHEDULER_REC_CREATED, 1, 0, "{\"params\":{\"lr\":0.5}}");
    kit_record(&k, SCHEDULER_REC_LEASED, 1, 2, "{\"worker\":\"w\",\"node\":\"n\"}");
    kit_record(&k, SCHEDULER_REC_REPORT, 1, 2,
               "{\"step\":1,\"values\":{\"loss\":0.1,\"Latency\":9}}");
    kit_record(&k, SCHEDULER_REC_ENDED, 1, 2, done);
    AUTO(free) char *why = sweep_insight_infeasible(k.columns);
    CHECK_STR(why, "no trial satisfies outcome_constraints: the metric 'latency' was never "
                   "reported; reported: 'Latency', 'loss'");
    kit_free(&k);
}
