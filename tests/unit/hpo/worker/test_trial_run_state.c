/* test_trial_run_state - the whole table of a trial run's transitions. */
#include "hpo/worker/trial_run_state.h"

#include "tests/unit/kit_state_rows.h"

static int next(int s, int ev)
{
    return states_next(&trial_run_states, (enum trial_run_state)s, (enum trial_run_event)ev);
}

static const char *name(int s)
{
    return states_name(&trial_run_states, (enum trial_run_state)s);
}

#define S(x) TRIAL_RUN_##x
#define E(x) TRIAL_RUN_EV_##x

static const struct state_row rows[] = {
    {S(WAITING), E(COPY), S(PREPARING)},
    {S(WAITING), E(LAUNCHED), S(RUNNING)},
    {S(WAITING), E(NOT_STARTED), S(DONE)},
    {S(WAITING), E(STOP), S(DONE)},
    {S(WAITING), E(KILL), S(WAITING)},
    {S(PREPARING), E(LAUNCHED), S(RUNNING)},
    {S(PREPARING), E(NOT_STARTED), S(DONE)},
    {S(PREPARING), E(STOP), S(PREPARING_STOPPED)},
    {S(PREPARING), E(KILL), S(PREPARING_STOPPED)},
    {S(PREPARING_STOPPED), E(NOT_STARTED), S(DONE)},
    {S(RUNNING), E(STOP), S(STOPPING)},
    {S(RUNNING), E(KILL), S(STOPPING)},
    {S(RUNNING), E(JOB_ENDED), S(DONE)},
    {S(RUNNING), E(JOB_ENDED_AGENT_LEFT), S(DRAINING)},
    {S(RUNNING), E(AGENT_ENDED), S(RUNNING)},
    {S(STOPPING), E(KILL), S(STOPPING)},
    {S(STOPPING), E(JOB_ENDED), S(DONE)},
    {S(STOPPING), E(JOB_ENDED_AGENT_LEFT), S(DRAINING)},
    {S(STOPPING), E(AGENT_ENDED), S(STOPPING)},
    {S(DRAINING), E(AGENT_ENDED), S(DONE)},
};

static const struct state_rows table = {
    next, name, TRIAL_RUN_STATES, TRIAL_RUN_EVENTS, rows, sizeof rows / sizeof *rows};

TEST(each_row_exists_and_other_events_have_no_meaning)
{
    state_rows_check_all(&table);
}

TEST(every_state_is_reachable_and_only_the_last_has_no_way_out)
{
    state_rows_check_graph(&table);
    state_rows_check_names(&table);
}

TEST(a_second_stop_changes_nothing)
{
    CHECK_INT(next(S(STOPPING), E(STOP)), -1);
    CHECK_INT(next(S(PREPARING_STOPPED), E(STOP)), -1);
    CHECK_INT(next(S(DRAINING), E(STOP)), -1);
    CHECK_INT(next(S(DRAINING), E(KILL)), -1);
}

TEST(a_kill_of_a_run_that_waits_has_no_effect)
{
    CHECK_INT(next(S(WAITING), E(KILL)), S(WAITING));
}
