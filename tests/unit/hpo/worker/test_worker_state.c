/* test_worker_state - what the slots of a worker and the worker itself do and do not do. */
#include "hpo/worker/worker_state.h"

#include "tests/unit/kit_states.h"

#define SLOTS(x) WORKER_SLOTS_##x
#define S(x) WORKER_##x
#define E(x) WORKER_EV_##x

static const struct states *const slots = &worker_slots_states;
static const struct states *const table = &worker_states;

TEST(every_state_is_reachable_and_only_the_last_has_no_way_out)
{
    states_check_graph(slots, WORKER_SLOTS_STATES, WORKER_SLOTS_EVENTS, SET(SLOTS(OPEN)));
    states_check_graph(table, WORKER_STATES, WORKER_EVENTS, SET(S(DONE)));
}

TEST(slots_of_a_node_with_gpus_open_after_the_first_scan)
{
    LEAD(slots, SET(SLOTS(UNCONFIGURED)), SLOTS(OPEN), SLOTS(EV_DIVIDED));
    LEAD(slots, SET(SLOTS(UNCONFIGURED)), SLOTS(PROBING), SLOTS(EV_DIVIDED_GPUS));
    LEAD(slots, SET(SLOTS(PROBING)) | SET(SLOTS(OPEN)), SLOTS(OPEN), SLOTS(EV_SCANNED));
}

TEST(a_node_is_divided_once_and_not_if_no_trial_fits)
{
    CHECK_INT(states_with(slots, SLOTS(EV_DIVIDED)), SET(SLOTS(UNCONFIGURED)));
    CHECK_INT(states_with(slots, SLOTS(EV_DIVIDED_GPUS)), SET(SLOTS(UNCONFIGURED)));
    LEAD(slots, SET(SLOTS(UNCONFIGURED)), SLOTS(UNCONFIGURED), SLOTS(EV_UNFIT));
}

TEST(three_signals_end_a_worker_that_lets_trials_finish)
{
    LEAD(table, SET(S(SERVING)), S(FINISHING), E(SIGNAL_FINISH));
    LEAD(table, SET(S(FINISHING)), S(STOPPING), E(SIGNAL_FINISH));
    LEAD(table, SET(S(STOPPING)), S(ABANDONED), E(SIGNAL_FINISH));
}

TEST(an_idle_worker_leaves_unless_the_coordinator_has_given_it_a_lease)
{
    LEAD(table, SET(S(SERVING)), S(LEAVING_IDLE), E(IDLE));
    LEAD(table, SET(S(LEAVING_IDLE)), S(DONE), E(PONG));
    LEAD(table, SET(S(LEAVING_IDLE)), S(FINISHING), E(PONG_LEASED));
    LEAD(table, SET(S(LEAVING_IDLE)), S(LEAVING_IDLE), E(SIGNAL_FINISH));
}

TEST(a_worker_stops_what_runs_when_it_is_told_to_or_cannot_run_trials)
{
    LEAD(table, SET(S(SERVING)) | SET(S(LEAVING_IDLE)) | SET(S(FINISHING)), S(STOPPING), E(SIGNAL),
         E(DRAIN), E(FAILED));
    LEAD(table, SET(S(STOPPING)), S(STOPPING), E(DRAIN), E(FAILED), E(KILL_LIMIT));
    LEAD(table, SET(S(FINISHING)) | SET(S(STOPPING)) | SET(S(ABANDONED)), S(DONE), E(ALL_RELEASED));
}

TEST(without_a_coordinator_no_acknowledgement_is_awaited)
{
    LEAD(table, SET(S(SERVING)) | SET(S(LEAVING_IDLE)) | SET(S(FINISHING)) | SET(S(STOPPING)),
         S(ABANDONED), E(SILENT), E(REJECTED));
    LEAD(table, SET(S(STOPPING)), S(ABANDONED), E(SIGNAL));
    CHECK_INT(states_with(table, E(ALL_DONE)), SET(S(ABANDONED)));
}

TEST(a_worker_that_was_told_to_end_serves_no_more)
{
    CHECK_INT(states_after(table, S(FINISHING)),
              SET(S(STOPPING)) | SET(S(ABANDONED)) | SET(S(DONE)));
    CHECK_INT(states_after(table, S(STOPPING)),
              SET(S(STOPPING)) | SET(S(ABANDONED)) | SET(S(DONE)));
    CHECK_INT(states_after(table, S(ABANDONED)), SET(S(ABANDONED)) | SET(S(DONE)));
    LEAD(table, SET(S(ABANDONED)), S(ABANDONED), E(SIGNAL), E(SIGNAL_FINISH), E(REJECTED),
         E(KILL_LIMIT));
}
