/* tree_members - how the agents of a job come to their places in the tree, and which are lost, as
 * the launcher sees it. Pure.
 *
 * Each agent first connects to the launcher. An agent that is not a child of the launcher is told
 * where its parent is as soon as the parent is at its place and listens; it then leaves, and its
 * next hello comes through the parent. No connection tells that an agent has died on its way, so
 * there is a time limit. If an agent is lost, all below it are lost. */
#pragma once

#include <stdint.h>

#include "common/mem.h"
#include "common/states.h"
#include "launcher/tree/tree.h"

enum tree_member_state {
    TREE_MEMBER_EXPECTED, /* has not connected */
    TREE_MEMBER_WAITING,  /* connected to the launcher; its parent does not listen yet */
    TREE_MEMBER_MOVING,   /* was told where its parent is */
    TREE_MEMBER_JOINED,   /* connected to its parent */
    TREE_MEMBER_LOST,
    TREE_MEMBER_STATES
};

enum tree_member_event {
    TREE_MEMBER_EV_CALL,  /* hello on a connection to the launcher, which is not its parent */
    TREE_MEMBER_EV_MOVE,  /* its parent is at its place and listens */
    TREE_MEMBER_EV_ENTER, /* hello on a connection to its parent */
    TREE_MEMBER_EV_LOSE,  /* its connection has ended, or that of a node above it */
    TREE_MEMBER_EVENTS
};

extern const struct states tree_member_states;
struct tree_members_events {
    /* The agent, which is connected to the launcher, has to move to its parent, which listens at
     * `address`. */
    void (*move)(void *arg, int node, const char *address);
    /* The agent is at its place. If it has children (tree_children()), it has to listen. */
    void (*joined)(void *arg, int node);
    /* The node is lost. The top one comes first, then those below it. */
    void (*lost)(void *arg, int node);
};

enum { TREE_MEMBERS_MOVE_MS = 20000 }; /* more than an agent needs to connect or to give up */

struct tree_members;
struct tree_members *tree_members_new(const struct tree *t, const struct tree_members_events *ev,
                                      void *arg);
void tree_members_free(struct tree_members *m);
AUTO_DEFINE(tree_members, struct tree_members *, tree_members_free)

/* Hello of a node: on a connection to the launcher (`via` is TREE_LAUNCHER), or through the agent
 * `via`.
 *   -EINVAL  there is no such node, or `via` is not its parent
 *   -EEXIST  it is there already, or lost */
int tree_members_hello(struct tree_members *m, int node, int via, int64_t now_ms);
/* The agent of a node waits for its children at `address`. */
void tree_members_listening(struct tree_members *m, int node, const char *address, int64_t now_ms);
/* Returns a node that was told to move and has not arrived within TREE_MEMBERS_MOVE_MS, or -1. It
 * is lost: the caller calls tree_members_lose(). If there is none, `*next_ms` is when to ask again;
 * INT64_MAX: no node moves. */
int tree_members_late(const struct tree_members *m, int64_t now_ms, int64_t *next_ms);
/* A node is lost: its parent has said so, or its connection to the launcher has ended. The end of a
 * connection whose agent was told to move is not a loss: the agent leaves, and may arrive at its
 * parent before the launcher sees that it has left. Nothing happens if the node is lost already. */
void tree_members_lose(struct tree_members *m, int node);

enum tree_member_state tree_members_state(const struct tree_members *m, int node);
