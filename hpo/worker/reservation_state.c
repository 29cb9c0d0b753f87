#include "hpo/worker/reservation_state.h"

#define ROW(...) STATES_ROW(RESERVATION, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(WAITING, SLOT, RESERVED),
    ROW(WAITING, PREEMPT, DONE),
    ROW(WAITING, STOP, DONE),
    ROW(RESERVED, JOINED, JOINED),
    /* The trial's launcher notices that the agent is missing. */
    ROW(RESERVED, NOT_JOINED, RESERVED),
    ROW(RESERVED, PREEMPT, DONE),
    ROW(RESERVED, STOP, DONE),
    ROW(JOINED, AGENT_ENDED, IDLE),
    ROW(JOINED, PREEMPT, REVOKING),
    ROW(JOINED, STOP, ENDING),
    ROW(IDLE, PREEMPT, DONE),
    ROW(IDLE, STOP, DONE),
    ROW(REVOKING, STOP, ENDING),
    ROW(REVOKING, AGENT_ENDED, DONE),
    ROW(ENDING, AGENT_ENDED, DONE),
};

const struct states reservation_states = STATES_TABLE(rows);
