/* agent_children - the agents below an agent in the tree (tree/tree.h): accepts their connections,
 * and passes frames between them and the launcher.
 *
 * A child says `hello` with its number and the job's token. Its frames go up as `relay` frames,
 * which name its node and have the frame as their payload. A `relay` frame of a child goes up
 * unchanged. A `relay` frame from above goes down to the node that it names, or to all nodes.
 * `exchange` frames are for the agent itself. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/remote/control/control.h"
#include "launcher/tree/tree.h"

struct agent_children;

/* From the loop. Payloads are borrowed during the call. */
struct agent_children_events {
    /* A frame for the launcher; takes over `head`. `bulk` as control_send_bulk(). */
    void (*up)(void *arg, json_t *head, const void *payload, size_t len, bool bulk);
    /* A child has connected. */
    void (*joined)(void *arg, int child);
    /* Bytes for this agent's exchange (tree/exchange.h). */
    void (*exchange)(void *arg, int child, const char *bytes, size_t len);
    /* The child's connection has ended. A `lost` frame was sent up. */
    void (*lost)(void *arg, int child);
};

struct agent_children_opts {
    struct tree tree;
    int node;          /* of the agent; it must have children */
    const char *token; /* borrowed during the call */
    struct host_port_range ports;
};

/* Listens for the children. */
int agent_children_open(struct agent_children **out, uv_loop_t *loop,
                        const struct agent_children_opts *o, const struct agent_children_events *ev,
                        void *arg, struct err *e);
int agent_children_port(const struct agent_children *c);
/* Returns how many children are connected. */
int agent_children_count(const struct agent_children *c);
/* Closes all connections: the children kill their ranks. No event follows. The handles close on the
 * loop's next turn. */
void agent_children_close(struct agent_children *c);
AUTO_DEFINE(agent_children, struct agent_children *, agent_children_close)

/* Passes a `relay` frame from above on. To be called for every `relay` frame that is not only for
 * this agent. A frame for a node that has no connection is dropped: it is lost, and the launcher
 * knows. */
void agent_children_relay(struct agent_children *c, const struct control_frame *f);
/* Sends a frame to a child, if it is connected. Takes over `head`. */
void agent_children_send(struct agent_children *c, int child, json_t *head, const char *payload,
                         size_t len);
/* The ranks run: sets how long a child may be silent (control_authenticate()). */
void agent_children_set_silence(struct agent_children *c, int silent_ms);
