/* test_local_worker_state - what a coordinator does and does not do with its own worker. */
#include "hpo/coordinator/local_worker_state.h"

#include "tests/unit/kit_states.h"

#define S(x) LOCAL_WORKER_##x
#define E(x) LOCAL_WORKER_EV_##x

static const struct states *const table = &local_worker_states;

TEST(every_state_is_reachable_and_only_the_last_has_no_way_out)
{
    states_check_graph(table, LOCAL_WORKER_STATES, LOCAL_WORKER_EVENTS, SET(S(RELEASED)));
}

TEST(a_worker_that_exits_is_started_again_unless_it_must_end)
{
    LEAD(table, SET(S(STARTING)) | SET(S(ATTACHED)) | SET(S(CONNECTED)), S(ABSENT), E(EXITED));
    LEAD(table, SET(S(UNHEARD)) | SET(S(ENDING)), S(RELEASED), E(EXITED));
}

TEST(a_release_ends_at_once_if_no_process_runs)
{
    LEAD(table, SET(S(IDLE)) | SET(S(ABSENT)) | SET(S(FAILED)), S(RELEASED), E(RELEASE));
    LEAD(table, SET(S(STARTING)) | SET(S(CONNECTED)), S(ENDING), E(RELEASE));
}

TEST(a_process_of_an_earlier_coordinator_is_not_awaited_for_ever)
{
    LEAD(table, SET(S(ATTACHED)) | SET(S(UNHEARD)), S(UNHEARD), E(RELEASE));
    LEAD(table, SET(S(UNHEARD)), S(RELEASED), E(SILENT));
    CHECK_INT(states_with(table, E(SILENT)), SET(S(UNHEARD)));
}

TEST(a_second_release_and_a_late_hello_change_nothing)
{
    CHECK(!(states_with(table, E(RELEASE)) & (SET(S(ENDING)) | SET(S(RELEASED)))));
    CHECK_INT(states_with(table, E(HELLO)), SET(S(STARTING)) | SET(S(ATTACHED)) | SET(S(UNHEARD)));
}

TEST(nothing_is_started_for_a_worker_that_must_end)
{
    CHECK_INT(states_after(table, S(UNHEARD)), SET(S(UNHEARD)) | SET(S(ENDING)) | SET(S(RELEASED)));
    CHECK_INT(states_after(table, S(ENDING)), SET(S(RELEASED)));
    CHECK_INT(states_after(table, S(FAILED)), SET(S(RELEASED)));
    CHECK_INT(states_with(table, E(SPAWNED)), SET(S(ABSENT)));
}
