/* job: what the ends of ranks mean for the whole. */
#include "launcher/job/job.h"

#include "tests/unit/test.h"

static struct rank_end exits(int rank, int status)
{
    return (struct rank_end){.rank = rank, .status = status};
}

static struct rank_end dies(int rank, int signal)
{
    return (struct rank_end){.rank = rank, .status = -1, .signal = signal};
}

static struct job *running(int ranks)
{
    struct job *j = job_new(ranks);
    for (int i = 0; i < ranks; i++)
        CHECK(!job_rank_apply(j, i, JOB_RANK_EV_STARTED));
    return j;
}

/* Ends the process and the output of the rank. */
static bool ends(struct job *j, struct rank_end r)
{
    bool changed = job_set_rank_end(j, &r);
    return job_rank_apply(j, r.rank, JOB_RANK_EV_OUTPUT_ENDED) || changed;
}

TEST(ranks_that_exit_0_make_a_job_that_is_cleared_and_over)
{
    AUTO(job) struct job *j = running(2);
    CHECK(!ends(j, exits(1, 0)));
    CHECK_INT(j->state, JOB_RUNNING);
    CHECK(ends(j, exits(0, 0)));
    CHECK_INT(j->state, JOB_REAPING);
    CHECK(job_apply(j, JOB_EV_REAPED));
    CHECK_INT(j->state, JOB_DONE);
    CHECK_INT(job_status(j), 0);
    CHECK_INT(j->first_failed, -1);
    CHECK(!j->stopped);
}

TEST(the_first_failure_ends_the_job_before_its_output_has_ended)
{
    AUTO(job) struct job *j = running(3);
    CHECK(job_set_rank_end(j, &(struct rank_end){.rank = 2, .status = 7}));
    CHECK_INT(j->state, JOB_TERMINATING);
    CHECK_INT(j->ranks[2].state, JOB_RANK_DRAINING);
    CHECK(!ends(j, dies(0, SIGTERM)));
    CHECK(!ends(j, exits(1, 9)));
    CHECK(job_rank_apply(j, 2, JOB_RANK_EV_OUTPUT_ENDED));
    CHECK_INT(j->state, JOB_REAPING);
    CHECK_INT(j->first_failed, 2);
    CHECK_INT(job_status(j), 7);
    CHECK(j->ranks[0].end.told_to_stop && j->ranks[1].end.told_to_stop);
    CHECK(!j->ranks[2].end.told_to_stop);
    CHECK(!j->stopped);
}

TEST(a_job_that_keeps_going_ends_with_its_ranks_and_has_the_first_failures_status)
{
    AUTO(job) struct job *j = running(3);
    j->keeps_going = true;
    CHECK(!ends(j, exits(1, 3)));
    CHECK(!ends(j, exits(0, 4)));
    CHECK_INT(j->state, JOB_RUNNING);
    CHECK(ends(j, exits(2, 0)));
    CHECK_INT(j->state, JOB_REAPING);
    CHECK_INT(j->first_failed, 1);
    CHECK_INT(job_status(j), 3);
    CHECK(!j->ranks[2].end.told_to_stop);
}

TEST(a_signal_a_loss_and_a_fault_of_mpi_end_it_all_the_same)
{
    const struct rank_end ends_it[] = {
        dies(0, SIGSEGV),
        {.rank = 0, .status = 1, .in_mpi = true},
        {.rank = 0, .status = 1, .lost = true},
        {.rank = 0, .status = -1, .start_status = 127},
        {.rank = 0, .mpi_fault = JOB_MPI_NO_FINALIZE},
    };
    for (size_t i = 0; i < COUNT_OF(ends_it); i++) {
        AUTO(job) struct job *j = running(2);
        j->keeps_going = true;
        CHECK(job_set_rank_end(j, &ends_it[i]));
        CHECK_INT(j->state, JOB_TERMINATING);
    }
}

TEST(the_last_ranks_failure_counts_too)
{
    AUTO(job) struct job *j = running(2);
    CHECK(!ends(j, exits(0, 0)));
    CHECK(!job_rank_apply(j, 1, JOB_RANK_EV_OUTPUT_ENDED));
    CHECK(job_set_rank_end(j, &(struct rank_end){.rank = 1, .status = -1, .signal = SIGSEGV}));
    CHECK_INT(j->state, JOB_REAPING);
    CHECK_INT(job_status(j), 128 + SIGSEGV);
}

TEST(output_may_end_before_the_news_of_the_start)
{
    AUTO(job) struct job *j = job_new(1);
    CHECK(!job_rank_apply(j, 0, JOB_RANK_EV_OUTPUT_ENDED));
    CHECK_INT(j->ranks[0].state, JOB_RANK_STARTING_EOF);
    CHECK(!job_rank_apply(j, 0, JOB_RANK_EV_STARTED));
    CHECK_INT(j->ranks[0].state, JOB_RANK_RUNNING_EOF);
    CHECK(job_set_rank_end(j, &(struct rank_end){.status = 0}));
    CHECK_INT(j->ranks[0].state, JOB_RANK_DONE);
}

