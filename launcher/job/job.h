/* job - the states of a job and of its ranks: what an exit means, which failure was the first, and
 * the exit status of the job.
 *
 * Pure. The caller passes events; the new state of the job says which actions are due. job.c has
 * one table of states for the job and one for a rank. An event changes nothing if the table has no
 * row for it in the present state. */
#pragma once

#include <stdbool.h>

#include "common/mem.h"
#include "common/states.h"

/* The MPI call that a rank has omitted although it exited with status 0. Other ranks may wait for
 * this call forever. */
enum job_mpi_fault {
    JOB_MPI_NO_FAULT,
    JOB_MPI_NO_INIT,    /* the rank has not called MPI_Init, but another rank has */
    JOB_MPI_NO_FINALIZE /* the rank has called MPI_Init, but not MPI_Finalize */
};

/* How a rank ended. */
struct rank_end {
    int rank;
    int pid;    /* process id of the rank; 0: unknown */
    int status; /* exit status; -1: a signal ended it, or it was not started */
    int signal; /* the signal that ended the rank; 0: the rank exited */
    bool core_dumped;
    bool oom_killed;   /* the kernel killed it because memory ran out */
    bool aborted;      /* it called MPI_Abort(status) */
    bool told_to_stop; /* the rank ended after it was told to stop, so it did not fail by itself */
    enum job_mpi_fault mpi_fault; /* if set, the rank exited with status 0, but `status` is 1 */
    bool in_mpi;      /* it exited between MPI_Init and MPI_Finalize, so others may wait for it */
    double seconds;   /* from the job's start to its end */
    int start_status; /* 0: the rank was started; 127: its program was not found; 2: an option or a
                         file of the user is wrong; 126: not started for another reason */
    char start_error[800]; /* why it was not started ("exec './train': Permission denied") */
    bool start_node_fault; /* its node could not start it: its program is not the cause */
    bool lost; /* true if it is unknown how the rank ended; lost_how says why, and status is 1 */
    char lost_how[256]; /* "c03 was silent for 15 s" */
};

/* Sets status, signal and core_dumped of `r` from a status of waitpid(). */
void job_read_wait(struct rank_end *r, int wait_status);

/* Returns "without MPI_Init" or "without MPI_Finalize"; NULL: no fault. */
const char *job_mpi_fault_text(enum job_mpi_fault fault);

/* Returns the rank's exit status as a shell reports it: the status, 128 + signal, 126 or 127. */
int job_rank_status(const struct rank_end *r);

/* What is known of a rank when another one has failed. */
struct job_witness {
    const struct rank_end *end; /* NULL: it has not ended */
    const char *const *lines; /* the last lines of its stdout, then of its stderr, NULL-terminated,
                                 that it printed before it was told to stop; NULL: none */
    const char *error;        /* text of its TORCHELASTIC_ERROR_FILE; NULL: none */
};

enum job_rank_state {
    JOB_RANK_STARTING,     /* requested from the engine */
    JOB_RANK_STARTING_EOF, /* its output has ended, and its start is not reported yet */
    JOB_RANK_RUNNING,      /* its process runs */
    JOB_RANK_RUNNING_EOF,  /* its output has ended; its process still runs */
    JOB_RANK_DRAINING,     /* its process has exited; its output has not ended */
    JOB_RANK_DONE,         /* its process and its output have ended, or the rank was not started */
    JOB_RANK_STATES
};

enum job_rank_event {
    JOB_RANK_EV_STARTED,
    JOB_RANK_EV_NOT_STARTED,
    JOB_RANK_EV_EXITED,
    JOB_RANK_EV_OUTPUT_ENDED, /* both output streams have ended, or the drain timer has closed them
                               */
    JOB_RANK_EVENTS
};

enum job_state {
    JOB_RUNNING,        /* from the start until the first failure, a stop, or the last exit */
    JOB_LISTENING,      /* a rank failed; the others have a moment in which they may fail, too */
    JOB_STOP_REQUESTED, /* the ranks were asked to stop on their report channels */
    JOB_TERMINATING,    /* SIGTERM was sent */
    JOB_KILLING,        /* SIGKILL was sent */
    JOB_REAPING,        /* every rank is done; processes that they left are killed */
    JOB_DONE,           /* no process of the job is left */
    JOB_STATES
};

enum job_event {
    JOB_EV_FAILED,        /* a rank failed */
    JOB_EV_FAILED_LISTEN, /* the same, and another one may be the cause */
    JOB_EV_STOP,          /* the caller stops the job */
    JOB_EV_TIMEOUT, /* the state's timer fired: the moment is over, or escalate from stop request
                       to SIGTERM to SIGKILL */
    JOB_EV_KILL,    /* the caller kills the job */
    JOB_EV_ALL_RANKS_DONE,
    JOB_EV_REAPED, /* the engine has killed all processes of the job */
    JOB_EVENTS
};

extern const struct states job_states;
extern const struct states job_rank_states;

struct job_rank {
    enum job_rank_state state;
    struct rank_end end; /* valid only after the rank has ended */
    int abort_code;
    bool aborted;
};

/* Others only read these. */
struct job {
    struct job_rank *ranks;
    int count, done;
    enum job_state state;
    int first_failed; /* the rank that failed first by itself; -1: none did */
    bool stopped;     /* JOB_EV_STOP or JOB_EV_KILL ended the job, not a failure */
    bool listens;     /* set by the caller: a first failure that may have followed from another one
                         leads     to JOB_LISTENING */
    bool keeps_going; /* set by the caller: an exit with a status other than 0 does not end it */
};

struct job *job_new(int ranks);
void job_free(struct job *j);
AUTO_DEFINE(job, struct job *, job_free)

/* Each of these functions returns true if the job has a new state. The actions of that state are
 * then due. */
bool job_apply(struct job *j, enum job_event ev);
bool job_rank_apply(struct job *j, int rank, enum job_rank_event ev);
/* Applies the event NOT_STARTED if r->start_status is set, else EXITED. Copies `r` and sets
 * told_to_stop in the copy. */
bool job_set_rank_end(struct job *j, const struct rank_end *r);
/* Records that the rank called MPI_Abort(code). The rank counts as failed, although it still
 * runs. */
bool job_rank_aborted(struct job *j, int rank, int code);
/* Records that the rank is absent: it exited with status 0 before MPI_Init, in which another rank
 * now waits. The absent rank counts as failed. */
bool job_rank_absent(struct job *j, int rank);

/* Returns the exit status of a job that is done. This is the status of the first failed rank. If no
 * rank failed by itself and the job was stopped, it is the status of the lowest rank that has a
 * status other than 0. Otherwise it is 0. */
int job_status(const struct job *j);
