/* test_reservation_state - what a reservation does and does not do. */
#include "hpo/worker/reservation_state.h"

#include "tests/unit/kit_states.h"

#define S(x) RESERVATION_##x
#define E(x) RESERVATION_EV_##x

static const struct states *const table = &reservation_states;

TEST(every_state_is_reachable_and_only_the_last_has_no_way_out)
{
    states_check_graph(table, RESERVATION_STATES, RESERVATION_EVENTS, SET(S(DONE)));
}

TEST(a_slot_is_reserved_then_an_agent_runs_and_its_end_leaves_the_slot)
{
    LEAD(table, SET(S(WAITING)), S(RESERVED), E(SLOT));
    LEAD(table, SET(S(RESERVED)), S(JOINED), E(JOINED));
    LEAD(table, SET(S(JOINED)), S(IDLE), E(AGENT_ENDED));
}

TEST(agents_start_once_and_a_ticket_that_starts_none_leaves_the_slot)
{
    CHECK_INT(states_with(table, E(JOINED)), SET(S(RESERVED)));
    LEAD(table, SET(S(RESERVED)), S(RESERVED), E(NOT_JOINED));
}

TEST(without_an_agent_the_slot_is_free_at_once)
{
    LEAD(table, SET(S(WAITING)) | SET(S(RESERVED)) | SET(S(IDLE)), S(DONE), E(PREEMPT), E(STOP));
}

TEST(with_an_agent_the_slot_is_free_when_the_agent_has_ended)
{
    LEAD(table, SET(S(JOINED)), S(REVOKING), E(PREEMPT));
    LEAD(table, SET(S(JOINED)) | SET(S(REVOKING)), S(ENDING), E(STOP));
    LEAD(table, SET(S(REVOKING)) | SET(S(ENDING)), S(DONE), E(AGENT_ENDED));
    CHECK_INT(states_after(table, S(ENDING)), SET(S(DONE)));
}

TEST(the_coordinator_is_asked_once_for_the_slot)
{
    CHECK(!(states_with(table, E(PREEMPT)) & (SET(S(REVOKING)) | SET(S(ENDING)))));
}
