#include "hpo/trial/trial.h"

#include <math.h>

#include "common/json.h"
#include "tests/unit/test.h"

TEST(a_lost_worker_sends_the_trial_back_to_the_queue)
{
    CHECK_INT(states_next(&trial_states, TRIAL_RUNNING, TRIAL_EV_REQUEUE), TRIAL_WAITING);
    CHECK_INT(states_next(&trial_states, TRIAL_LEASED, TRIAL_EV_REQUEUE), TRIAL_WAITING);
    CHECK_INT(states_next(&trial_states, TRIAL_STOPPING, TRIAL_EV_REQUEUE), TRIAL_WAITING);
}

TEST(what_means_nothing_in_a_state_leads_nowhere)
{
    CHECK_INT(states_next(&trial_states, TRIAL_WAITING, TRIAL_EV_STOP), -1);
    CHECK_INT(states_next(&trial_states, TRIAL_WAITING, TRIAL_EV_REQUEUE), -1);
    CHECK_INT(states_next(&trial_states, TRIAL_LEASED, TRIAL_EV_LEASE), -1);
    CHECK_INT(states_next(&trial_states, TRIAL_STOPPING, TRIAL_EV_STOP), TRIAL_STOPPING);
    CHECK_INT(states_next(&trial_states, TRIAL_PAUSED, TRIAL_EV_REPORT),
              TRIAL_PAUSED); /* of a lost worker */
}

TEST(an_end_is_final_unless_it_went_wrong_and_the_user_wants_it_again)
{
    for (int s = TRIAL_DONE; s < TRIAL_STATES; s++)
        for (int ev = 0; ev < TRIAL_EVENTS; ev++) {
            bool again = ev == TRIAL_EV_RETRY && s != TRIAL_DONE && s != TRIAL_PRUNED;
            CHECK_INT(states_next(&trial_states, (enum trial_state)s, (enum trial_event)ev),
                      again ? TRIAL_WAITING : -1);
        }
}

TEST(every_state_that_is_no_end_can_come_to_one)
{
    for (int s = 0; s < TRIAL_DONE; s++)
        CHECK_INT(states_next(&trial_states, (enum trial_state)s, TRIAL_EV_END), TRIAL_STATES);
}

TEST(a_trial_pauses_and_goes_on)
{
    enum trial_state s = TRIAL_RUNNING;
    static const enum trial_event path[] = {TRIAL_EV_PAUSE, TRIAL_EV_PAUSED, TRIAL_EV_LEASE,
                                            TRIAL_EV_REPORT};
    for (size_t i = 0; i < COUNT_OF(path); i++)
        s = (enum trial_state)states_next(&trial_states, s, path[i]);
    CHECK_INT(s, TRIAL_RUNNING);
}

TEST(names_of_states_read_back)
{
    for (int s = 0; s < TRIAL_STATES; s++)
        CHECK_INT(trial_state_parse(trial_state_name((enum trial_state)s)), s);
    CHECK_INT(trial_state_parse("ended"), -1);
}

static struct trial *leased(void)
{
    AUTO(json) json_t *params = json_object();
    struct trial *t = trial_new(0, params, 1);
    t->lease = 1;
    return t;
}

static void report(struct trial *t, double step, const char *json)
{
    AUTO(json) json_t *values = json_loads(json, 0, NULL);
    trial_report(t, step, values, "loss", false);
}

TEST(points_are_in_order_of_their_steps_with_best_and_mean)
{
    AUTO(trial) struct trial *t = leased();
    report(t, 10, "{\"loss\":4}");
    CHECK_NEAR(t->curve.best, 4, 0);
    report(t, 30, "{\"loss\":6}");
    report(t, 20, "{\"loss\":2}"); /* late */
    report(t, 40, "{\"loss\":\"nan\"}");
    CHECK_INT(t->curve.count, 3);
    CHECK_NEAR(t->curve.points[1].step, 20, 0);
    CHECK_NEAR(t->curve.best, 2, 0);
    CHECK_NEAR(trial_mean(t, 2), 3, 0);
    CHECK_NEAR(trial_mean(t, 3), 4, 1e-15);
    CHECK_NEAR(trial_value(t, false), 2, 0);
    CHECK_NEAR(trial_value(t, true), 2, 0);
    report(t, 20, "{\"loss\":8}"); /* corrects */
    CHECK_INT(t->curve.count, 3);
    CHECK_NEAR(trial_value(t, false), 4, 0);
    CHECK_NEAR(trial_value(t, true), 8, 0);
    CHECK_NEAR(trial_mean(t, 3), 6, 1e-15);
}

