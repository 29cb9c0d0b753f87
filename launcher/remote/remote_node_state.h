/* remote_node_state - the life cycle of a node of a job, as the launcher sees it, as a table.
 *
 * Pure. A node has one agent, which runs all ranks of the node (remote_rank_state.h). */
#pragma once

#include <stdbool.h>

#include "common/states.h"

enum remote_node_state {
    REMOTE_NODE_EXPECTED,   /* its agent has not connected */
    REMOTE_NODE_CONNECTED,  /* its agent's hello was accepted, and its topology is requested */
    REMOTE_NODE_CONFIGURED, /* its topology is known, and its agent has the node spec */
    REMOTE_NODE_READY,      /* its agent can start the ranks */
    REMOTE_NODE_STARTED,    /* its agent was told to start the ranks */
    REMOTE_NODE_REAPED,     /* its agent reports that no process of its ranks is left */
    REMOTE_NODE_GONE,       /* it has no agent: the connection ended, or no agent came */
    REMOTE_NODE_STATES
};

enum remote_node_event {
    REMOTE_NODE_EV_HELLO,     /* the agent has authenticated */
    REMOTE_NODE_EV_CONFIGURE, /* the topology is known: the node spec is sent */
    REMOTE_NODE_EV_READY,     /* the agent's frame `ready` */
    REMOTE_NODE_EV_START,     /* the job starts */
    REMOTE_NODE_EV_REAPED,    /* the agent's frame `reaped` */
    REMOTE_NODE_EV_GONE, /* the connection ended, no agent is awaited any more, or processes do not
                            end within the reap limit */
    REMOTE_NODE_EVENTS
};

extern const struct states remote_node_states;

/* Returns true if no process of the node's ranks is left, or no agent can report it any more. */
bool remote_node_is_reaped(enum remote_node_state s);

/* Returns true if the node's agent has said hello, and its connection has not ended. */
bool remote_node_has_agent(enum remote_node_state s);
