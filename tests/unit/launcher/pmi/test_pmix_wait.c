/* pmix_wait: answers from another thread, awaited together. */
#include "launcher/pmi/pmix_wait.h"

#include <pthread.h>

#include "tests/unit/test.h"

static void *answer_two(void *q)
{
    pmix_wait_answer(PMIX_SUCCESS, q);
    pmix_wait_answer(PMIX_SUCCESS, q);
    return NULL;
}

TEST(a_wait_ends_with_the_last_answer)
{
    struct pmix_wait q;
    pthread_t other;
    pmix_wait_init(&q);
    pmix_wait_open(&q);
    pmix_wait_open(&q);
    pmix_wait_call_returned(&q, PMIX_SUCCESS); /* its answer follows */
    CHECK_INT(pthread_create(&other, NULL, answer_two, &q), 0);
    CHECK_INT(pmix_wait_wait(&q), PMIX_SUCCESS);
    CHECK_INT(q.open, 0);
    pthread_join(other, NULL);
}

TEST(a_call_that_is_done_or_has_failed_gets_no_answer)
{
    struct pmix_wait q;
    pmix_wait_init(&q);
    pmix_wait_open(&q);
    pmix_wait_call_returned(&q, PMIX_OPERATION_SUCCEEDED);
    CHECK_INT(q.status, PMIX_SUCCESS);
    pmix_wait_open(&q);
    pmix_wait_call_returned(&q, PMIX_ERR_NOMEM);
    pmix_wait_open(&q);
    pmix_wait_call_returned(&q, PMIX_ERR_BAD_PARAM);
    CHECK_INT(pmix_wait_wait(&q), PMIX_ERR_NOMEM); /* the first */
}
