#include "launcher/plan/plan_partial.h"

#include "launcher/plan/env.h"
#include "tests/unit/test.h"

static struct plan *two_ranks(void)
{
    struct plan *p = xzalloc(sizeof *p);
    p->world_size = 2;
    p->ranks = xcalloc(2, sizeof *p->ranks);
    p->ranks[1].rank = p->ranks[1].local_rank = 1;
    p->master_addr = xstrdup("127.0.0.1");
    env_set(&p->env, "WORLD_SIZE", "2");
    return p;
}

TEST(a_share_tells_its_ranks_who_they_are_among_all)
{
    AUTO(plan) struct plan *p = two_ranks();
    struct launch_spec s = {.external_part = {.nodes = 3, .node = 2, .master_addr = "h"}};
    plan_partial_of_job(p, &s);
    CHECK_INT(p->first_rank, 4);
    CHECK_STR(p->master_addr, "h");
    CHECK_STR(env_get(p->env, "WORLD_SIZE"), "6");
    CHECK_STR(env_get(p->env, "MASTER_ADDR"), "h");
    CHECK_STR(env_get(p->env, "GROUP_WORLD_SIZE"), "3");
    CHECK_STR(env_get(p->ranks[1].env, "RANK"), "5");
    CHECK_STR(env_get(p->ranks[1].env, "GROUP_RANK"), "2");
}

TEST(a_whole_job_stays_as_it_is)
{
    AUTO(plan) struct plan *p = two_ranks();
    struct launch_spec s = {0};
    plan_partial_of_job(p, &s);
    CHECK_INT(p->first_rank, 0);
    CHECK_STR(env_get(p->env, "WORLD_SIZE"), "2");
    CHECK(!p->ranks[1].env);
}

TEST(the_last_ranks_have_the_programs_that_were_named_for_them)
{
    char *b[] = {"b", "1", NULL}, *c[] = {"c", NULL};
    char *env[] = {"X=1", "HERE", "GONE", NULL}, *base[] = {"HERE=h", NULL};
    const struct launch_app apps[] = {{.ranks = 2, .argv = b, .env = env},
                                      {.ranks = 1, .argv = c, .wdir = "/d"}};
    struct launch_spec s = {.apps = apps, .app_count = 2};
    const char *expected[] = {NULL, NULL, "b", "b", "c"};
    for (int i = 0; i < 5; i++) {
        struct plan_rank r = {.rank = i};
        plan_partial_program(&r, 5, &s, base);
        plan_partial_program(&r, 5, &s, base); /* a node whose placement is computed again */
        CHECK(!r.argv == !expected[i]);
        if (expected[i])
            CHECK_STR(r.argv[0], expected[i]);
        CHECK_INT(strv_len(r.env), expected[i] && *expected[i] == 'b' ? 2 : 0);
        if (r.env)
            CHECK_STR(env_get(r.env, "HERE"), "h");
        CHECK_INT(r.wdir != NULL, i == 4);
        free(r.wdir);
        strv_free(r.argv);
        strv_free(r.env);
    }
}
