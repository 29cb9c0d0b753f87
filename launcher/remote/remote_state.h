/* remote_state - the life cycles of a job whose ranks agents run, of its nodes and of its ranks,
 * as tables.
 *
 * Pure: the tables know no connection, timer or clock. The owner of the loop (engine_remote.c)
 * looks up the next state and then carries out what the new state requires. A node has one agent,
 * which runs all ranks of the node. The state of a rank does not show if the processes of its node
 * are reaped, or if its output has ended (struct remote_rank). */
#pragma once

#include <stdbool.h>

#include "common/states.h"

enum remote_job_state {
    REMOTE_JOB_NEW,           /* the start has not decided yet if names must be resolved */
    REMOTE_JOB_RESOLVING,     /* the names of the other nodes are being looked up */
    REMOTE_JOB_MEETING,       /* agents connect and prepare the start */
    REMOTE_JOB_START_FAILING, /* the start failed; the ranks are reported on the loop's next turn */
    REMOTE_JOB_ABORTING,      /* the same, but the job was killed, and the agents kill their process
                                 trees */
    REMOTE_JOB_START_FAILED,  /* every rank was reported as not started */
    REMOTE_JOB_RUNNING,       /* every agent was told to start its ranks */
    REMOTE_JOB_REAPING,       /* agents kill their process trees; some trees are not reaped yet */
    REMOTE_JOB_RELEASING,     /* agents exit; the exit of the remote launcher is awaited */
    REMOTE_JOB_DONE,          /* no process of the job is left, and the engine's user was told so */
    REMOTE_JOB_STATES
};

enum remote_job_event {
    REMOTE_JOB_EV_RESOLVE,      /* the start needs addresses of other nodes */
    REMOTE_JOB_EV_MEET,         /* the start needs no address: the agents can connect */
    REMOTE_JOB_EV_RESOLVED,     /* the lookup of every name has ended, with or without an address */
    REMOTE_JOB_EV_START_FAILED, /* the first reason why the job cannot start */
    REMOTE_JOB_EV_ALL_READY,    /* every agent is ready, and MASTER_PORT is chosen */
    REMOTE_JOB_EV_NEXT_TURN,    /* the loop's next turn, on which a failed start is reported */
    REMOTE_JOB_EV_KILL_TREE,    /* the engine's user wants the process trees killed */
    REMOTE_JOB_EV_REAPED,       /* every node is reaped, and the remote launcher still runs */
    REMOTE_JOB_EV_REAPED_ALL,   /* every node is reaped, and no remote launcher is left */
    REMOTE_JOB_EV_LAUNCHER_REAPED, /* no process of the remote launcher is left */
    REMOTE_JOB_EVENTS
};

extern const struct states remote_job_states;

/* Returns true while the job is being started: it waits for names or agents. */
bool remote_job_is_starting(enum remote_job_state s);

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

enum remote_rank_state {
    REMOTE_RANK_WAITING, /* its agent was not told to start it */
    REMOTE_RANK_STARTED, /* its agent was told to start it */
    REMOTE_RANK_DONE,    /* exited, lost or not started, and reported */
    REMOTE_RANK_STATES
};

enum remote_rank_event {
    REMOTE_RANK_EV_START,       /* the job starts */
    REMOTE_RANK_EV_NOT_STARTED, /* the job's start failed, or the agent could not start the rank */
    REMOTE_RANK_EV_EXITED,      /* the agent reports the rank's exit */
    REMOTE_RANK_EV_LOST,        /* its node is lost, or the reap limit is reached */
    REMOTE_RANK_EVENTS
};

extern const struct states remote_rank_states;
