/* cmd_run_meet - `drover torchrun --rdzv-endpoint`: this node's attempts begin and end with those
 * of the nodes that it meets there (engine/rdzv.h). */
#ifndef DROVER_RUN_ELASTIC_H
#define DROVER_RUN_ELASTIC_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/node/topo.h"
#include "launcher/run/cmd_run.h"

struct run_elastic;

struct run_elastic_events {   /* from `drover run`, called from the loop */
    void (*start)(void *arg); /* the spec is that of the next attempt */
    void (*stop)(void *arg);  /* the ranks are to be ended; run_elastic_ranks_ended() follows */
    /* The ranks ended well, but others' failed: this attempt is one that has failed. */
    void (*failed)(void *arg);
    /* Nothing more follows: `well` where all ranks of all nodes have ended so. */
    void (*over)(void *arg, bool well);
    void (*say)(void *arg, const char *text); /* whole lines, on stderr */
    void *arg;
};

/* Borrows the options, whose spec it makes into that of each attempt. */
int run_elastic_open(struct run_elastic **out, uv_loop_t *loop, struct run_options *o,
                     const struct topo *t, const struct run_elastic_events *needs, struct err *e);
/* Its handles close on the loop's next turns. May be NULL. */
void run_elastic_close(struct run_elastic *m);
AUTO_DEFINE(run_elastic, struct run_elastic *, run_elastic_close)

/* Whether the ranks were ended because of another node. False for NULL. */
bool run_elastic_was_stopped(const struct run_elastic *m);

enum run_elastic_next {
    RUN_ELASTIC_WAIT_FOR_PEERS, /* the other nodes' ranks are waited for */
    RUN_ELASTIC_REJOIN,         /* a node has come: the next attempt, which counts as no restart */
    RUN_ELASTIC_FAILED,  /* here or elsewhere: run_elastic_join() after a pause, or _leave() */
    RUN_ELASTIC_FINISHED /* the others cannot be reached any more: there is no next attempt */
};

/* The ranks here have ended: `failed` is how (NULL: well). `unwanted`: the user ended them, so a
 * node that has come brings no next attempt here. */
enum run_elastic_next run_elastic_ranks_ended(struct run_elastic *m, const char *failed,
                                              bool unwanted);
void run_elastic_join(struct run_elastic *m);
/* No next attempt here. False where that can be done at once; else needs.over follows, when the
 * others have been told of the failure. */
bool run_elastic_leave(struct run_elastic *m);

#endif
