/* reservation_state - the life cycle of a reservation: states, events and the table of
 * transitions. */
#pragma once

#include "common/states.h"

enum reservation_state {
    RESERVATION_WAITING,  /* has no slot yet */
    RESERVATION_RESERVED, /* has a slot; the trial's launcher has not sent its join ticket yet */
    RESERVATION_JOINED,   /* the agent of the trial's job runs here */
    RESERVATION_IDLE,     /* the agent has ended, the trial has not */
    RESERVATION_REVOKING, /* this worker needs the slot; the coordinator ends the trial first */
    RESERVATION_ENDING,   /* the agent's process tree is being killed */
    RESERVATION_DONE,     /* the slot is free */
    RESERVATION_STATES
};

enum reservation_event {
    RESERVATION_EV_SLOT,        /* a slot was acquired */
    RESERVATION_EV_JOINED,      /* a join ticket arrived and the agent was started */
    RESERVATION_EV_NOT_JOINED,  /* a join ticket arrived and the agent could not be started */
    RESERVATION_EV_AGENT_ENDED, /* the agent has ended */
    RESERVATION_EV_PREEMPT,     /* this worker needs the slot */
    RESERVATION_EV_STOP,        /* the trial has ended, or must end without a grace period */
    RESERVATION_EVENTS
};

extern const struct states reservation_states;