TEST(a_program_that_is_not_there_is_127_and_one_that_cannot_run_126)
{
    AUTO(job) struct job *j = job_new(2);
    struct rank_end r = {.rank = 1, .status = -1, .start_status = 127};
    CHECK(job_set_rank_end(j, &r));
    CHECK_INT(j->state, JOB_TERMINATING);
    r.rank = 0;
    CHECK(job_set_rank_end(j, &r));
    CHECK_INT(job_status(j), 127);
    r.start_status = 126;
    CHECK_INT(job_rank_status(&r), 126);
}

TEST(an_abort_gives_its_code_whatever_the_exit_was)
{
    AUTO(job) struct job *j = running(2);
    CHECK(job_rank_aborted(j, 1, 3));
    CHECK_INT(j->state, JOB_TERMINATING);
    CHECK(!job_rank_aborted(j, 0, 4));
    CHECK(!ends(j, dies(0, SIGTERM)));
    CHECK(ends(j, dies(1, SIGTERM)));
    CHECK_INT(j->first_failed, 1);
    CHECK_INT(job_status(j), 3);
    CHECK(j->ranks[1].end.aborted);
    CHECK(j->ranks[0].end.told_to_stop);
}

TEST(an_abort_is_never_a_success)
{
    int codes[] = {0, 256, -1}, want[] = {1, 1, 255};
    for (size_t i = 0; i < 3; i++) {
        AUTO(job) struct job *j = running(1);
        CHECK(job_rank_aborted(j, 0, codes[i]));
        CHECK(ends(j, exits(0, 0)));
        CHECK_INT(job_status(j), want[i]);
    }
}

TEST(a_stop_asks_then_terminates_then_kills)
{
    AUTO(job) struct job *j = running(1);
    CHECK(job_apply(j, JOB_EV_STOP));
    CHECK_INT(j->state, JOB_STOP_REQUESTED);
    CHECK(!job_apply(j, JOB_EV_STOP));
    CHECK(job_apply(j, JOB_EV_TIMEOUT));
    CHECK_INT(j->state, JOB_TERMINATING);
    CHECK(job_apply(j, JOB_EV_TIMEOUT));
    CHECK_INT(j->state, JOB_KILLING);
    CHECK(!job_apply(j, JOB_EV_TIMEOUT));
    CHECK(ends(j, dies(0, SIGKILL)));
    CHECK(j->stopped);
    CHECK_INT(j->first_failed, -1);
    CHECK_INT(job_status(j), 128 + SIGKILL);
}

TEST(a_stopped_job_whose_ranks_exit_0_has_status_0)
{
    AUTO(job) struct job *j = running(2);
    CHECK(job_apply(j, JOB_EV_STOP));
    CHECK(!ends(j, exits(0, 0)));
    CHECK(ends(j, exits(1, 0)));
    CHECK_INT(job_status(j), 0);
    CHECK(j->stopped);
}

TEST(a_kill_after_a_failure_does_not_hide_it)
{
    AUTO(job) struct job *j = running(2);
    CHECK(!job_rank_apply(j, 0, JOB_RANK_EV_OUTPUT_ENDED));
    struct rank_end r = exits(0, 5);
    CHECK(job_set_rank_end(j, &r));
    CHECK(job_apply(j, JOB_EV_KILL));
    CHECK(!j->stopped);
    CHECK(ends(j, dies(1, SIGKILL)));
    CHECK_INT(job_status(j), 5);
}

TEST(an_end_that_is_told_twice_counts_once)
{
    AUTO(job) struct job *j = running(2);
    CHECK(!ends(j, exits(0, 0)));
    CHECK(!ends(j, exits(0, 9)));
    CHECK_INT(j->state, JOB_RUNNING);
    CHECK(ends(j, exits(1, 0)));
    CHECK_INT(job_status(j), 0);
}

TEST(nothing_leads_out_of_the_last_states)
{
    for (int ev = 0; ev < JOB_EVENTS; ev++)
        CHECK_INT(states_next(&job_states, JOB_DONE, (enum job_event)ev), -1);
    for (int ev = 0; ev < JOB_RANK_EVENTS; ev++)
        CHECK_INT(states_next(&job_rank_states, JOB_RANK_DONE, (enum job_rank_event)ev), -1);
}

TEST(a_wait_status_is_read_as_the_kernel_means_it)
{
    struct rank_end r = {0};
    job_read_wait(&r, 7 << 8);
    CHECK_INT(r.status, 7);
    CHECK_INT(r.signal, 0);
    job_read_wait(&r, SIGSEGV | 0x80);
    CHECK_INT(r.status, -1);
    CHECK_INT(r.signal, SIGSEGV);
    CHECK(r.core_dumped);
    CHECK_INT(job_rank_status(&r), 139);
}

