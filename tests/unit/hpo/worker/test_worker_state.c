/* test_worker_state - the whole tables of a worker's transitions: its slots, and its life. */
#include "hpo/worker/worker_state.h"

#include "tests/unit/kit_state_rows.h"

static int slots_next(int s, int ev)
{
    return states_next(&worker_slots_states, (enum worker_slots_state)s,
                       (enum worker_slots_event)ev);
}

static const char *slots_name(int s)
{
    return states_name(&worker_slots_states, (enum worker_slots_state)s);
}

static int next(int s, int ev)
{
    return states_next(&worker_states, (enum worker_state)s, (enum worker_event)ev);
}

static const char *name(int s)
{
    return states_name(&worker_states, (enum worker_state)s);
}

#define SLOTS(x) WORKER_SLOTS_##x
#define S(x) WORKER_##x
#define E(x) WORKER_EV_##x

static const struct state_row slots_rows[] = {
    {SLOTS(UNCONFIGURED), SLOTS(EV_DIVIDED), SLOTS(OPEN)},
    {SLOTS(UNCONFIGURED), SLOTS(EV_DIVIDED_GPUS), SLOTS(PROBING)},
    {SLOTS(UNCONFIGURED), SLOTS(EV_UNFIT), SLOTS(UNCONFIGURED)},
    {SLOTS(PROBING), SLOTS(EV_SCANNED), SLOTS(OPEN)},
    {SLOTS(OPEN), SLOTS(EV_SCANNED), SLOTS(OPEN)},
};

static const struct state_row rows[] = {
    {S(SERVING), E(IDLE), S(LEAVING_IDLE)},
    {S(SERVING), E(SIGNAL), S(STOPPING)},
    {S(SERVING), E(SIGNAL_FINISH), S(FINISHING)},
    {S(SERVING), E(DRAIN), S(STOPPING)},
    {S(SERVING), E(FAILED), S(STOPPING)},
    {S(SERVING), E(SILENT), S(ABANDONED)},
    {S(SERVING), E(REJECTED), S(ABANDONED)},
    {S(LEAVING_IDLE), E(PONG), S(DONE)},
    {S(LEAVING_IDLE), E(PONG_LEASED), S(FINISHING)},
    {S(LEAVING_IDLE), E(SIGNAL), S(STOPPING)},
    {S(LEAVING_IDLE), E(SIGNAL_FINISH), S(LEAVING_IDLE)},
    {S(LEAVING_IDLE), E(DRAIN), S(STOPPING)},
    {S(LEAVING_IDLE), E(FAILED), S(STOPPING)},
    {S(LEAVING_IDLE), E(SILENT), S(ABANDONED)},
    {S(LEAVING_IDLE), E(REJECTED), S(ABANDONED)},
    {S(FINISHING), E(SIGNAL), S(STOPPING)},
    {S(FINISHING), E(SIGNAL_FINISH), S(STOPPING)},
    {S(FINISHING), E(DRAIN), S(STOPPING)},
    {S(FINISHING), E(FAILED), S(STOPPING)},
    {S(FINISHING), E(SILENT), S(ABANDONED)},
    {S(FINISHING), E(REJECTED), S(ABANDONED)},
    {S(FINISHING), E(ALL_RELEASED), S(DONE)},
    {S(STOPPING), E(SIGNAL), S(ABANDONED)},
    {S(STOPPING), E(SIGNAL_FINISH), S(ABANDONED)},
    {S(STOPPING), E(DRAIN), S(STOPPING)},
    {S(STOPPING), E(FAILED), S(STOPPING)},
    {S(STOPPING), E(SILENT), S(ABANDONED)},
    {S(STOPPING), E(REJECTED), S(ABANDONED)},
    {S(STOPPING), E(KILL_LIMIT), S(STOPPING)},
    {S(STOPPING), E(ALL_RELEASED), S(DONE)},
    {S(ABANDONED), E(SIGNAL), S(ABANDONED)},
    {S(ABANDONED), E(SIGNAL_FINISH), S(ABANDONED)},
    {S(ABANDONED), E(REJECTED), S(ABANDONED)},
    {S(ABANDONED), E(KILL_LIMIT), S(ABANDONED)},
    {S(ABANDONED), E(ALL_RELEASED), S(DONE)},
    {S(ABANDONED), E(ALL_DONE), S(DONE)},
};

static const struct state_rows slots_table = {
    slots_next,          slots_name, WORKER_SLOTS_STATES,
    WORKER_SLOTS_EVENTS, slots_rows, sizeof slots_rows / sizeof *slots_rows};
static const struct state_rows table = {next,          name, WORKER_STATES,
                                        WORKER_EVENTS, rows, sizeof rows / sizeof *rows};

TEST(each_row_of_the_slots_exists_and_other_events_have_no_meaning)
{
    state_rows_check_all(&slots_table);
    state_rows_check_graph(&slots_table);
    state_rows_check_names(&slots_table);
}

TEST(each_row_of_the_worker_exists_and_other_events_have_no_meaning)
{
    state_rows_check_all(&table);
    state_rows_check_graph(&table);
    state_rows_check_names(&table);
}

TEST(three_signals_end_a_worker_that_lets_trials_finish)
{
    int s = next(S(SERVING), E(SIGNAL_FINISH));
    CHECK_INT(s, S(FINISHING));
    s = next(s, E(SIGNAL_FINISH));
    CHECK_INT(s, S(STOPPING));
    CHECK_INT(next(s, E(SIGNAL_FINISH)), S(ABANDONED));
}

TEST(a_worker_that_was_abandoned_does_not_return)
{
    for (int ev = 0; ev < WORKER_EVENTS; ev++) {
        int to = next(S(ABANDONED), ev);
        CHECK(to == -1 || to == S(ABANDONED) || to == S(DONE));
    }
}
