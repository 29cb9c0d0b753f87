/* exchange - how the ranks of a job tell each other a few bytes before they have a communicator:
 * put, fence, get. Over PMIx where somebody serves it (drover run, mpirun and srun --mpi=pmix),
 * else over TCP between the ranks themselves (torchrun, ranks started by hand). */
#ifndef DROVER_BOOTSTRAP_H
#define DROVER_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/client/rank_identity.h"

/* The three functions of a round, as a table that plug-ins call. */
struct bootstrap_ops {
    void *arg;
    int (*put)(void *arg, const char *key, const void *bytes, size_t len, struct err *e);
    /* All ranks came here and see each other's puts. -ETIMEDOUT after `timeout_ms`. */
    int (*fence)(void *arg, int64_t timeout_ms, struct err *e);
    /* Exactly `len` bytes of what `rank` has put. */
    int (*get)(void *arg, int rank, const char *key, void *out, size_t len, struct err *e);
};

struct bootstrap;

/* One round of put, fence, get; all ranks make theirs in the same order. Nothing is connected
 * before the first use, so a rank that has nobody to talk to may have one too.
 *
 *   put    what this rank says. Seen by the others after a fence.
 *   fence  every rank of the job came here. At most once in a round.
 *              -ETIMEDOUT  not all came; the text names the missing ones where that is known
 *              -ENOTSUP    there is no way to the others; the hint says who would make one
 *   get    exactly `len` bytes that `rank` put before the fence. -EPROTO: it put something else */
struct bootstrap *bootstrap_new(const struct rank_identity *who);
void bootstrap_free(struct bootstrap *x);
AUTO_DEFINE(bootstrap, struct bootstrap *, bootstrap_free)

/* The three, for plug-ins. Borrowed from x. */
const struct bootstrap_ops *bootstrap_table(const struct bootstrap *x);

/* ---- for bootstrap_pmix_new.c and bootstrap_tcp_new.c
 * ------------------------------------------------- */

/* A way for ranks to meet: its three functions, and the end of their `arg`. */
struct bootstrap {
    struct bootstrap_ops table;
    void (*free)(void *arg);
};
void bootstrap_pmix_new(struct bootstrap *x, const struct rank_identity *who);
void bootstrap_tcp_new(struct bootstrap *x, const struct rank_identity *who);

#endif
