#include "launcher/pmi/pmix_wait.h"

#include <errno.h>

#include "common/clock.h"

enum { LIMIT_MS = 90000 };

void pmix_wait_init(struct pmix_wait *q)
{
    q->open = 0;
    q->status = PMIX_SUCCESS;
    sem_init(&q->answers, 0, 0);
}

void pmix_wait_open(struct pmix_wait *q)
{
    q->open++;
}

void pmix_wait_answer(pmix_status_t status, void *arg)
{
    struct pmix_wait *q = arg;
    pmix_status_t none = PMIX_SUCCESS;
    atomic_compare_exchange_strong(&q->status, &none, status);
    sem_post(&q->answers);
}

void pmix_wait_call_returned(struct pmix_wait *q, pmix_status_t rc)
{
    if (rc != PMIX_SUCCESS)
        pmix_wait_answer(rc == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : rc, q);
}

pmix_status_t pmix_wait_wait(struct pmix_wait *q)
{
    struct timespec end = clock_in_ms(LIMIT_MS);
    for (; q->open > 0; q->open--)
        while (sem_clockwait(&q->answers, CLOCK_MONOTONIC, &end) < 0)
            if (errno == ETIMEDOUT)
                return PMIX_ERR_TIMEOUT;
    sem_destroy(&q->answers);
    return q->status;
}
