/* trial_run_state - the life cycle of a trial run: states, events and the table of transitions. */
#pragma once

#include "common/states.h"

enum trial_run_state {
    TRIAL_RUN_WAITING,           /* has no slot yet */
    TRIAL_RUN_PREPARING,         /* a thread copies the checkpoint that the run starts from */
    TRIAL_RUN_PREPARING_STOPPED, /* the same, and the run was stopped: its job will not start */
    TRIAL_RUN_RUNNING,           /* the job runs */
    TRIAL_RUN_STOPPING,          /* the job was told to stop, or is being killed */
    TRIAL_RUN_DRAINING,          /* the job has ended; the agent of this node has not */
    TRIAL_RUN_DONE,              /* the slot is free and the result is in the outbox */
    TRIAL_RUN_STATES
};

enum trial_run_event {
    TRIAL_RUN_EV_COPY,                 /* a slot was acquired, and a checkpoint must be copied */
    TRIAL_RUN_EV_LAUNCHED,             /* the job has started */
    TRIAL_RUN_EV_NOT_STARTED,          /* the job cannot start, or no longer needs to */
    TRIAL_RUN_EV_STOP,                 /* the run must end, with a grace period */
    TRIAL_RUN_EV_KILL,                 /* the run must end without a grace period */
    TRIAL_RUN_EV_JOB_ENDED,            /* the job has ended, and no agent of this node is left */
    TRIAL_RUN_EV_JOB_ENDED_AGENT_LEFT, /* the job has ended, but this node's agent still runs */
    TRIAL_RUN_EV_AGENT_ENDED,          /* the agent of this node has ended */
    TRIAL_RUN_EVENTS
};

extern const struct states trial_run_states;
