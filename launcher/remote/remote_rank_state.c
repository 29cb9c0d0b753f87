#include "launcher/remote/remote_rank_state.h"

#define ROW(s, ev, to)                                                         \
    [REMOTE_RANK_##s][REMOTE_RANK_EV_##ev] = REMOTE_RANK_##to + 1 /* 0: no row \
                                                                   */

/* A connection that ends before the start does not change the state of its rank. Instead, the start
 * of the whole job fails, and every rank then gets NOT_STARTED. LOST is applied when the reap limit
 * is reached, or when a connection has ended. */
static const unsigned char table[REMOTE_RANK_STATES][REMOTE_RANK_EVENTS] = {
    ROW(EXPECTED, HELLO, CONNECTED),       /* the rank spec may wait for the topology */
    ROW(EXPECTED, NOT_STARTED, DONE),      /* the start failed before its agent connected */
    ROW(EXPECTED, LOST, DONE),             /* the reap limit is reached */
    ROW(CONNECTED, CONFIGURE, CONFIGURED), /* the rank is ready */
    ROW(CONNECTED, NOT_STARTED, DONE),     /* the start failed */
    ROW(CONNECTED, LOST, DONE),            /* the reap limit is reached */
    ROW(CONFIGURED, START, STARTED),       /* `start` is sent to the agent */
    ROW(CONFIGURED, NOT_STARTED, DONE),    /* the start failed */
    ROW(CONFIGURED, LOST, DONE),           /* the reap limit is reached */
    ROW(STARTED, NOT_STARTED, DONE),       /* its program could not be executed */
    ROW(STARTED, EXITED, DONE),            /* the usual end */
    ROW(STARTED, DISCONNECTED, LOSING),    /* other connections of the node may end, too */
    ROW(STARTED, LOST, DONE),              /* the reap limit is reached */
    ROW(LOSING, LOST, DONE),               /* reap limit, or LOST_MS have passed */
};

int remote_rank_next(enum remote_rank_state s, enum remote_rank_event ev)
{
    return table[s][ev] - 1;
}

const char *remote_rank_state_name(enum remote_rank_state s)
{
    static const char *const names[REMOTE_RANK_STATES] = {
        [REMOTE_RANK_EXPECTED] = "expected",     [REMOTE_RANK_CONNECTED] = "connected",
        [REMOTE_RANK_CONFIGURED] = "configured", [REMOTE_RANK_STARTED] = "started",
        [REMOTE_RANK_LOSING] = "losing",         [REMOTE_RANK_DONE] = "done",
    };
    return names[s];
}
