/* pmix_publish: names that ranks publish, looked up before and after. */
#include "launcher/pmi/pmix_publish.h"

#include "tests/unit/test.h"

enum { KEYS_MAX = 4 };

/* The answer to a lookup. */
struct reply {
    int calls;
    pmix_status_t status;
    size_t count;
    char values[KEYS_MAX][16];
    pmix_rank_t from;
};

static void on_reply(pmix_status_t status, pmix_pdata_t data[], size_t n, void *arg)
{
    struct reply *r = arg;
    r->calls++;
    r->status = status;
    r->count = n;
    for (size_t i = 0; i < n; i++) {
        snprintf(r->values[i], sizeof r->values[i], "%s", data[i].value.data.string);
        r->from = data[i].proc.rank;
    }
}

static pmix_proc_t proc(const char *nspace, pmix_rank_t rank)
{
    pmix_proc_t p;
    PMIX_LOAD_PROCID(&p, nspace, rank);
    return p;
}

static pmix_status_t publish(struct pmix_publish *n, pmix_proc_t who, const char *key,
                             const char *value, pmix_persistence_t lasts)
{
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], PMIX_PERSISTENCE, &lasts, PMIX_PERSIST);
    PMIX_INFO_LOAD(&info[1], key, value, PMIX_STRING);
    pmix_status_t rc = pmix_publish_add(n, &who, info, 2);
    PMIX_INFO_DESTRUCT(&info[1]);
    return rc;
}

static bool lookup(struct pmix_publish *n, struct reply *r, pmix_proc_t who, char *const *keys,
                   int64_t until_ms)
{
    *r = (struct reply){0};
    struct pmix_publish_lookup l = {&who, keys, until_ms, on_reply, r};
    return pmix_publish_lookup(n, &l);
}

static char *const port[] = {(char *)"port", NULL};
static char *const both[] = {(char *)"port", (char *)"door", NULL};

TEST(a_name_is_visible_to_the_ranks_of_its_job_only)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply r;
    CHECK_INT(publish(n, proc("a", 2), "port", "7", PMIX_PERSIST_SESSION), PMIX_SUCCESS);
    for (int again = 0; again < 2; again++) {
        CHECK(lookup(n, &r, proc("a", 0), port, PMIX_PUBLISH_NO_WAIT));
        CHECK_INT(r.status, PMIX_SUCCESS);
        CHECK_STR(r.values[0], "7");
        CHECK_INT(r.from, 2);
    }
    CHECK(lookup(n, &r, proc("b", 0), port, PMIX_PUBLISH_NO_WAIT));
    CHECK_INT(r.status, PMIX_ERR_NOT_FOUND);
    CHECK_INT(publish(n, proc("b", 0), "port", "8", PMIX_PERSIST_SESSION), PMIX_SUCCESS);
}

TEST(published_names_are_returned_though_others_are_missing)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply r;
    publish(n, proc("a", 0), "door", "9", PMIX_PERSIST_SESSION);
    CHECK(lookup(n, &r, proc("a", 1), both, PMIX_PUBLISH_NO_WAIT));
    CHECK_INT(r.status, PMIX_SUCCESS);
    CHECK_INT(r.count, 1);
    CHECK_STR(r.values[0], "9");
}

TEST(a_name_is_published_once)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply r;
    pmix_proc_t who = proc("a", 1);
    publish(n, proc("a", 0), "port", "7", PMIX_PERSIST_SESSION);
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], "door", "9", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], "port", "8", PMIX_STRING);
    CHECK_INT(pmix_publish_add(n, &who, info, 2), PMIX_ERR_DUPLICATE_KEY);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    lookup(n, &r, who, both, PMIX_PUBLISH_NO_WAIT); /* neither of the two */
    CHECK_INT(r.count, 1);
    CHECK_STR(r.values[0], "7");
}

TEST(a_name_for_one_reader_is_removed_when_it_is_read)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply first, second;
    CHECK(!lookup(n, &first, proc("a", 1), port, INT64_MAX));
    CHECK(!lookup(n, &second, proc("a", 2), port, INT64_MAX));
    publish(n, proc("a", 0), "port", "7", PMIX_PERSIST_FIRST_READ);
    CHECK_INT(first.calls, 1);
    CHECK_INT(second.calls, 0);
    publish(n, proc("a", 0), "port", "8", PMIX_PERSIST_FIRST_READ);
    CHECK_STR(second.values[0], "8");
    lookup(n, &second, proc("a", 2), port, PMIX_PUBLISH_NO_WAIT);
    CHECK_INT(second.status, PMIX_ERR_NOT_FOUND);
}

