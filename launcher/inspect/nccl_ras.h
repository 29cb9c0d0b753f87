/* ras - what NCCL's own RAS service says of the job, where one answers at NCCL_RAS_ADDR (NCCL 2.24
 * and later; text over TCP). Evidence, no verdict: it has said OK during hangs. */
#ifndef DROVER_NCCL_RAS_H
#define DROVER_NCCL_RAS_H

#include <uv.h>

struct nccl_ras;

/* Asks at "HOST:PORT" for the status. `done` comes once, from the loop, after 5 s at most: with the
 * answer, or with "" where nobody gave one. */
struct nccl_ras *nccl_ras_query(uv_loop_t *loop, const char *address,
                                void (*done)(void *arg, const char *text), void *arg);
/* Before or after `done`, which does not come then. Its handles close on the loop's next turns.
 * NULL is fine. */
void nccl_ras_free(struct nccl_ras *r);

#endif
