#include "launcher/job/job.h"

#include <assert.h>
#include <signal.h>
#include <sys/wait.h>

#define ROW(...) STATES_ROW(JOB, __VA_ARGS__)
static const struct states_row job_rows[] = {
    ROW(RUNNING, FAILED, TERMINATING),
    ROW(RUNNING, FAILED_LISTEN, LISTENING),
    ROW(RUNNING, STOP, STOP_REQUESTED),
    ROW(RUNNING, KILL, KILLING),
    ROW(RUNNING, ALL_RANKS_DONE, REAPING),
    ROW(LISTENING, TIMEOUT, TERMINATING),
    ROW(LISTENING, STOP, TERMINATING),
    ROW(LISTENING, KILL, KILLING),
    ROW(LISTENING, ALL_RANKS_DONE, REAPING),
    ROW(STOP_REQUESTED, TIMEOUT, TERMINATING),
    ROW(STOP_REQUESTED, KILL, KILLING),
    ROW(STOP_REQUESTED, ALL_RANKS_DONE, REAPING),
    ROW(TERMINATING, TIMEOUT, KILLING),
    ROW(TERMINATING, KILL, KILLING),
    ROW(TERMINATING, ALL_RANKS_DONE, REAPING),
    ROW(KILLING, ALL_RANKS_DONE, REAPING),
    ROW(REAPING, REAPED, DONE),
};
#undef ROW

const struct states job_states = STATES_TABLE(job_rows);

#define ROW(...) STATES_ROW(JOB_RANK, __VA_ARGS__)
static const struct states_row job_rank_rows[] = {
    ROW(STARTING, STARTED, RUNNING),         ROW(STARTING, NOT_STARTED, DONE),
    ROW(STARTING, EXITED, DRAINING),         ROW(STARTING, OUTPUT_ENDED, STARTING_EOF),
    ROW(STARTING_EOF, STARTED, RUNNING_EOF), ROW(STARTING_EOF, NOT_STARTED, DONE),
    ROW(STARTING_EOF, EXITED, DONE),         ROW(RUNNING, EXITED, DRAINING),
    ROW(RUNNING, OUTPUT_ENDED, RUNNING_EOF), ROW(RUNNING_EOF, EXITED, DONE),
    ROW(DRAINING, OUTPUT_ENDED, DONE),
};
#undef ROW

const struct states job_rank_states = STATES_TABLE(job_rank_rows);

void job_read_wait(struct rank_end *r, int wait_status)
{
    bool exited = WIFEXITED(wait_status);
    r->status = exited ? WEXITSTATUS(wait_status) : -1;
    r->signal = exited ? 0 : WTERMSIG(wait_status);
    r->core_dumped = !exited && WCOREDUMP(wait_status);
}

const char *job_mpi_fault_text(enum job_mpi_fault fault)
{
    static const char *const texts[] = {
        [JOB_MPI_NO_INIT] = "without MPI_Init", [JOB_MPI_NO_FINALIZE] = "without MPI_Finalize"};
    return texts[fault];
}

int job_rank_status(const struct rank_end *r)
{
    if (r->start_status)
        return r->start_status;
    return r->signal ? 128 + r->signal : r->status;
}

struct job *job_new(int ranks)
{
    assert(ranks > 0);
    struct job *j = xzalloc(sizeof *j);
    j->ranks = xcalloc((size_t)ranks, sizeof *j->ranks);
    j->count = ranks;
    j->first_failed = -1;
    return j;
}

void job_free(struct job *j)
{
    if (j)
        free(j->ranks);
    free(j);
}

bool job_apply(struct job *j, enum job_event ev)
{
    int to = states_step(&job_states, j->state, ev, "job");
    if (to < 0)
        return false;
    if (j->state == JOB_RUNNING && (ev == JOB_EV_STOP || ev == JOB_EV_KILL))
        j->stopped = true;
    j->state = (enum job_state)to;
    return true;
}

bool job_rank_apply(struct job *j, int rank, enum job_rank_event ev)
{
    struct job_rank *r = &j->ranks[rank];
    int to = states_step(&job_rank_states, r->state, ev, "rank %d", rank);
    if (to < 0)
        return false;
    r->state = (enum job_rank_state)to;
    if (to != JOB_RANK_DONE)
        return false;
    j->done++;
    return j->done == j->count && job_apply(j, JOB_EV_ALL_RANKS_DONE);
}

static bool has_ended(const struct job_rank *r)
{
    return r->state == JOB_RANK_DRAINING || r->state == JOB_RANK_DONE;
}

static bool failed(struct job *j, int rank, bool listen)
{
    if (j->first_failed < 0)
        j->first_failed = rank;
    return job_apply(j, listen ? JOB_EV_FAILED_LISTEN : JOB_EV_FAILED);
}

/* Returns true if a rank that has ended so may have failed because of another rank. */
static bool may_follow(const struct rank_end *end)
{
    return !end->start_status && !end->lost && !end->oom_killed &&
           (end->signal == 0 || end->signal == SIGABRT);
}

/* Returns true if the other ranks run on, although this one has failed. */
static bool is_tolerated(const struct job *j, const struct rank_end *end)
{
    return j->keeps_going && !end->in_mpi && !end->start_status && !end->signal && !end->lost;
}

bool job_set_rank_end(struct job *j, const struct rank_end *end)
{
    struct job_rank *r = &j->ranks[end->rank];
    if (has_ended(r))
        return false;
    r->end = *end;
    bool changed = false;
    if (r->aborted) {
        r->end.aborted = true;
        r->end.status = r->abort_code;
        r->end.signal = 0;
    } else if (j->state > JOB_LISTENING) {
        r->end.told_to_stop = true;
        r->end.mpi_fault = JOB_MPI_NO_FAULT;
    } else if (end->mpi_fault) {
        r->end.status = 1;
        changed = failed(j, end->rank, false);
    } else if (job_rank_status(end) != 0 && is_tolerated(j, end)) {
        j->first_failed = j->first_failed < 0 ? end->rank : j->first_failed;
    } else if (job_rank_status(end) != 0) {
        changed = failed(j, end->rank, j->listens && may_follow(end));
    }
    /* Both the failure and the end of a rank may change the job's state. If the last rank fails,
     * both do. */
    return job_rank_apply(j, end->rank,
                          end->start_status ? JOB_RANK_EV_NOT_STARTED : JOB_RANK_EV_EXITED) ||
           changed;
}

bool job_rank_aborted(struct job *j, int rank, int code)
{
    struct job_rank *r = &j->ranks[rank];
    if (has_ended(r) || r->aborted || j->state != JOB_RUNNING)
        return false; /* further ranks abort because the first one did */
    r->aborted = true;
    /* An exit status has 8 bits, and an abort is never a success. */
    r->abort_code = (code & 0xff) ? (code & 0xff) : 1;
    return failed(j, rank, false);
}

bool job_rank_absent(struct job *j, int rank)
{
    struct job_rank *r = &j->ranks[rank];
    if (!has_ended(r) || j->state != JOB_RUNNING)
        return false;
    r->end.mpi_fault = JOB_MPI_NO_INIT;
    r->end.status = 1;
    return failed(j, rank, false);
}

int job_status(const struct job *j)
{
    if (j->first_failed >= 0)
        return job_rank_status(&j->ranks[j->first_failed].end);
    for (int i = 0; i < j->count; i++)
        if (job_rank_status(&j->ranks[i].end) != 0)
            return job_rank_status(&j->ranks[i].end);
    return 0;
}
