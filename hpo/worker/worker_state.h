/* worker_state - two life cycles of a worker, each with its table of transitions: its slots, and
 * the worker itself. */
#pragma once

#include "common/states.h"

enum worker_slots_state {
    WORKER_SLOTS_UNCONFIGURED, /* the coordinator has not sent the requirements of a trial yet */
    WORKER_SLOTS_PROBING,      /* the node is divided; the first scan of its GPUs runs */
    WORKER_SLOTS_OPEN,         /* slots are given to leases */
    WORKER_SLOTS_STATES
};

enum worker_slots_event {
    WORKER_SLOTS_EV_DIVIDED,      /* requirements arrived; the node was divided and has no GPUs */
    WORKER_SLOTS_EV_DIVIDED_GPUS, /* the same, and the node has GPUs */
    WORKER_SLOTS_EV_UNFIT,        /* requirements arrived, and no trial fits on the node */
    WORKER_SLOTS_EV_SCANNED,      /* a scan of the GPUs has succeeded or failed */
    WORKER_SLOTS_EVENTS
};

enum worker_state {
    WORKER_SERVING,      /* accepts leases */
    WORKER_LEAVING_IDLE, /* was idle for too long; awaits the coordinator's answer to its ping */
    WORKER_FINISHING,    /* accepts nothing new; what runs may finish */
    WORKER_STOPPING,     /* accepts nothing new; what runs was told to stop */
    WORKER_ABANDONED,    /* the same; no acknowledgement is awaited */
    WORKER_DONE,         /* the loop ends */
    WORKER_STATES
};

enum worker_event {
    WORKER_EV_IDLE,          /* no lease for the idle limit */
    WORKER_EV_PONG,          /* the coordinator answered a ping; no lease is left */
    WORKER_EV_PONG_LEASED,   /* the coordinator answered a ping; there are leases */
    WORKER_EV_SIGNAL,        /* a request to stop (stop_signals.h) */
    WORKER_EV_SIGNAL_FINISH, /* the same, with the option that running trials may finish */
    WORKER_EV_DRAIN,         /* the coordinator told the worker to end */
    WORKER_EV_FAILED,        /* trials cannot run on this node */
    WORKER_EV_SILENT,        /* the coordinator was silent for too long */
    WORKER_EV_REJECTED,      /* the coordinator rejects the key, or has another version */
    WORKER_EV_KILL_LIMIT,    /* trials did not end in the grace period of a signal */
    WORKER_EV_ALL_RELEASED,  /* no lease is left: every result was acknowledged */
    WORKER_EV_ALL_DONE,      /* every lease is done; results are not acknowledged */
    WORKER_EVENTS
};

extern const struct states worker_slots_states;
extern const struct states worker_states;
