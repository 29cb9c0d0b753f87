/* job - the states of a job and of its ranks; what an exit means, which failure was the first, and
 * what status the whole has.
 *
 * Pure: events go in, and the job's new state says what is to be done. Two tables in job.c are the
 * whole of it; an event that means nothing in the present state changes nothing. */
#ifndef DROVER_JOB_H
#define DROVER_JOB_H

#include <stdbool.h>

#include "common/mem.h"

/* How a rank ended. */
struct rank_end {
    int rank;
    int pid;    /* of its process; 0: not known */
    int status; /* exit status; -1 where a signal ended it or it never started */
    int signal; /* 0 where it exited */
    bool core_dumped;
    bool oom_killed;   /* the kernel ended it for memory */
    bool aborted;      /* it called MPI_Abort(status) */
    bool told_to_stop; /* it ended after it had been told to: no failure of its own */
    double seconds;    /* from the job's start to its end */
    int start_status;  /* 127: its program was not found, 126: not started for another reason, 2:
                          what the user has named is wrong; 0: it was started */
    char start_error[256]; /* why not ("exec './train': Permission denied") */
    bool lost;             /* nobody can say how it ended: lost_how, and status is 1 */
    char lost_how[256];    /* "c03 was silent for 15 s" */
};

/* What waitpid() gave, in `r`'s status, signal and core_dumped. */
void job_read_wait(struct rank_end *r, int wait_status);

/* What a shell would say of it: the status, 128+n, 126 or 127. */
int job_rank_status(const struct rank_end *r);

enum job_rank_state {
    JOB_RANK_STARTING,     /* asked for */
    JOB_RANK_STARTING_EOF, /* its output has ended already: the news of its start is on the way */
    JOB_RANK_RUNNING,
    JOB_RANK_RUNNING_EOF, /* its output has ended, it has not */
    JOB_RANK_DRAINING,    /* it has ended, its output has not */
    JOB_RANK_DONE,
    JOB_RANK_STATES
};

enum job_rank_event {
    JOB_RANK_EV_STARTED,
    JOB_RANK_EV_NOT_STARTED,
    JOB_RANK_EV_EXITED,
    JOB_RANK_EV_EOF, /* both its outputs are at their end, or were given up */
    JOB_RANK_EVENTS
};

enum job_state {
    JOB_RUNNING,
    JOB_STOP_REQUESTED, /* the ranks were asked to stop, by report channel */
    JOB_TERMINATING,    /* SIGTERM was sent */
    JOB_KILLING,        /* SIGKILL was sent */
    JOB_REAPING,        /* every rank is over; what they left behind is being ended */
    JOB_DONE,
    JOB_STATES
};

enum job_event {
    JOB_EV_FAILED,  /* a rank failed */
    JOB_EV_STOP,    /* the user of the job wants its end */
    JOB_EV_TIMEOUT, /* of this state: ask -> SIGTERM -> SIGKILL */
    JOB_EV_KILL,
    JOB_EV_ALL_RANKS_DONE,
    JOB_EV_REAPED,
    JOB_EVENTS
};

/* The next state, or -1 where the event means nothing. */
int job_next(enum job_state s, enum job_event ev);
int job_rank_next(enum job_rank_state s, enum job_rank_event ev);

struct job;
struct job *job_new(int ranks);
void job_free(struct job *j);
AUTO_DEFINE(job, struct job *, job_free)

/* Each returns true when the job has come to a new state, whose effects are then due. */
bool job_apply(struct job *j, enum job_event ev);
bool job_rank_started(struct job *j, int rank);
/* EXITED, or NOT_STARTED where r->start_status says so. Copies `r`; told_to_stop is set here. */
bool job_set_rank_end(struct job *j, const struct rank_end *r);
/* It called MPI_Abort(code): it has failed, and its end is only a matter of time. */
bool job_rank_aborted(struct job *j, int rank, int code);
bool job_rank_eof(struct job *j, int rank);

enum job_state job_state(const struct job *j);
enum job_rank_state job_rank_state(const struct job *j, int rank);
/* How it ended. Means something once it has. Borrowed. */
const struct rank_end *job_rank_end(const struct job *j, int rank);
/* The rank that failed first by itself; -1: none did. */
int job_first_failed(const struct job *j);
/* JOB_EV_STOP or JOB_EV_KILL ended it, not a failure. */
bool job_was_stopped(const struct job *j);
/* Once it is over: the first failure's; where it was stopped, that of the lowest rank that did not
 * end with 0; else 0. */
int job_status(const struct job *j);

#endif
