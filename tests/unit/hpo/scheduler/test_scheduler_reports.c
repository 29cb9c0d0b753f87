#include "tests/unit/kit_scheduler.h"

TEST(a_step_that_comes_again_counts_as_a_further_report_and_is_said_once)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    report(1, "{\"step\":1,\"loss\":2,\"acc\":1}");
    report(1, "{\"step\":2,\"loss\":3}");
    report(1, "{\"step\":1,\"acc\":0.5}"); /* only the metric's own steps are looked at */
    report(1, "{\"step\":2,\"loss\":3}");  /* changes nothing */
    CHECK_INT(out.action_count, 0);
    report(1, "{\"step\":1,\"loss\":4}");
    CHECK_STR(gave(),
              "REPORT 0/1 {\"step\":1,\"values\":{\"loss\":4}}; | NOTICE - -1/0 trial 0 "
              "reports 'loss' again at step 1: its best and its last value are those of all "
              "reports, its curve has the newest report of each step; report steps that "
              "increase to keep all points;");
    report(1, "{\"step\":1,\"loss\":5}");
    CHECK_INT(out.action_count, 0);
    AUTO(json) json_t *t = scheduler_trial_json(s, 0);
    AUTO(free) char *text = json_line(json_object_get(t, "metrics"));
    CHECK_STR(text, "{\"loss\":5,\"acc\":0.5}");
    CHECK_NEAR(json_number_value(json_object_get(t, "value")), 2, 0);
    CHECK_INT(json_integer_value(json_object_get(t, "steps")), 2);
}

TEST(a_step_that_is_none_and_a_name_that_is_empty_are_dropped_and_said_once)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    report(1, "{\"step\":1e300,\"loss\":2}");
    CHECK_HAS(gave(), "REPORT 0/1 {\"step\":0,\"values\":{\"loss\":2}}");
    CHECK_HAS(gave(), "NOTICE - -1/0 trial 0 reports step 1e+300, which does not fit in 64 bits");
    report(1, "{\"step\":-1e300,\"loss\":3}");
    CHECK_STR(gave(), "REPORT 0/1 {\"step\":1,\"values\":{\"loss\":3}}; |");
    report(1, "{\"step\":2,\"loss\":4,\"\":1}");
    CHECK_HAS(gave(), "REPORT 0/1 {\"step\":2,\"values\":{\"loss\":4}}; | NOTICE - -1/0 trial 0 "
                      "reports a metric whose name is empty: it is dropped;");
    report(1, "{\"step\":3,\"\":1}");
    CHECK_STR(gave(), "|");
    crash();
    AUTO(json) json_t *t = scheduler_trial_json(s, 0);
    CHECK_INT(json_integer_value(json_object_get(t, "steps")), 3);
}

static bool says(const char *early_terminate, double first, double then)
{
    AUTO(free) char *file = xasprintf(ONE "early_terminate: {%s}\n", early_terminate);
    AUTO(free) char *a = xasprintf("{\"step\":%g,\"loss\":1}", first);
    AUTO(free) char *b = xasprintf("{\"step\":%g,\"loss\":2}", then);
    start_with(file);
    hello("a", "{\"slots\":1}");
    report(1, a);
    bool said = strstr(gave(), "NOTICE") && strstr(gave(), "max_iter is 5, but trial 0 reports");
    report(1, b);
    return said || (strstr(gave(), "NOTICE") && strstr(gave(), "max_iter is 5"));
}

TEST(first_steps_beyond_max_iter_are_said_if_rungs_are_steps)
{
    CHECK(says("type: asha, min_iter: 1, max_iter: 5", 1000, 2000));
    CHECK(says("type: curve, min_iter: 2, max_iter: 5", 0, 1000));
    CHECK(!says("type: curve, min_iter: 2, max_iter: 5", 1, 1000));
    CHECK(!says("type: curve, min_iter: 2", 1000, 2000));
    CHECK(!says("type: asha, min_iter: 1, max_iter: 5", 5, 6));
    CHECK(!says("type: hyperband, max_iter: 5, s: 1", 1000, 2000)); /* counts reports */
}

TEST(a_trial_that_never_reports_the_metric_is_invalid_and_told_what_it_did_report)
{
    start_with(GRID(3));
    hello("a", "{\"slots\":3}");
    report(1, "{\"accuracy\":1,\"Loss\":2}");
    done(1, "{\"status\":0}");
    CHECK_STR(state_of(0), "invalid");
    CHECK_HAS(gave(), "the metric 'loss' was never reported; reported: 'Loss', 'accuracy'");
    done(2, "{\"status\":0}");
    CHECK_HAS(gave(), "the metric 'loss' was never reported; nothing was reported");
    report(3, "{\"loss\":\"inf\"}");
    done(3, "{\"status\":0}");
    CHECK_HAS(gave(), "no value of the metric 'loss' was finite");
}

TEST(of_many_metrics_the_nearest_three_are_told_first_and_twenty_in_all)
{
    start_with(
        "method: grid\nprogram: p\nmetric: {name: val_loss}\nparameters: {x: {values: [1]}}\n");
    hello("a", "{\"slots\":1}");
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "{\"val_losses\":1");
    for (int i = 0; i < 20; i++)
        strbuf_printf(&b, ",\"gradient/%d\":1", i);
    strbuf_puts(&b, ",\"eval_loss\":1,\"val/loss\":1,\"vol_lass\":1}");
    report(1, strbuf_str(&b));
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "reported: 'val/loss', 'eval_loss', 'val_losses', 'gradient/");
    CHECK_HAS(gave(), "and 4 more");
}
