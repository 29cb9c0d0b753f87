/* mpi_ranks: every row of the table, waiting in MPI_Init, and absent ranks. */
#include "launcher/job/mpi_ranks.h"

#include "tests/unit/kit_state_rows.h"

#define S(state) MPI_RANK_##state
#define EV(event) MPI_RANK_EV_##event

static const struct state_row rows[] = {
    {S(NEW), EV(CONNECTED), S(CONNECTED)},
    {S(NEW), EV(EXITED), S(ABSENT)},
    {S(NEW), EV(FAILED), S(ENDED)},
    {S(CONNECTED), EV(CONNECTED), S(CONNECTED)},
    {S(CONNECTED), EV(FINALIZED), S(FINALIZED)},
    {S(CONNECTED), EV(EXITED), S(ENDED)},
    {S(CONNECTED), EV(FAILED), S(ENDED)},
    {S(FINALIZED), EV(CONNECTED), S(CONNECTED)},
    {S(FINALIZED), EV(EXITED), S(ENDED)},
    {S(FINALIZED), EV(FAILED), S(ENDED)},
};

static int next(int state, int event)
{
    return states_next(&mpi_ranks_states, (enum mpi_rank_state)state, (enum mpi_rank_event)event);
}

static const char *name(int state)
{
    return "a state";
}

TEST(the_table_has_these_rows_only)
{
    const struct state_rows t = {next, name,          MPI_RANK_STATES, MPI_RANK_EVENTS,
                                 rows, COUNT_OF(rows)};
    state_rows_check_all(&t);
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
