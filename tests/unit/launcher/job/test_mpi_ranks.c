/* test_mpi_ranks - what MPI ranks do and do not do, waiting in MPI_Init, and absent ranks. */
#include "launcher/job/mpi_ranks.h"

#include "tests/unit/kit_states.h"

#define S(state) MPI_RANK_##state
#define EV(event) MPI_RANK_EV_##event

static const struct states *const table = &mpi_ranks_states;

TEST(every_state_is_reached_and_ranks_that_have_ended_say_nothing)
{
    states_check_graph(table, MPI_RANK_STATES, MPI_RANK_EVENTS, SET(S(ABSENT)) | SET(S(ENDED)));
    CHECK_INT(states_after(table, S(ABSENT)) | states_after(table, S(ENDED)), 0);
}

TEST(only_a_rank_that_exits_well_and_never_connected_is_absent)
{
    LEAD(table, SET(S(NEW)), S(ABSENT), EV(EXITED));
    LEAD(table, SET(S(NEW)), S(ENDED), EV(FAILED));
    LEAD(table, SET(S(CONNECTED)) | SET(S(FINALIZED)), S(ENDED), EV(EXITED), EV(FAILED));
}

TEST(only_a_rank_that_has_connected_finalizes_and_connecting_again_counts)
{
    CHECK_INT(states_with(table, EV(FINALIZED)), SET(S(CONNECTED)));
    LEAD(table, SET(S(NEW)) | SET(S(CONNECTED)) | SET(S(FINALIZED)), S(CONNECTED), EV(CONNECTED));
}

TEST(a_rank_waits_in_init_until_all_have_connected)
{
    AUTO(mpi_ranks) struct mpi_ranks *m = mpi_ranks_new(2);
    CHECK(!mpi_ranks_any_connected(m));
    CHECK_INT(mpi_ranks_wait_ms(m, 0, 500), 0);
    CHECK_INT(mpi_ranks_apply(m, 0, EV(CONNECTED), 100), S(NEW));
    CHECK(mpi_ranks_any_connected(m));
    CHECK_INT(mpi_ranks_wait_ms(m, 0, 500), 400);
    CHECK_INT(mpi_ranks_wait_ms(m, 1, 500), 0);
    CHECK_INT(mpi_ranks_apply(m, 1, EV(CONNECTED), 600), S(NEW));
    CHECK_INT(mpi_ranks_wait_ms(m, 0, 700), 0);
}

TEST(an_exit_after_connecting_is_told_from_one_after_finalizing)
{
    AUTO(mpi_ranks) struct mpi_ranks *m = mpi_ranks_new(2);
    mpi_ranks_apply(m, 0, EV(CONNECTED), 1);
    mpi_ranks_apply(m, 1, EV(CONNECTED), 1);
    mpi_ranks_apply(m, 1, EV(FINALIZED), 0);
    CHECK_INT(mpi_ranks_apply(m, 0, EV(EXITED), 0), S(CONNECTED));
    CHECK_INT(mpi_ranks_apply(m, 1, EV(EXITED), 0), S(FINALIZED));
}

/* Two programs one after the other in a shell: the second one counts. */
TEST(a_rank_may_connect_again)
{
    AUTO(mpi_ranks) struct mpi_ranks *m = mpi_ranks_new(1);
    mpi_ranks_apply(m, 0, EV(CONNECTED), 1);
    mpi_ranks_apply(m, 0, EV(FINALIZED), 0);
    mpi_ranks_apply(m, 0, EV(CONNECTED), 2);
    CHECK_INT(mpi_ranks_wait_ms(m, 0, 10), 0); /* there is no other rank */
    CHECK_INT(mpi_ranks_apply(m, 0, EV(EXITED), 0), S(CONNECTED));
}

TEST(an_absent_rank_is_found_in_either_order)
{
    for (int order = 0; order < 2; order++) {
        AUTO(mpi_ranks) struct mpi_ranks *m = mpi_ranks_new(3);
        int64_t waits_ms;
        mpi_ranks_apply(m, order ? 1 : 2, order ? EV(EXITED) : EV(CONNECTED), 100);
        CHECK_INT(mpi_ranks_find_absent(m, 100, &waits_ms), -1);
        mpi_ranks_apply(m, order ? 2 : 1, order ? EV(CONNECTED) : EV(EXITED), 100);
        CHECK_INT(mpi_ranks_find_absent(m, 100, &waits_ms), 1);
        CHECK_INT(waits_ms, 0);
        CHECK_INT(mpi_ranks_find_absent(m, 700, &waits_ms), 1);
        CHECK_INT(waits_ms, 600);
    }
}

TEST(ranks_that_failed_or_finalized_are_not_absent_and_do_not_wait)
{
    AUTO(mpi_ranks) struct mpi_ranks *m = mpi_ranks_new(3);
    int64_t waits_ms;
    mpi_ranks_apply(m, 0, EV(CONNECTED), 1);
    mpi_ranks_apply(m, 1, EV(FAILED), 0);
    CHECK_INT(mpi_ranks_find_absent(m, 9, &waits_ms), -1);
    mpi_ranks_apply(m, 0, EV(FINALIZED), 0);
    mpi_ranks_apply(m, 2, EV(EXITED), 0);
    CHECK_INT(mpi_ranks_find_absent(m, 9, &waits_ms), -1);
}
