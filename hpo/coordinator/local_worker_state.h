/* local_worker_state - the life cycle of the coordinator's own worker: states, events and the table
 * of transitions. */
#pragma once

#include "common/states.h"

enum local_worker_state {
    LOCAL_WORKER_IDLE,      /* no worker was asked for yet */
    LOCAL_WORKER_ABSENT,    /* no process is watched; a start is due, or comes after a pause */
    LOCAL_WORKER_STARTING,  /* the process of this coordinator has not connected yet */
    LOCAL_WORKER_ATTACHED,  /* the process of an earlier coordinator has not connected yet */
    LOCAL_WORKER_CONNECTED, /* the process has connected */
    LOCAL_WORKER_UNHEARD,   /* it must end, and cannot be told so until it connects */
    LOCAL_WORKER_ENDING,    /* it must end, and was told so or killed */
    LOCAL_WORKER_FAILED,    /* no process can be kept running */
    LOCAL_WORKER_RELEASED,  /* nothing is awaited any more */
    LOCAL_WORKER_STATES
};

enum local_worker_event {
    LOCAL_WORKER_EV_START,      /* a worker is wanted */
    LOCAL_WORKER_EV_SPAWNED,    /* a process was started */
    LOCAL_WORKER_EV_ATTACHED,   /* a process of an earlier coordinator holds the lock */
    LOCAL_WORKER_EV_REATTACHED, /* the same, and it must end */
    LOCAL_WORKER_EV_HELLO,      /* the process has connected */
    LOCAL_WORKER_EV_EXITED,     /* the process has exited */
    LOCAL_WORKER_EV_FAILED,     /* a process cannot be started or watched, or exits at once */
    LOCAL_WORKER_EV_RELEASE,    /* no worker is wanted any more */
    LOCAL_WORKER_EV_SILENT,     /* the process did not connect in time */
    LOCAL_WORKER_EVENTS
};

extern const struct states local_worker_states;
