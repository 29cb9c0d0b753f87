/* bootstrap - exchange of keys and values between ranks before they have a communicator.
 *
 * The operations are put, fence and get. They use PMIx if a server is available (drover run,
 * mpirun, srun --mpi=pmix), otherwise TCP between the ranks (torchrun, ranks started by hand). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/client/rank_identity.h"

/* The functions of a round (put, fence, get), as a table for plug-ins. */
struct bootstrap_ops {
    void *arg;
    /* Publishes `len` bytes under a key. Other ranks can get them after the fence. */
    int (*put)(void *arg, const char *key, const void *bytes, size_t len, struct err *e);
    /* Waits until every rank has called fence. A further fence of the same round shows which ranks
     * are still there.
     *   -ETIMEDOUT  not all ranks called it; the message names the missing ranks if they are known
     *   -ENOTSUP    there is neither PMIx nor an address of rank 0; the hint names launchers that
     *               provide one */
    int (*fence)(void *arg, int64_t timeout_ms, struct err *e);
    /* Reads the `len` bytes that `rank` has put under this key.
     *   -EPROTO  the rank did not put exactly `len` bytes under this key */
    int (*get)(void *arg, int rank, const char *key, void *out, size_t len, struct err *e);
};

struct bootstrap {
    struct bootstrap_ops table;
    void (*free)(void *arg); /* frees table.arg */
};

/* Returns a bootstrap for one round of put, fence, get; the caller frees it. All ranks must make
 * their rounds in the same order. The bootstrap connects at its first use, so it costs nothing in a
 * job of one rank. */
struct bootstrap *bootstrap_new(const struct rank_identity *identity);
void bootstrap_free(struct bootstrap *b);
AUTO_DEFINE(bootstrap, struct bootstrap *, bootstrap_free)

/* Makes a round in which every rank puts `len` bytes and gets those of all ranks, in the order of
 * the ranks. `all` NULL: only waits for all ranks. `mine` is not part of `all`. Errors as the
 * functions of a round. */
int bootstrap_gather(const struct rank_identity *identity, const void *mine, size_t len, void *all,
                     int64_t timeout_ms, struct err *e);

/* ---- for bootstrap_pmix.c and bootstrap_tcp.c ----------------------------------------------- */

void bootstrap_pmix_new(struct bootstrap *b, const struct rank_identity *identity);
void bootstrap_tcp_new(struct bootstrap *b, const struct rank_identity *identity);
