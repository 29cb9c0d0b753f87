/* nccl_ras - queries NCCL's RAS service about the job, if it answers at NCCL_RAS_ADDR (NCCL 2.24
 * and later; text over TCP). Its answer is evidence, not a verdict: it has reported OK during
 * hangs. */
#ifndef DROVER_NCCL_RAS_H
#define DROVER_NCCL_RAS_H

#include <uv.h>

struct nccl_ras;

/* Requests the status at "HOST:PORT". Calls `done` once from the loop, after 5 s at most, with the
 * answer, or with "" if there was none. */
struct nccl_ras *nccl_ras_query(uv_loop_t *loop, const char *address,
                                void (*done)(void *arg, const char *text), void *arg);
/* Ends the query, before or after `done`, which is not called any more. The handles close in the
 * loop's next iterations. NULL is fine. */
void nccl_ras_free(struct nccl_ras *r);

#endif
