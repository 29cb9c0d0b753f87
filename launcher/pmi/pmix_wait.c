#include "launcher/pmi/pmix_wait.h"

#include <errno.h>
#include <stdbool.h>

#include "common/clock.h"

enum { LIMIT_MS = 90000 };

void pmix_wait_init(struct pmix_wait *q)
{
    *q = (struct pmix_wait){.status = PMIX_SUCCESS};
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->answered, &attr);
    pthread_condattr_destroy(&attr);
}

void pmix_wait_open(struct pmix_wait *q)
{
    pthread_mutex_lock(&q->lock);
    q->open++;
    pthread_mutex_unlock(&q->lock);
}

void pmix_wait_answer(pmix_status_t status, void *arg)
{
    struct pmix_wait *q = arg;
    pthread_mutex_lock(&q->lock);
    if (q->status == PMIX_SUCCESS)
        q->status = status;
    q->open--;
    pthread_cond_signal(&q->answered);
    pthread_mutex_unlock(&q->lock);
}

void pmix_wait_call_returned(struct pmix_wait *q, pmix_status_t rc)
{
    if (rc != PMIX_SUCCESS)
        pmix_wait_answer(rc == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : rc, q);
}

pmix_status_t pmix_wait_wait(struct pmix_wait *q)
{
    struct timespec end = clock_in_ms(LIMIT_MS);
    pthread_mutex_lock(&q->lock);
    while (q->open > 0 && pthread_cond_timedwait(&q->answered, &q->lock, &end) != ETIMEDOUT)
        ;
    bool all = q->open == 0;
    pthread_mutex_unlock(&q->lock);
    if (!all)
        return PMIX_ERR_TIMEOUT;
    pthread_cond_destroy(&q->answered);
    pthread_mutex_destroy(&q->lock);
    return q->status;
}
