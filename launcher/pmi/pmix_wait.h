/* requests - calls of libpmix's server that are answered on its own thread, waited for together:
 * each wait costs two changes of thread.
 *
 *     requests_open(&q);                              its answer may come before it returns
 *     requests_returned(&q, PMIx_server_...(..., requests_answer, &q)); */
#ifndef DROVER_PMIX_WAIT_H
#define DROVER_PMIX_WAIT_H

#include <pmix_common.h>
#include <pthread.h>

struct requests {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    int open;
    pmix_status_t status; /* the first that is not PMIX_SUCCESS */
};

void requests_init(struct requests *q);
void requests_open(struct requests *q);
/* What the call returned: where it is not PMIX_SUCCESS, no answer follows. */
void requests_returned(struct requests *q, pmix_status_t rc);
/* A pmix_op_cbfunc_t; `arg` is the requests. */
void requests_answer(pmix_status_t status, void *arg);
/* Until all are answered; ends it, too. PMIX_ERR_TIMEOUT after 90 s: libpmix's thread hangs, and it
 * is not ended. */
pmix_status_t requests_wait(struct requests *q);

#endif