TEST(a_waiting_lookup_gets_all_names_together)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply r;
    CHECK(!lookup(n, &r, proc("a", 1), both, INT64_MAX));
    publish(n, proc("a", 0), "door", "9", PMIX_PERSIST_FIRST_READ);
    CHECK_INT(r.calls, 0);
    publish(n, proc("b", 0), "port", "6", PMIX_PERSIST_SESSION);
    CHECK_INT(r.calls, 0);
    publish(n, proc("a", 0), "port", "7", PMIX_PERSIST_SESSION);
    CHECK_INT(r.calls, 1);
    CHECK_INT(r.count, 2);
    CHECK_STR(r.values[0], "7");
    CHECK_STR(r.values[1], "9");
}

TEST(a_lookup_stops_waiting_at_its_deadline)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply soon, later, never;
    CHECK(pmix_publish_expire(n, 0) == INT64_MAX);
    lookup(n, &soon, proc("a", 0), port, 1000);
    lookup(n, &later, proc("a", 1), port, 2000);
    lookup(n, &never, proc("a", 2), port, INT64_MAX);
    CHECK_INT(pmix_publish_expire(n, 999), 1000);
    CHECK_INT(soon.calls, 0);
    CHECK_INT(pmix_publish_expire(n, 1000), 2000);
    CHECK_INT(soon.status, PMIX_ERR_TIMEOUT);
    CHECK(pmix_publish_expire(n, 2000) == INT64_MAX);
    CHECK_INT(later.status, PMIX_ERR_TIMEOUT);
    CHECK_INT(never.calls, 0);
}

TEST(the_names_and_lookups_of_a_job_end_with_it)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply gone, stays, r;
    publish(n, proc("a", 0), "door", "9", PMIX_PERSIST_SESSION);
    lookup(n, &gone, proc("a", 1), port, INT64_MAX);
    lookup(n, &stays, proc("b", 1), port, INT64_MAX);
    pmix_publish_drop_namespace(n, "a");
    CHECK_INT(gone.status, PMIX_ERR_NOT_FOUND);
    CHECK_INT(stays.calls, 0);
    lookup(n, &r, proc("a", 0), both, PMIX_PUBLISH_NO_WAIT);
    CHECK_INT(r.status, PMIX_ERR_NOT_FOUND);
}

TEST(a_rank_unpublishes_only_its_own_names)
{
    AUTO(pmix_publish) struct pmix_publish *n = pmix_publish_new();
    struct reply r;
    pmix_proc_t owner = proc("a", 0), other = proc("a", 1);
    publish(n, owner, "port", "7", PMIX_PERSIST_SESSION);
    CHECK_INT(pmix_publish_remove(n, &other, port), PMIX_ERR_NOT_FOUND);
    CHECK_INT(pmix_publish_remove(n, &owner, port), PMIX_SUCCESS);
    CHECK_INT(pmix_publish_remove(n, &owner, port), PMIX_ERR_NOT_FOUND);
    publish(n, owner, "port", "7", PMIX_PERSIST_SESSION);
    publish(n, owner, "door", "9", PMIX_PERSIST_SESSION);
    CHECK_INT(pmix_publish_remove(n, &owner, NULL), PMIX_SUCCESS);
    lookup(n, &r, other, both, PMIX_PUBLISH_NO_WAIT);
    CHECK_INT(r.status, PMIX_ERR_NOT_FOUND);
}

TEST(directives_give_the_deadline)
{
    pmix_info_t info[2];
    int limit_s = 3, all = 0;
    bool no = false;
    CHECK_INT(pmix_publish_deadline(NULL, 0, 50), PMIX_PUBLISH_NO_WAIT);
    PMIX_INFO_LOAD(&info[0], PMIX_TIMEOUT, &limit_s, PMIX_INT);
    CHECK_INT(pmix_publish_deadline(info, 1, 50), PMIX_PUBLISH_NO_WAIT);
    PMIX_INFO_LOAD(&info[1], PMIX_WAIT, &all, PMIX_INT);
    CHECK_INT(pmix_publish_deadline(info, 2, 50), 3050);
    CHECK(pmix_publish_deadline(info + 1, 1, 50) == INT64_MAX);
    PMIX_INFO_LOAD(&info[1], PMIX_WAIT, NULL, PMIX_BOOL); /* true */
    CHECK_INT(pmix_publish_deadline(info, 2, 50), 3050);
    PMIX_INFO_LOAD(&info[1], PMIX_WAIT, &no, PMIX_BOOL);
    CHECK_INT(pmix_publish_deadline(info, 2, 50), PMIX_PUBLISH_NO_WAIT);
}
