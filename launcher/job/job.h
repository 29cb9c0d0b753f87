/* job - the states of a job and of its ranks: what an exit means, which failure was the first, and
 * the exit status of the job.
 *
 * Pure: events go in, and the new state of the job says which actions are due. job.c has one table
 * for the job and one for a rank. An event without a row in the present state changes nothing. */
#ifndef DROVER_JOB_H
#define DROVER_JOB_H

#include <stdbool.h>

#include "common/mem.h"

/* What a rank that exits with status 0 has omitted, so that others may wait for it forever. */
enum job_mpi_fault {
    JOB_MPI_NO_FAULT,
    JOB_MPI_NO_INIT,    /* another rank has called MPI_Init, this one has not */
    JOB_MPI_NO_FINALIZE /* it has called MPI_Init and not MPI_Finalize */
};

/* How a rank ended. */
struct rank_end {
    int rank;
    int pid;    /* of its process; 0: unknown */
    int status; /* exit status; -1: a signal ended it, or it was not started */
    int signal; /* that ended it; 0: it exited */
    bool core_dumped;
    bool oom_killed;              /* the kernel killed it because memory ran out */
    bool aborted;                 /* it called MPI_Abort(status) */
    bool told_to_stop;            /* it ended after it was told to: not a failure of its own */
    enum job_mpi_fault mpi_fault; /* it exited with status 0, but `status` is 1 */
    double seconds;               /* from the job's start to its end */
    int start_status; /* 0: it was started; 127: its program was not found; 2: an option or a file
                         of the user is wrong; 126: not started for another reason */
    char start_error[256]; /* why not ("exec './train': Permission denied") */
    bool start_node_fault; /* its node could not start it: its program is not the cause */
    bool lost;             /* how it ended is unknown; lost_how says why, and status is 1 */
    char lost_how[256];    /* "c03 was silent for 15 s" */
};

/* Decodes a status of waitpid() into the status, signal and core_dumped of `r`. */
void job_read_wait(struct rank_end *r, int wait_status);

/* Returns "without MPI_Init" or "without MPI_Finalize"; NULL: no fault. */
const char *job_mpi_fault_text(enum job_mpi_fault fault);

/* Returns the rank's exit status as a shell has it: the status, 128+n, 126 or 127. */
int job_rank_status(const struct rank_end *r);

enum job_rank_state {
    JOB_RANK_STARTING,     /* requested from the engine */
    JOB_RANK_STARTING_EOF, /* its output has ended before the report that it has started */
    JOB_RANK_RUNNING,      /* its process runs */
    JOB_RANK_RUNNING_EOF,  /* its output has ended, its process has not */
    JOB_RANK_DRAINING,     /* its process has exited, its output has not ended */
    JOB_RANK_DONE,         /* both have ended, or it was not started */
    JOB_RANK_STATES
};

enum job_rank_event {
    JOB_RANK_EV_STARTED,
    JOB_RANK_EV_NOT_STARTED,
    JOB_RANK_EV_EXITED,
    JOB_RANK_EV_EOF, /* both output streams have ended, or were closed after the drain timer */
    JOB_RANK_EVENTS
};

enum job_state {
    JOB_RUNNING,        /* from the start until the first failure, a stop, or the last exit */
    JOB_STOP_REQUESTED, /* the ranks were asked to stop on their report channels */
    JOB_TERMINATING,    /* SIGTERM was sent */
    JOB_KILLING,        /* SIGKILL was sent */
    JOB_REAPING,        /* every rank is done; processes that they left are killed */
    JOB_DONE,           /* no process of the job is left */
    JOB_STATES
};

enum job_event {
    JOB_EV_FAILED,  /* a rank failed */
    JOB_EV_STOP,    /* the caller stops the job */
    JOB_EV_TIMEOUT, /* of the state's timer: escalate from request to SIGTERM to SIGKILL */
    JOB_EV_KILL,    /* the caller kills the job */
    JOB_EV_ALL_RANKS_DONE,
    JOB_EV_REAPED, /* the engine has killed all processes of the job */
    JOB_EVENTS
};

/* Return the next state, or -1 if the event has no meaning in this state. */
int job_next(enum job_state s, enum job_event ev);
int job_rank_next(enum job_rank_state s, enum job_rank_event ev);

struct job;
struct job *job_new(int ranks);
void job_free(struct job *j);
AUTO_DEFINE(job, struct job *, job_free)

/* Each function returns true if the job has a new state, whose actions are then due. */
bool job_apply(struct job *j, enum job_event ev);
bool job_rank_started(struct job *j, int rank);
/* Applies EXITED, or NOT_STARTED if r->start_status is set. Copies `r` and sets told_to_stop. */
bool job_set_rank_end(struct job *j, const struct rank_end *r);
/* The rank called MPI_Abort(code). It counts as failed, although it still runs. */
bool job_rank_aborted(struct job *j, int rank, int code);
/* The rank exited with status 0 before MPI_Init, in which another rank waits for it now. It counts
 * as failed. */
bool job_rank_absent(struct job *j, int rank);
bool job_rank_eof(struct job *j, int rank);

enum job_state job_state(const struct job *j);
enum job_rank_state job_rank_state(const struct job *j, int rank);
/* Returns how the rank ended; valid once it has. Borrowed. */
const struct rank_end *job_rank_end(const struct job *j, int rank);
/* Returns the rank that failed first by itself; -1: none. */
int job_first_failed(const struct job *j);
/* Returns true if JOB_EV_STOP or JOB_EV_KILL ended the job, not a failure. */
bool job_was_stopped(const struct job *j);
/* Returns the exit status of a job that is done: that of the first failed rank; else, if the job
 * was stopped, that of the lowest rank whose status is not 0; else 0. */
int job_status(const struct job *j);

#endif
