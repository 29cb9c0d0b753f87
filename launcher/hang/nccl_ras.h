/* nccl_ras - asks NCCL's RAS service about the job, if the service answers at NCCL_RAS_ADDR (NCCL
 * 2.24 and later; text or JSON over TCP, ras_answer.h). The answer does not decide if the job
 * hangs: the service has reported OK during hangs. With NCCL 2.26.2 to 2.28.9 a query may end a job
 * that lacks a process and has several communicators, so only jobs that are given up are asked. */
#pragma once

#include <uv.h>

struct nccl_ras;

/* Requests the status at "HOST:PORT". The loop calls `done` once, after at most 12 s, with the
 * answer, or with "" if there was none. */
struct nccl_ras *nccl_ras_query(uv_loop_t *loop, const char *address,
                                void (*done)(void *arg, const char *text), void *arg);
/* Ends the query; to be called before or after `done`. `done` is not called any more. The handles
 * close in the loop's next iterations. NULL is accepted. */
void nccl_ras_free(struct nccl_ras *r);
