/* requests - calls of libpmix's server that are answered on its own thread, waited for together:
 * each wait costs two changes of thread.
 *
 *     pmix_wait_open(&q);                              its answer may come before it returns
 *     pmix_wait_call_returned(&q, PMIx_server_...(..., pmix_wait_answer, &q)); */
#ifndef DROVER_PMIX_WAIT_H
#define DROVER_PMIX_WAIT_H

#include <pmix_common.h>
#include <pthread.h>

struct pmix_wait {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    int open;
    pmix_status_t status; /* the first that is not PMIX_SUCCESS */
};

void pmix_wait_init(struct pmix_wait *q);
void pmix_wait_open(struct pmix_wait *q);
/* What the call returned: where it is not PMIX_SUCCESS, no answer follows. */
void pmix_wait_call_returned(struct pmix_wait *q, pmix_status_t rc);
/* A pmix_op_cbfunc_t; `arg` is the requests. */
void pmix_wait_answer(pmix_status_t status, void *arg);
/* Until all are answered; ends it, too. PMIX_ERR_TIMEOUT after 90 s: libpmix's thread hangs, and it
 * is not ended. */
pmix_status_t pmix_wait_wait(struct pmix_wait *q);

#endif
