/* exchange - how the ranks of a job tell each other a few bytes before they have a communicator:
 * put, fence, get, over PMIx (drover run, mpirun and srun --mpi=pmix all serve it). */
#ifndef DROVER_EXCHANGE_H
#define DROVER_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/backend.h"
#include "common/err.h"
#include "common/mem.h"

struct exchange;

/* One round of put, fence, get; all ranks make theirs in the same order. Attaches on first use. */
struct exchange *exchange_new(int rank, int size);
void exchange_free(struct exchange *x);
AUTO_DEFINE(exchange, struct exchange *, exchange_free)

/* What this rank says. Seen by the others after a fence. */
int exchange_put(struct exchange *x, const char *key, const void *bytes, size_t len, struct err *e);

/* Every rank of the job came here. At most once in a round.
 *   -ETIMEDOUT  not all came; the text names the missing ones where that is known
 *   -ENOTSUP    nobody serves an exchange to this job; the hint says who would */
int exchange_fence(struct exchange *x, int64_t timeout_ms, struct err *e);

/* Exactly `len` bytes that `rank` put before the fence. -EPROTO: it put something else. */
int exchange_get(struct exchange *x, int rank, const char *key, void *out, size_t len,
                 struct err *e);

/* The same as a table for plug-ins. */
struct backend_exchange exchange_table(struct exchange *x);

#endif
