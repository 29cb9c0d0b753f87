#include "launcher/remote/remote_rank_state.h"

/* A connection that ends before the start does not change the state of its node's ranks. Instead,
 * the start of the whole job fails, and every rank then gets NOT_STARTED. */
#define ROW(...) STATES_ROW(REMOTE_RANK, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(WAITING, START, STARTED),    /* `start` is sent to the agent */
    ROW(WAITING, NOT_STARTED, DONE), /* the start failed */
    ROW(STARTED, NOT_STARTED, DONE), /* its program could not be executed */
    ROW(STARTED, EXITED, DONE),      /* the usual end */
    ROW(STARTED, LOST, DONE),        /* its node is lost, or its processes do not end */
};

const struct states remote_rank_states = STATES_TABLE(rows);