TEST(an_exit_without_finalize_is_a_failure_with_status_1)
{
    AUTO(job) struct job *j = running(2);
    CHECK(ends(j, (struct rank_end){.rank = 1, .mpi_fault = JOB_MPI_NO_FINALIZE}));
    CHECK_INT(j->state, JOB_TERMINATING);
    CHECK_INT(j->first_failed, 1);
    CHECK_INT(j->ranks[1].end.status, 1);
    CHECK(ends(j, dies(0, SIGTERM)));
    CHECK_INT(job_status(j), 1);
}

TEST(a_rank_that_was_told_to_stop_need_not_finalize)
{
    AUTO(job) struct job *j = running(1);
    CHECK(job_apply(j, JOB_EV_STOP));
    CHECK(ends(j, (struct rank_end){.rank = 0, .mpi_fault = JOB_MPI_NO_FINALIZE}));
    CHECK(j->ranks[0].end.told_to_stop && !j->ranks[0].end.mpi_fault);
    CHECK_INT(job_status(j), 0);
    CHECK_INT(j->first_failed, -1);
}

TEST(an_absent_rank_fails_after_its_exit)
{
    AUTO(job) struct job *j = running(2);
    CHECK(!job_rank_absent(j, 1)); /* it still runs */
    CHECK(!ends(j, exits(1, 0)));
    CHECK(job_rank_absent(j, 1));
    CHECK_INT(j->state, JOB_TERMINATING);
    CHECK_INT(j->first_failed, 1);
    CHECK_STR(job_mpi_fault_text(j->ranks[1].end.mpi_fault), "without MPI_Init");
    CHECK(!job_rank_absent(j, 1)); /* once */
    CHECK(ends(j, dies(0, SIGTERM)));
    CHECK_INT(job_status(j), 1);
}

static struct job *listening(int ranks)
{
    struct job *j = running(ranks);
    j->listens = true;
    return j;
}

TEST(a_job_that_listens_lets_the_others_fail_by_themselves_for_a_moment)
{
    AUTO(job) struct job *j = listening(3);
    CHECK(ends(j, exits(0, 1)));
    CHECK_INT(j->state, JOB_LISTENING);
    CHECK(!ends(j, dies(1, SIGSEGV)));
    CHECK(!j->ranks[1].end.told_to_stop);
    CHECK(job_apply(j, JOB_EV_TIMEOUT));
    CHECK_INT(j->state, JOB_TERMINATING);
    CHECK(ends(j, dies(2, SIGTERM)));
    CHECK(j->ranks[2].end.told_to_stop);
    CHECK_INT(j->first_failed, 0);
    CHECK_INT(job_status(j), 1);
}

TEST(a_job_that_listens_ends_when_all_its_ranks_have)
{
    AUTO(job) struct job *j = listening(2);
    CHECK(ends(j, exits(0, 1)));
    CHECK(ends(j, exits(1, 3)));
    CHECK_INT(j->state, JOB_REAPING);
    CHECK_INT(job_status(j), 1);
}

TEST(a_user_who_stops_a_job_that_listens_does_not_hide_the_failure)
{
    AUTO(job) struct job *j = listening(2);
    CHECK(ends(j, exits(0, 5)));
    CHECK(job_apply(j, JOB_EV_STOP));
    CHECK_INT(j->state, JOB_TERMINATING);
    CHECK(!j->stopped);
    CHECK(ends(j, dies(1, SIGTERM)));
    CHECK_INT(job_status(j), 5);
}

TEST(nobody_listens_after_an_end_that_tells_its_own_cause)
{
    const struct rank_end first_hand[] = {
        dies(0, SIGSEGV),
        {.rank = 0, .status = -1, .signal = SIGKILL, .oom_killed = true},
        {.rank = 0, .status = 1, .lost = true},
        {.rank = 0, .status = -1, .start_status = 127},
        {.rank = 0, .mpi_fault = JOB_MPI_NO_FINALIZE},
    };
    for (size_t i = 0; i < COUNT_OF(first_hand); i++) {
        AUTO(job) struct job *j = listening(2);
        CHECK(job_set_rank_end(j, &first_hand[i]));
        CHECK_INT(j->state, JOB_TERMINATING);
    }
    AUTO(job) struct job *aborted = listening(2);
    CHECK(job_rank_aborted(aborted, 0, 3));
    CHECK_INT(aborted->state, JOB_TERMINATING);
    AUTO(job) struct job *abort = listening(2); /* as NCCL's watchdog ends a process */
    CHECK(job_set_rank_end(abort, &(struct rank_end){.status = -1, .signal = SIGABRT}));
    CHECK_INT(abort->state, JOB_LISTENING);
}
