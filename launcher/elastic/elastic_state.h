/* elastic_state - the states of a node of an elastic job, as its own launcher sees them, as a
 * table.
 *
 * Pure. A guard is part of the event: why a peer stops the job, or if a restart is due. */
#ifndef DROVER_ELASTIC_STATE_H
#define DROVER_ELASTIC_STATE_H

enum elastic_state {
    ELASTIC_WAITING,        /* joined, or about to join; no ranks run here */
    ELASTIC_RUNNING,        /* ranks run here */
    ELASTIC_SUCCEEDED,      /* the ranks here ended well; those of the peers are awaited */
    ELASTIC_FAILED,         /* the ranks here failed; an attempt follows */
    ELASTIC_FAILED_LEAVING, /* the same, and no attempt follows; the server must confirm first */
    ELASTIC_STOPPING,       /* the ranks here are stopped because of a peer */
    ELASTIC_LOST,           /* the rendezvous has ended or cannot be reached */
    ELASTIC_STATES
};

enum elastic_event {
    ELASTIC_EV_ASSIGNED,          /* the server assigns a position in an attempt */
    ELASTIC_EV_STOP_FAILED,       /* the server stops the attempt: a peer failed or left */
    ELASTIC_EV_STOP_JOINED,       /* the same: a node joined */
    ELASTIC_EV_STOP_JOINED_LAST,  /* the same, and the user has stopped the ranks here */
    ELASTIC_EV_JOB_DONE,          /* all ranks of all nodes ended well */
    ELASTIC_EV_LOST,              /* no connection to the server, or the server rejects the node */
    ELASTIC_EV_JOIN,              /* the session wants the next attempt */
    ELASTIC_EV_RANKS_SUCCEEDED,   /* the ranks here ended, all with status 0 */
    ELASTIC_EV_RANKS_FAILED,      /* the ranks here ended, not all well; a restart is due */
    ELASTIC_EV_RANKS_FAILED_LAST, /* the same, without a restart */
    ELASTIC_EVENTS
};

/* Returns the next state, or -1 if the event has no meaning in this state. */
int elastic_next(enum elastic_state s, enum elastic_event ev);

/* Returns "RUNNING", for the log. */
const char *elastic_state_name(enum elastic_state s);

#endif
