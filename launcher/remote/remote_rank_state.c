#include "launcher/remote/remote_rank_state.h"

/* A table has 0 where no row is. */
#define ROW(s, ev, to) [REMOTE_RANK_##s][REMOTE_RANK_EV_##ev] = REMOTE_RANK_##to + 1

/* A connection that ends before the start does not change the state of its node's ranks. Instead,
 * the start of the whole job fails, and every rank then gets NOT_STARTED. */
static const unsigned char table[REMOTE_RANK_STATES][REMOTE_RANK_EVENTS] = {
    ROW(WAITING, START, STARTED),    /* `start` is sent to the agent */
    ROW(WAITING, NOT_STARTED, DONE), /* the start failed */
    ROW(STARTED, NOT_STARTED, DONE), /* its program could not be executed */
    ROW(STARTED, EXITED, DONE),      /* the usual end */
    ROW(STARTED, LOST, DONE),        /* its node is lost, or its processes do not end */
};

int remote_rank_next(enum remote_rank_state s, enum remote_rank_event ev)
{
    return table[s][ev] - 1;
}

const char *remote_rank_state_name(enum remote_rank_state s)
{
    static const char *const names[REMOTE_RANK_STATES] = {
        [REMOTE_RANK_WAITING] = "waiting",
        [REMOTE_RANK_STARTED] = "started",
        [REMOTE_RANK_DONE] = "done",
    };
    return names[s];
}
