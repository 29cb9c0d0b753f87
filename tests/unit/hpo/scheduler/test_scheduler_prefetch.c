/* test_scheduler_prefetch - trials that are created before a slot is free. */
#include "tests/unit/kit_scheduler.h"

#define BAYES(cap)                                                            \
    "method: bayes\nprogram: t.py\nrun_cap: " #cap "\nmetric: {name: loss}\n" \
    "parameters: {x: {min: 0.0, max: 1.0}, y: {min: 0.0, max: 1.0}}\n"

static void ahead(void)
{
    if (scheduler_wants_prefetch(s))
        step(SCHEDULER_EV_PREFETCH, NULL, 0, NULL);
}

/* Ends the lease's trial, whose loss follows from its parameters, after `seconds`. */
static void end(int64_t lease, int trial, double seconds)
{
    AUTO(json) json_t *t = scheduler_trial_json(s, trial);
    double x = 0, y = 0;
    json_as_number(&x, json_object_get(json_object_get(t, "params"), "x"));
    json_as_number(&y, json_object_get(json_object_get(t, "params"), "y"));
    AUTO(free) char *said = xasprintf("{\"loss\":%.17g}", (x - 0.3) * (x - 0.3) + y);
    AUTO(free) char *how = xasprintf("{\"status\":0,\"seconds\":%g}", seconds);
    ahead();
    report(lease, said);
    ahead();
    done(lease, how);
}

static void restart(int64_t first, bool before_ahead)
{
    if (!before_ahead)
        ahead();
    crash();
    ahead();
    AUTO(free)
    char *running = xasprintf("{\"slots\":4,\"running\":[%d,%d,%d,%d]}", (int)first, (int)first + 1,
                              (int)first + 2, (int)first + 3);
    hello("a", running);
}

/* The parameters of 16 trials of 1 ms on four slots, which end in order. `restarts`: 0: none; 1:
 * after each end, before the trial that is then created ahead; 2: after that. */
static json_t *search(int restarts)
{
    start_with(BAYES(16));
    now = 1000;
    hello("a", "{\"slots\":4}");
    for (int i = 0; i < 12; i++) {
        end(i + 1, i, 0.001);
        if (i < 11 && restarts > 0)
            restart(i + 2, restarts == 1);
    }
    json_t *all = json_array();
    for (int i = 0; i < (int)scheduler_view(s).count; i++) {
        AUTO(json) json_t *t = scheduler_trial_json(s, i);
        json_array_append(all, json_object_get(t, "params"));
    }
    return all;
}

TEST(what_is_suggested_ahead_is_the_same_with_a_restart_after_each_end_before_or_after_it)
{
    AUTO(json) json_t *plain = search(0);
    AUTO(json) json_t *before = search(1);
    AUTO(json) json_t *after = search(2);
    CHECK_INT((int)json_array_size(plain), 16);
    CHECK(json_equal(plain, before));
    CHECK(json_equal(plain, after));
}

TEST(one_trial_waits_once_an_end_has_told_that_trials_are_short)
{
    start_with(BAYES(9));
    hello("a", "{\"slots\":4}");
    CHECK(!scheduler_wants_prefetch(s)); /* nothing has ended */
    end(1, 0, 0.001);
    CHECK(scheduler_wants_prefetch(s));
    step(SCHEDULER_EV_PREFETCH, NULL, 0, NULL);
    CHECK_HAS(gave(), "CREATED 5/0");
    CHECK_STR(state_of(5), "waiting");
    CHECK(!scheduler_wants_prefetch(s));
    step(SCHEDULER_EV_PREFETCH, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    end(2, 1, 0.001);
    CHECK_HAS(gave(), "| RUN a 5/6;"); /* no trial is created ahead before the first end */
    CHECK(!strstr(gave(), "CREATED"));
}

TEST(nothing_is_made_ahead_where_trials_take_long_or_suggestions_do_not)
{
    start_with(BAYES(9));
    hello("a", "{\"slots\":4}");
    end(1, 0, 3600);
    CHECK(!scheduler_wants_prefetch(s));
    start_with(RANDOM);
    hello("a", "{\"slots\":4}");
    end(1, 0, 0.001);
    CHECK(!scheduler_wants_prefetch(s));
}

TEST(nothing_is_made_ahead_where_few_trials_run_at_once)
{
    start_with(BAYES(9));
    hello("a", "{\"slots\":3}");
    end(1, 0, 0.001);
    CHECK(!scheduler_wants_prefetch(s));
    hello("b", "{\"slots\":1}");
    CHECK(scheduler_wants_prefetch(s));
}

TEST(no_more_trials_are_made_ahead_than_there_are_to_be)
{
    start_with(BAYES(5));
    hello("a", "{\"slots\":4}");
    end(1, 0, 0.001);
    CHECK_INT((int)scheduler_view(s).count, 5);
    CHECK(!scheduler_wants_prefetch(s));
    for (int i = 1; i < 5; i++)
        end(i + 1, i, 0.001);
    CHECK_HAS(gave(), "END - -1/0 run_cap is reached;");
}

TEST(a_trial_that_was_made_ahead_is_cancelled_when_the_search_closes)
{
    start_with("method: bayes\nprogram: t.py\nmetric: {name: loss, target: 0}\n"
               "parameters: {x: {min: 0.0, max: 1.0}}\n");
    hello("a", "{\"slots\":4}");
    report(1, "{\"loss\":3}");
    done(1, "{\"status\":0,\"seconds\":0.001}");
    ahead();
    CHECK_STR(state_of(5), "waiting");
    report(2, "{\"loss\":-1}");
    CHECK(!scheduler_wants_prefetch(s));
    for (int lease = 2; lease <= 5; lease++)
        done(lease, "{\"status\":0}");
    CHECK_STR(state_of(5), "cancelled");
    CHECK(scheduler_is_done(s));
}
