/* cmd_run_meet - `drover torchrun --rdzv-endpoint`: this node's attempts begin and end with those
 * of the nodes that it meets there (engine/rdzv.h). */
#ifndef DROVER_RUN_ELASTIC_H
#define DROVER_RUN_ELASTIC_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/node/topo.h"
#include "launcher/run/cmd_run.h"

struct cmd_run_meet;

struct cmd_run_meet_needs {   /* from `drover run`, called from the loop */
    void (*start)(void *arg); /* the spec is that of the next attempt */
    void (*stop)(void *arg);  /* the ranks are to be ended; cmd_run_meet_ended() follows */
    /* The ranks ended well, but others' failed: this attempt is one that has failed. */
    void (*failed)(void *arg);
    /* Nothing more follows: `well` where all ranks of all nodes have ended so. */
    void (*over)(void *arg, bool well);
    void (*say)(void *arg, const char *text); /* whole lines, on stderr */
    void *arg;
};

/* Borrows the options, whose spec it makes into that of each attempt. */
int cmd_run_meet_open(struct cmd_run_meet **out, uv_loop_t *loop, struct cmd_run_opts *o,
                      const struct topo *t, const struct cmd_run_meet_needs *needs, struct err *e);
/* Its handles close on the loop's next turns. May be NULL. */
void cmd_run_meet_close(struct cmd_run_meet *m);
AUTO_DEFINE(cmd_run_meet, struct cmd_run_meet *, cmd_run_meet_close)

/* Whether the ranks were ended because of another node. False for NULL. */
bool cmd_run_meet_stopped(const struct cmd_run_meet *m);

enum cmd_run_meet_next {
    CMD_RUN_MEET_WAIT,   /* the other nodes' ranks are waited for */
    CMD_RUN_MEET_JOIN,   /* a node has come: the next attempt, which counts as no restart */
    CMD_RUN_MEET_FAILED, /* here or elsewhere: cmd_run_meet_join() after a pause, or _leave() */
    CMD_RUN_MEET_ALONE   /* the others cannot be reached any more: there is no next attempt */
};

/* The ranks here have ended: `failed` is how (NULL: well). `unwanted`: the user ended them, so a
 * node that has come brings no next attempt here. */
enum cmd_run_meet_next cmd_run_meet_ended(struct cmd_run_meet *m, const char *failed,
                                          bool unwanted);
void cmd_run_meet_join(struct cmd_run_meet *m);
/* No next attempt here. False where that can be done at once; else needs.over follows, when the
 * others have been told of the failure. */
bool cmd_run_meet_leave(struct cmd_run_meet *m);

#endif
