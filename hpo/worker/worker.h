/* worker - runs trials on this node for a coordinator, one per slot at once.
 *
 * Workers may join and leave at any time: a worker reports what its node has when it connects, and
 * says so when it leaves; its trials are requeued then. While the coordinator is away, trials
 * continue and their reports wait. If no coordinator returns in time, the worker stops the trials,
 * writes what was not stored to a file for the next coordinator, and ends. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "hpo/transport/transport_client.h"
#include "hpo/worker/node_slice.h"
#include "hpo/worker/trial_paths.h"
#include "launcher/guardian/guardian.h"

enum worker_notice_kind {
    WORKER_NOTICE_OPENED,  /* loop */
    WORKER_NOTICE_WAITING, /* no coordinator was reached so far; repeated (wait_line.h) */
    WORKER_NOTICE_JOINED,  /* sweep, slots */
    WORKER_NOTICE_STARTED, /* trial */
    WORKER_NOTICE_ENDED,   /* trial, result; it was started */
    WORKER_NOTICE_CLOSING  /* handles on the loop must be closed */
};

struct worker_notice { /* what users see of a worker; all is borrowed */
    enum worker_notice_kind kind;
    uv_loop_t *loop;
    const char *sweep;
    int slots, trial;
    const json_t *result; /* run_result.h */
};

struct worker_opts {
    /* Its id was never used before; beat_ms and renew_ms are ignored. */
    struct transport_client_opts client;
    const char *leftovers; /* file for messages that could not be delivered; NULL: they are lost */
    int patience_ms;       /* for a coordinator that is silent */
    int grace_ms; /* from a signal until running trials are killed; 0: the sweep's grace period */
    int idle_ms;  /* the worker leaves after this time without a trial; 0: never */
    bool finish;  /* on a signal, running trials may finish */
    struct node_slice_opts slice; /* `need` is ignored: the coordinator sends it */
    struct trial_paths_opts paths;
    /* Checks this node before the worker connects. If it fails, the worker takes no trial; NULL: no
     * checks. */
    int (*check_node)(const struct worker_opts *o, const struct topo *t, struct err *e);
    void (*notice)(void *arg, const struct worker_notice *n); /* NULL: no notices */
    /* Asked while the coordinator does not answer: true if the sweep was removed. A coordinator
     * that was only killed is awaited. NULL: unknown */
    bool (*is_removed)(void *arg);
    void *arg;
};

/* Runs until the coordinator does not need it any more, a signal (SIGTERM, SIGINT, SIGHUP) ends it,
 * it was idle for too long, or the coordinator is silent for too long. On a signal trials are
 * requeued, or finish first if opts->finish is set; the next signal stops them, and one more kills
 * them. Returns 0.
 *   -ESTALE            the sweep was removed, and another one has its place: all trials are killed,
 *                      and nothing is left of their results. The caller may call this again, with
 *                      the same id, to serve the new sweep
 *   -ETIMEDOUT         no coordinator was heard for patience_ms
 *   -EACCES            the coordinator rejects the key
 *   -EPROTONOSUPPORT   the coordinator has another version of drover
 *   others             trials cannot run here; those that were leased are requeued */
int worker_run(const struct worker_opts *opts, struct guardian *g, struct err *e);
