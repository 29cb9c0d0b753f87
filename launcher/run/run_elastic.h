/* run_elastic - `drover torchrun --rdzv-endpoint`: starts and stops this node's attempts together
 * with those of its peers, as the rendezvous decides (elastic/rdzv_client.h).
 *
 * elastic/elastic_state.h has the states. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/node/topo.h"
#include "launcher/run/console.h"
#include "launcher/run/run_options.h"

struct run_elastic;

struct run_elastic_opts {
    struct run_options *run; /* run->spec is changed for each attempt */
    const struct topo *topo; /* of this node */
    struct console *console; /* shows what peers report */
};

/* The loop calls all of these functions. */
struct run_elastic_events {
    void (*assigned)(void *arg); /* start an attempt: the spec is ready */
    void (*stop)(void *arg);     /* stop the ranks; run_elastic_ranks_ended() follows */
    /* The ranks of this node have succeeded, but those of a peer failed, so the attempt has
     * failed. */
    void (*peers_failed)(void *arg);
    /* No attempt follows. `well` is true if all ranks of all nodes have succeeded. */
    void (*over)(void *arg, bool well);
};

/* Joins the rendezvous. Everything in `o` is borrowed. */
int run_elastic_open(struct run_elastic **out, uv_loop_t *loop, const struct run_elastic_opts *o,
                     const struct run_elastic_events *events, void *arg, struct err *e);
/* Leaves the rendezvous. The handles close in the loop's next iterations. `m` may be NULL. */
void run_elastic_close(struct run_elastic *m);
AUTO_DEFINE(run_elastic, struct run_elastic *, run_elastic_close)

/* Returns true if the ranks of this node are stopped because of a peer, or because the rendezvous
 * is lost. Returns false if `m` is NULL. */
bool run_elastic_was_stopped(const struct run_elastic *m);

/* Returns true if the attempt whose ranks have just ended has failed, on this node or on a peer.
 * The attempt may then be restarted. `failure` says how the ranks of this node failed; it is NULL
 * if they have succeeded. */
bool run_elastic_attempt_failed(const struct run_elastic *m, const char *failure);

enum run_elastic_next {
    RUN_ELASTIC_AWAIT_PEERS, /* an event follows, which says what to do next */
    RUN_ELASTIC_REJOIN,  /* call run_elastic_join() now: a node joined, which does not count as a
                            restart */
    RUN_ELASTIC_RESTART, /* call run_elastic_join() after the pause */
    RUN_ELASTIC_LAST     /* no attempt follows */
};

/* Records that the ranks of this node have ended. Returns what to do next. `failure` says how they
 * failed; it is NULL if they have succeeded. If `by_user` is true, the user stopped them; then this
 * node starts no further attempt when another node joins. `restart_due` is true if the attempt
 * failed (run_elastic_attempt_failed()) and the caller will restart it. `final` is true if no node
 * may start a further attempt after this failure. */
enum run_elastic_next run_elastic_ranks_ended(struct run_elastic *m, const char *failure,
                                              bool by_user, bool restart_due, bool final);
/* Joins the rendezvous for a further attempt. If that fails, emits `over` before it returns. */
void run_elastic_join(struct run_elastic *m);
