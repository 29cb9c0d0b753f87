/* run_session_state - the states of a run session, as a table.
 *
 * Pure. A guard is part of the event: the caller decides, for example, if a restart is due, before
 * it looks up the next state. Facts that do not depend on the state (the exit status, the signal
 * and the other causes that stopped the job) are fields of the session. */
#pragma once

#include "common/states.h"

enum run_session_state {
    RUN_SESSION_STARTING,      /* the first attempt is being started; no event of the loop yet */
    RUN_SESSION_RUNNING,       /* the job runs, and nothing has stopped it */
    RUN_SESSION_STOPPING,      /* the job was told to stop; its end is awaited */
    RUN_SESSION_BACKOFF,       /* the job ended; the restart timer runs */
    RUN_SESSION_WAITING_PEERS, /* no ranks run on this node; the rendezvous decides what follows */
    RUN_SESSION_FLUSHING,      /* no attempt follows; the rest of the output is being written */
    RUN_SESSION_DONE,          /* the loop ends, and drover exits */
    RUN_SESSION_STATES
};

enum run_session_event {
    RUN_SESSION_EV_STARTED,       /* an attempt was started */
    RUN_SESSION_EV_NOT_STARTED,   /* an attempt could not be started */
    RUN_SESSION_EV_RENDEZVOUS,    /* elastic: the rendezvous was opened, or is joined again */
    RUN_SESSION_EV_SIGNAL,        /* INT, QUIT, TERM or HUP, the first one */
    RUN_SESSION_EV_SIGNAL_AGAIN,  /* one of these signals after the first one */
    RUN_SESSION_EV_SUSPEND,       /* TSTP */
    RUN_SESSION_EV_FORWARD,       /* USR1, USR2 or CONT, which is forwarded to the ranks */
    RUN_SESSION_EV_STOP,          /* a feature stops the job: a limit, a hang */
    RUN_SESSION_EV_OUTPUT_CLOSED, /* the reader of the output has closed it (EPIPE) */
    RUN_SESSION_EV_PEERS_STOP,    /* elastic: a peer failed or joined, or the rendezvous is lost */
    RUN_SESSION_EV_ENDED_RESTART, /* the job ended, and a restart is due */
    RUN_SESSION_EV_ENDED_PEERS,   /* elastic: the job ended; the peers decide what follows */
    RUN_SESSION_EV_ENDED_LAST,    /* the job ended, and no attempt follows */
    RUN_SESSION_EV_PEERS_RESTART, /* elastic: a peer failed after the ranks here ended; restart */
    RUN_SESSION_EV_PEERS_LAST,    /* elastic: a peer failed after the ranks here ended; no attempt
                                     follows */
    RUN_SESSION_EV_RENDEZVOUS_OVER, /* elastic: the rendezvous has ended, well or not */
    RUN_SESSION_EV_FLUSHED,         /* all output was written, or its reader has closed it */
    RUN_SESSION_EVENTS
};

extern const struct states run_session_states;
