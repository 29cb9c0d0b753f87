/* pmix_wait - waits for the answers to several calls of libpmix's server at the same time. libpmix
 * answers on its own thread, so each wait costs two thread switches.
 *
 *     pmix_wait_open(&q);                              the answer may precede the call's return
 *     pmix_wait_call_returned(&q, PMIx_server_...(..., pmix_wait_answer, &q)); */
#pragma once

#include <pmix_common.h>
#include <semaphore.h>
#include <stdatomic.h>

struct pmix_wait {
    sem_t answers;
    int open;                     /* calls, of the thread that waits */
    _Atomic pmix_status_t status; /* the first one that is not PMIX_SUCCESS */
};

void pmix_wait_init(struct pmix_wait *q);
/* Registers a call whose answer will be awaited. */
void pmix_wait_open(struct pmix_wait *q);
/* Records the return value of the call. If it is not PMIX_SUCCESS, no answer follows. */
void pmix_wait_call_returned(struct pmix_wait *q, pmix_status_t rc);
/* A pmix_op_cbfunc_t whose `arg` is a struct pmix_wait. */
void pmix_wait_answer(pmix_status_t status, void *arg);
/* Waits until all calls are answered, and then destroys `q`. Returns PMIX_ERR_TIMEOUT after 90 s;
 * libpmix's thread then hangs, and `q` is not destroyed. */
pmix_status_t pmix_wait_wait(struct pmix_wait *q);
