#include "launcher/pmi/pmix_request.h"

#include "launcher/pmi/pmix_loader.h"
#include "tests/unit/test.h"

static void set_ranks(pmix_proc_t *procs, const char *nspace, const pmix_rank_t *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        PMIX_LOAD_PROCID(&procs[i], nspace, ranks[i]);
}

TEST(participants_are_in_ascending_order)
{
    pmix_proc_t procs[3];
    set_ranks(procs, "job-1", (pmix_rank_t[]){7, 0, 3}, 3);
    AUTO(pmix_request) struct pmix_request *q = pmix_request_new(EXCHANGE_FENCE);
    CHECK(pmix_request_set_procs(q, procs, 3));
    CHECK_INT((int)q->m.rank_count, 3);
    CHECK_INT(q->m.ranks[0], 0);
    CHECK_INT(q->m.ranks[1], 3);
    CHECK_INT(q->m.ranks[2], 7);
}

TEST(all_ranks_need_no_list_and_two_namespaces_are_refused)
{
    pmix_proc_t procs[2];
    set_ranks(procs, "job-1", (pmix_rank_t[]){PMIX_RANK_WILDCARD, 1}, 2);
    AUTO(pmix_request) struct pmix_request *q = pmix_request_new(EXCHANGE_FENCE);
    AUTO(pmix_request) struct pmix_request *two = pmix_request_new(EXCHANGE_FENCE);
    CHECK(pmix_request_set_procs(q, procs, 2));
    CHECK_INT((int)q->m.rank_count, 0);
    PMIX_LOAD_PROCID(&procs[1], "job-2", 1);
    CHECK(!pmix_request_set_procs(two, procs, 2));
}

static int64_t wait_of(bool wait, int limit_s)
{
    AUTO(pmix_request) struct pmix_request *q = pmix_request_new(EXCHANGE_LOOKUP);
    const pmix_info_t info[] = {
        {.key = PMIX_WAIT, .value = {.type = PMIX_BOOL, .data.flag = wait}},
        {.key = PMIX_TIMEOUT, .value = {.type = PMIX_INT, .data.integer = limit_s}}};
    pmix_request_set_wait(q, info, 2);
    return q->m.wait_ms;
}

TEST(a_lookup_waits_as_its_directives_say)
{
    CHECK_INT(wait_of(false, 5), 0);
    CHECK_INT(wait_of(true, 5), 5000);
    CHECK_INT(wait_of(true, 0), -1);
}

TEST(a_fence_is_answered_by_the_end_of_a_fence_of_its_kind_name_and_ranks)
{
    pmix_proc_t procs[2];
    set_ranks(procs, "job-1", (pmix_rank_t[]){1, 2}, 2);
    AUTO(pmix_request) struct pmix_request *q = pmix_request_new(EXCHANGE_FENCE);
    q->m.kind = EXCHANGE_GROUP;
    CHECK(pmix_request_set_procs(q, procs, 2));
    pmix_request_add_key(q, "a");
    const char *a = "a", *b = "b";
    struct exchange_message done = q->m;
    done.type = EXCHANGE_FENCE_DONE;
    done.keys = &a;
    CHECK(pmix_request_is_answered_by(q, &done));
    done.keys = &b;
    CHECK(!pmix_request_is_answered_by(q, &done));
    done.keys = &a;
    done.kind = EXCHANGE_UNGROUP;
    CHECK(!pmix_request_is_answered_by(q, &done));
    done.kind = EXCHANGE_GROUP;
    done.ranks = (int32_t[]){1, 3};
    CHECK(!pmix_request_is_answered_by(q, &done));
    done.type = EXCHANGE_FOUND; /* with the same id, 0 */
    CHECK(!pmix_request_is_answered_by(q, &done));
}

TEST(an_error_of_a_publication_is_that_of_the_next_one_of_the_call)
{
    AUTO(pmix_request) struct pmix_request *first = pmix_request_new(EXCHANGE_PUBLISH);
    AUTO(pmix_request) struct pmix_request *last = pmix_request_new(EXCHANGE_PUBLISH);
    first->then = last;
    pmix_request_set_answer(
        first, &(struct exchange_message){.type = EXCHANGE_FOUND, .status = EXCHANGE_DUPLICATE});
    pmix_request_set_answer(last, &(struct exchange_message){.type = EXCHANGE_FOUND});
    CHECK_INT(last->status, PMIX_ERR_DUPLICATE_KEY);
}
