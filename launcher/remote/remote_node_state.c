#include "launcher/remote/remote_node_state.h"

/* A table has 0 where no row is. */
#define ROW(s, ev, to) [REMOTE_NODE_##s][REMOTE_NODE_EV_##ev] = REMOTE_NODE_##to + 1

/* A connection that ends before the start also fails the start of the whole job. REAPED answers
 * `kill_tree`, which may come in every state of a connected agent. */
static const unsigned char table[REMOTE_NODE_STATES][REMOTE_NODE_EVENTS] = {
    ROW(EXPECTED, HELLO, CONNECTED),       /* the topology is requested */
    ROW(EXPECTED, GONE, GONE),             /* the job ends before the agent has connected */
    ROW(CONNECTED, CONFIGURE, CONFIGURED), /* the topology is known */
    ROW(CONNECTED, REAPED, REAPED),        /* the start failed */
    ROW(CONNECTED, GONE, GONE),            /* the start fails */
    ROW(CONFIGURED, READY, READY),         /* the agent can start its ranks */
    ROW(CONFIGURED, REAPED, REAPED),       /* the start failed */
    ROW(CONFIGURED, GONE, GONE),           /* the start fails */
    ROW(READY, START, STARTED),            /* `start` is sent to the agent */
    ROW(READY, REAPED, REAPED),            /* the start failed */
    ROW(READY, GONE, GONE),                /* the start fails */
    ROW(STARTED, REAPED, REAPED),          /* the usual end */
    ROW(STARTED, GONE, GONE),              /* the ranks are lost */
    ROW(REAPED, GONE, GONE),               /* the agent has exited */
};

int remote_node_next(enum remote_node_state s, enum remote_node_event ev)
{
    return table[s][ev] - 1;
}

bool remote_node_is_reaped(enum remote_node_state s)
{
    return s == REMOTE_NODE_REAPED || s == REMOTE_NODE_GONE;
}

bool remote_node_has_agent(enum remote_node_state s)
{
    return s != REMOTE_NODE_EXPECTED && s != REMOTE_NODE_GONE;
}

const char *remote_node_state_name(enum remote_node_state s)
{
    static const char *const names[REMOTE_NODE_STATES] = {
        [REMOTE_NODE_EXPECTED] = "expected",
        [REMOTE_NODE_CONNECTED] = "connected",
        [REMOTE_NODE_CONFIGURED] = "configured",
        [REMOTE_NODE_READY] = "ready",
        [REMOTE_NODE_STARTED] = "started",
        [REMOTE_NODE_REAPED] = "reaped",
        [REMOTE_NODE_GONE] = "gone",
    };
    return names[s];
}
