/* requests: answers from another thread, waited for together. */
#include "launcher/pmi/pmix_wait.h"

#include "tests/unit/test.h"

static void *answer_two(void *q)
{
    requests_answer(PMIX_SUCCESS, q);
    requests_answer(PMIX_SUCCESS, q);
    return NULL;
}

TEST(a_wait_ends_with_the_last_answer)
{
    struct requests q;
    pthread_t other;
    requests_init(&q);
    requests_open(&q);
    requests_open(&q);
    requests_returned(&q, PMIX_SUCCESS); /* its answer follows */
    CHECK_INT(pthread_create(&other, NULL, answer_two, &q), 0);
    CHECK_INT(requests_wait(&q), PMIX_SUCCESS);
    CHECK_INT(q.open, 0);
    pthread_join(other, NULL);
}

TEST(a_call_that_is_done_or_has_failed_gets_no_answer)
{
    struct requests q;
    requests_init(&q);
    requests_open(&q);
    requests_returned(&q, PMIX_OPERATION_SUCCEEDED);
    CHECK_INT(q.status, PMIX_SUCCESS);
    requests_open(&q);
    requests_returned(&q, PMIX_ERR_NOMEM);
    requests_open(&q);
    requests_returned(&q, PMIX_ERR_BAD_PARAM);
    CHECK_INT(requests_wait(&q), PMIX_ERR_NOMEM); /* the first */
}
