/* test_reservation_state - the whole table of a reservation's transitions. */
#include "hpo/worker/reservation_state.h"

#include "tests/unit/kit_state_rows.h"

static int next(int s, int ev)
{
    return states_next(&reservation_states, (enum reservation_state)s, (enum reservation_event)ev);
}

static const char *name(int s)
{
    return states_name(&reservation_states, (enum reservation_state)s);
}

#define S(x) RESERVATION_##x
#define E(x) RESERVATION_EV_##x

static const struct state_row rows[] = {
    {S(WAITING), E(SLOT), S(RESERVED)},
    {S(WAITING), E(PREEMPT), S(DONE)},
    {S(WAITING), E(STOP), S(DONE)},
    {S(RESERVED), E(JOINED), S(JOINED)},
    {S(RESERVED), E(NOT_JOINED), S(RESERVED)},
    {S(RESERVED), E(PREEMPT), S(DONE)},
    {S(RESERVED), E(STOP), S(DONE)},
    {S(JOINED), E(AGENT_ENDED), S(IDLE)},
    {S(JOINED), E(PREEMPT), S(REVOKING)},
    {S(JOINED), E(STOP), S(ENDING)},
    {S(IDLE), E(PREEMPT), S(DONE)},
    {S(IDLE), E(STOP), S(DONE)},
    {S(REVOKING), E(STOP), S(ENDING)},
    {S(REVOKING), E(AGENT_ENDED), S(DONE)},
    {S(ENDING), E(AGENT_ENDED), S(DONE)},
};

static const struct state_rows table = {
    next, name, RESERVATION_STATES, RESERVATION_EVENTS, rows, sizeof rows / sizeof *rows};

TEST(each_row_exists_and_other_events_have_no_meaning)
{
    state_rows_check_all(&table);
}

TEST(every_state_is_reachable_and_only_the_last_has_no_way_out)
{
    state_rows_check_graph(&table);
    state_rows_check_names(&table);
}

TEST(agents_start_once)
{
    for (int s = 0; s < RESERVATION_STATES; s++)
        if (s != S(RESERVED))
            CHECK_INT(next(s, E(JOINED)), -1);
}