TEST(a_new_lease_drops_what_was_replaced_too)
{
    AUTO(trial) struct trial *t = leased();
    for (int fold = 0; fold < 2; fold++)
        for (int i = 0; i < 4; i++)
            report(t, i, fold ? "{\"loss\":5}" : i == 1 ? "{\"loss\":2}" : "{\"loss\":1}");
    double low, high;
    trial_curve_range(&t->curve, &low, &high);
    CHECK_NEAR(low, 1, 0);
    CHECK_NEAR(high, 5, 0);
    t->lease = 2;
    report(t, 2, "{\"loss\":\"nan\"}");
    CHECK_NEAR(trial_value(t, false), 1, 0); /* step 0 of the first fold */
    CHECK_NEAR(trial_value(t, true), 5, 0);
    t->lease = 3;
    report(t, 1, "{\"loss\":4}");
    CHECK_NEAR(trial_value(t, false), 1, 0);
    t->lease = 4;
    report(t, 0, "{\"loss\":\"nan\"}");
    CHECK(isnan(trial_value(t, false)) && isnan(trial_value(t, true)));
}

TEST(points_are_found_by_step)
{
    AUTO(trial) struct trial *t = leased();
    CHECK_INT(trial_curve_until(&t->curve, 5), 0);
    for (int i = 0; i < 100; i++)
        report(t, 2 * i, "{\"loss\":1}");
    for (int i = 0; i < 100; i++) {
        CHECK_INT(trial_curve_until(&t->curve, 2 * i), i + 1);
        CHECK_INT(trial_curve_until(&t->curve, 2 * i - 1), i);
    }
}

TEST(a_step_that_is_not_said_counts_the_reports_of_a_lease)
{
    AUTO(trial) struct trial *t = leased();
    CHECK_NEAR(trial_next_step(t), 0, 0);
    report(t, trial_next_step(t), "{\"loss\":1}");
    report(t, trial_next_step(t), "{\"other\":1}"); /* of another metric: does not count */
    report(t, trial_next_step(t), "{\"loss\":\"inf\"}");
    CHECK_NEAR(trial_next_step(t), 2, 0);
    t->lease = 2;
    CHECK_NEAR(trial_next_step(t), 0, 0);
    report(t, 0, "{\"loss\":5}");
    CHECK_NEAR(trial_next_step(t), 1, 0);
    CHECK_INT(t->curve.count, 1);
}

TEST(a_new_lease_goes_on_from_where_it_first_reports)
{
    AUTO(trial) struct trial *t = leased();
    for (int i = 0; i < 6; i++)
        report(t, i, "{\"loss\":3}");
    CHECK_NEAR(trial_mean(t, 6), 3, 0);
    t->lease = 2;
    report(t, 4, "{\"loss\":1}");
    CHECK_INT(t->curve.count, 5);
    CHECK_NEAR(t->curve.best, 1, 0);
    CHECK_NEAR(trial_mean(t, 5), 2.6, 1e-15);
    CHECK_NEAR(trial_mean(t, 4), 3, 0);
    t->lease = 3;
    report(t, 0, "{\"acc\":1}"); /* has steps of its own */
    CHECK_INT(t->curve.count, 5);
    report(t, 0, "{\"loss\":\"nan\"}");
    CHECK_INT(t->curve.count, 0);
    CHECK(isnan(trial_value(t, false)));
}

TEST(the_last_of_every_metric_is_kept)
{
    AUTO(trial) struct trial *t = leased();
    report(t, 5, "{\"loss\":3,\"acc\":0.5}");
    report(t, 6, "{\"loss\":2}");
    report(t, 5, "{\"acc\":0.1,\"lr\":1}"); /* has steps of its own */
    AUTO(free) char *text = json_line(t->metrics);
    CHECK_STR(text, "{\"loss\":2,\"acc\":0.1,\"lr\":1}");
}
