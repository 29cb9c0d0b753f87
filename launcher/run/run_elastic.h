/* run_elastic - `drover torchrun --rdzv-endpoint`: starts and stops this node's attempts together
 * with those of its peers, as the rendezvous decides (elastic/rdzv_client.h).
 *
 * elastic/elastic_state.h has the states. */
#ifndef DROVER_RUN_ELASTIC_H
#define DROVER_RUN_ELASTIC_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/node/topo.h"
#include "launcher/run/console.h"
#include "launcher/run/run_options.h"

struct run_elastic;

struct run_elastic_opts {
    struct run_options *run; /* its spec becomes that of each attempt */
    const struct topo *topo; /* of this node */
    struct console *console; /* gets what peers report */
};

/* All come from the loop. */
struct run_elastic_events {
    void (*assigned)(void *arg); /* start an attempt: the spec is ready */
    void (*stop)(void *arg);     /* stop the ranks; run_elastic_ranks_ended() follows */
    /* The ranks here ended well, but those of a peer failed: the attempt has failed. */
    void (*peers_failed)(void *arg);
    /* No attempt follows. `well`: all ranks of all nodes ended well. */
    void (*over)(void *arg, bool well);
};

/* Joins the rendezvous. Everything in `o` is borrowed. */
int run_elastic_open(struct run_elastic **out, uv_loop_t *loop, const struct run_elastic_opts *o,
                     const struct run_elastic_events *events, void *arg, struct err *e);
/* Its handles close in the loop's next iterations. May be NULL. */
void run_elastic_close(struct run_elastic *m);
AUTO_DEFINE(run_elastic, struct run_elastic *, run_elastic_close)

/* Returns true if the ranks here are stopped because of a peer, or because the rendezvous is lost.
 * False for NULL. */
bool run_elastic_was_stopped(const struct run_elastic *m);

/* Returns true if the attempt whose ranks have just ended has failed, here (`failure` is how; NULL:
 * its ranks ended well) or on a peer. It may then be restarted. */
bool run_elastic_attempt_failed(const struct run_elastic *m, const char *failure);

enum run_elastic_next {
    RUN_ELASTIC_AWAIT_PEERS, /* an event follows, which says how it continues */
    RUN_ELASTIC_REJOIN,      /* call run_elastic_join() now: a node joined, no restart is counted */
    RUN_ELASTIC_RESTART,     /* call run_elastic_join() after the pause */
    RUN_ELASTIC_LAST         /* no attempt follows */
};

/* The ranks here have ended, for the reason `failure` (NULL: well). `by_user`: the user stopped
 * them, so that a node that joins starts no attempt here. `restart_due`: see
 * run_elastic_attempt_failed(). */
enum run_elastic_next run_elastic_ranks_ended(struct run_elastic *m, const char *failure,
                                              bool by_user, bool restart_due);
/* Joins the rendezvous for a further attempt. If that fails, `over` is emitted at once. */
void run_elastic_join(struct run_elastic *m);

#endif
