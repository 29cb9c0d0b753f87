/* remote_job_state - the life cycle of a job whose ranks agents run, as a table.
 *
 * Pure: the table knows no connection, timer or clock. The owner of the loop (engine_remote.c)
 * looks up the next state and then carries out what the new state requires. */
#pragma once

#include <stdbool.h>

#include "common/states.h"

enum remote_job_state {
    REMOTE_JOB_NEW,           /* the start has not decided yet if names must be resolved */
    REMOTE_JOB_RESOLVING,     /* the names of the other nodes are being looked up */
    REMOTE_JOB_MEETING,       /* agents connect and prepare the start */
    REMOTE_JOB_START_FAILING, /* the start failed; the ranks are reported on the loop's next turn */
    REMOTE_JOB_ABORTING,      /* the same, but the job was killed, and the agents kill their process
                                 trees */
    REMOTE_JOB_START_FAILED,  /* every rank was reported as not started */
    REMOTE_JOB_RUNNING,       /* every agent was told to start its ranks */
    REMOTE_JOB_REAPING,       /* agents kill their process trees; some trees are not reaped yet */
    REMOTE_JOB_RELEASING,     /* agents exit; the exit of the remote launcher is awaited */
    REMOTE_JOB_DONE,          /* no process of the job is left, and the engine's user was told so */
    REMOTE_JOB_STATES
};

enum remote_job_event {
    REMOTE_JOB_EV_RESOLVE,      /* the start needs addresses of other nodes */
    REMOTE_JOB_EV_MEET,         /* the start needs no address: the agents can connect */
    REMOTE_JOB_EV_RESOLVED,     /* the lookup of every name has ended, with or without an address */
    REMOTE_JOB_EV_START_FAILED, /* the first reason why the job cannot start */
    REMOTE_JOB_EV_ALL_READY,    /* every agent is ready, and MASTER_PORT is chosen */
    REMOTE_JOB_EV_NEXT_TURN,    /* the loop's next turn, on which a failed start is reported */
    REMOTE_JOB_EV_KILL_TREE,    /* the engine's user wants the process trees killed */
    REMOTE_JOB_EV_REAPED,       /* every node is reaped, and the remote launcher still runs */
    REMOTE_JOB_EV_REAPED_ALL,   /* every node is reaped, and no remote launcher is left */
    REMOTE_JOB_EV_LAUNCHER_REAPED, /* no process of the remote launcher is left */
    REMOTE_JOB_EVENTS
};

extern const struct states remote_job_states;

/* Returns true while the job is being started: it waits for names or agents. */
bool remote_job_is_starting(enum remote_job_state s);
