/* elastic_state - the states of one node of an elastic job, from the view of its own launcher, as a
 * table.
 *
 * Pure. Conditions are part of the events: why a peer stops the job, and if a restart is due. */
#pragma once

#include "common/states.h"

enum elastic_state {
    ELASTIC_WAITING,        /* has joined or will join an attempt; no ranks run on this node */
    ELASTIC_RUNNING,        /* ranks run on this node */
    ELASTIC_SUCCEEDED,      /* the ranks here succeeded; the end of the peers' ranks is awaited */
    ELASTIC_FAILED,         /* the ranks here failed; an attempt follows */
    ELASTIC_FAILED_LEAVING, /* the same, and no attempt follows; the server must confirm first */
    ELASTIC_STOPPING,       /* the ranks here are stopped because of a peer */
    ELASTIC_LOST,           /* the rendezvous has ended or cannot be reached */
    ELASTIC_STATES
};

enum elastic_event {
    ELASTIC_EV_ASSIGNED,          /* the server assigns a position in an attempt */
    ELASTIC_EV_STOP,              /* the server stops the attempt: a peer failed, left or joined */
    ELASTIC_EV_STOP_LAST,         /* a node joined, but the user has stopped the ranks here */
    ELASTIC_EV_JOB_DONE,          /* all ranks of all nodes succeeded */
    ELASTIC_EV_LOST,              /* no connection to the server, or the server rejects the node */
    ELASTIC_EV_JOIN,              /* the session wants the next attempt */
    ELASTIC_EV_RANKS_SUCCEEDED,   /* the ranks here ended, all with status 0 */
    ELASTIC_EV_RANKS_FAILED,      /* the ranks here ended, and some failed; a restart is due */
    ELASTIC_EV_RANKS_FAILED_LAST, /* the ranks here ended, and some failed; no restart is due */
    ELASTIC_EVENTS
};

extern const struct states elastic_states;
