#include "launcher/remote/remote_node_state.h"

/* A connection that ends before the start also fails the start of the whole job. REAPED answers
 * `kill_tree`, which may come in every state of a connected agent. */
#define ROW(...) STATES_ROW(REMOTE_NODE, __VA_ARGS__)
static const struct states_row rows[] = {
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

const struct states remote_node_states = STATES_TABLE(rows);

bool remote_node_is_reaped(enum remote_node_state s)
{
    return s == REMOTE_NODE_REAPED || s == REMOTE_NODE_GONE;
}

bool remote_node_has_agent(enum remote_node_state s)
{
    return s != REMOTE_NODE_EXPECTED && s != REMOTE_NODE_GONE;
}
