/* nccl_ras - asks NCCL's RAS service about the job, if the service answers at NCCL_RAS_ADDR (NCCL
 * 2.24 and later; text over TCP). The answer does not decide if the job hangs: the service has
 * reported OK during hangs. */
#pragma once

#include <uv.h>

struct nccl_ras;

/* Requests the status at "HOST:PORT". The loop calls `done` once, after at most 5 s, with the
 * answer, or with "" if there was none. */
struct nccl_ras *nccl_ras_query(uv_loop_t *loop, const char *address,
                                void (*done)(void *arg, const char *text), void *arg);
/* Ends the query; to be called before or after `done`. `done` is not called any more. The handles
 * close in the loop's next iterations. NULL is accepted. */
void nccl_ras_free(struct nccl_ras *r);
