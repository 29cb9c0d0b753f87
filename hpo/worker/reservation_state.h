/* reservation_state - the life cycle of a reservation: states, events and the table of
 * transitions. */
#ifndef DROVER_RESERVATION_STATE_H
#define DROVER_RESERVATION_STATE_H

enum reservation_state {
    RESERVATION_WAITING,  /* has no slot yet */
    RESERVATION_RESERVED, /* has a slot; the trial's launcher has not sent its join ticket yet */
    RESERVATION_JOINED,   /* agents of the trial's job run here */
    RESERVATION_IDLE,     /* the agents have ended, the trial has not */
    RESERVATION_REVOKING, /* this worker needs the slot; the coordinator ends the trial first */
    RESERVATION_ENDING,   /* the agents' process trees are being killed */
    RESERVATION_DONE,     /* the slot is free */
    RESERVATION_STATES
};

enum reservation_event {
    RESERVATION_EV_SLOT,         /* a slot was acquired */
    RESERVATION_EV_JOINED,       /* a join ticket arrived and the agents were started */
    RESERVATION_EV_NOT_JOINED,   /* a join ticket arrived and the agents could not be started */
    RESERVATION_EV_AGENTS_ENDED, /* all agents have ended */
    RESERVATION_EV_PREEMPT,      /* this worker needs the slot */
    RESERVATION_EV_STOP,         /* the trial has ended, or must end without a grace period */
    RESERVATION_EVENTS
};

/* Returns the next state, or -1 if the event has no meaning in this state. */
int reservation_next(enum reservation_state s, enum reservation_event ev);

/* For the log. */
const char *reservation_state_name(enum reservation_state s);

#endif
