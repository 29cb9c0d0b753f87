/* remote_rank_state - the life cycle of a rank that an agent runs, as a table.
 *
 * Pure. The state does not show if the rank's process tree is reaped or if its output has ended:
 * struct remote_rank has separate fields for this (engine_remote_internal.h). */
#ifndef DROVER_REMOTE_RANK_STATE_H
#define DROVER_REMOTE_RANK_STATE_H

enum remote_rank_state {
    REMOTE_RANK_EXPECTED,   /* its agent has not connected */
    REMOTE_RANK_CONNECTED,  /* its agent's hello was accepted; it has no rank spec */
    REMOTE_RANK_CONFIGURED, /* its agent has the rank spec */
    REMOTE_RANK_STARTED,    /* its agent was told to start the rank */
    REMOTE_RANK_LOSING, /* its agent's connection ended while the rank ran; for a moment the rank is
                           not lost yet */
    REMOTE_RANK_DONE,   /* exited, lost or not started, and reported */
    REMOTE_RANK_STATES
};

enum remote_rank_event {
    REMOTE_RANK_EV_HELLO,        /* the agent has authenticated */
    REMOTE_RANK_EV_CONFIGURE,    /* its node's topology is known: the rank spec is sent */
    REMOTE_RANK_EV_START,        /* the job starts */
    REMOTE_RANK_EV_NOT_STARTED,  /* the job's start failed, or the agent could not start the rank */
    REMOTE_RANK_EV_EXITED,       /* the agent reports the rank's exit */
    REMOTE_RANK_EV_DISCONNECTED, /* the agent's connection ended */
    REMOTE_RANK_EV_LOST, /* the rank counts as lost: its connection has ended, or the reap limit is
                            reached */
    REMOTE_RANK_EVENTS
};

/* Returns the next state, or -1 if the event has no meaning in this state. */
int remote_rank_next(enum remote_rank_state s, enum remote_rank_event ev);

/* Returns a lower-case name for the log. */
const char *remote_rank_state_name(enum remote_rank_state s);

#endif
