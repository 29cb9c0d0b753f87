/* plan: the ranks of a part of a job, and those of several programs. */
#include "launcher/plan/env.h"
#include "launcher/plan/plan.h"
#include "tests/unit/kit_machine.h"
#include "tests/unit/test.h"

static char *const none[] = {NULL};

static struct plan *two_ranks(struct launch_external_part part)
{
    static char *const program[] = {(char *)"p", NULL};
    const struct launch_spec s = {.ranks = 2, .argv = program, .external_part = part};
    AUTO(topo) struct topo *t = machine("vm-2core");
    struct plan *p = NULL;
    struct err e = {0};
    if (plan_make(&p, &s, t, none, &e) < 0)
        FAIL("%s", e.text);
    return p;
}

TEST(a_share_tells_its_ranks_who_they_are_among_all)
{
    AUTO(plan)
    struct plan *p =
        two_ranks((struct launch_external_part){.nodes = 3, .node = 2, .master_addr = "h"});
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
    AUTO(plan) struct plan *p = two_ranks((struct launch_external_part){0});
    CHECK_INT(p->first_rank, 0);
    CHECK_STR(p->master_addr, "127.0.0.1");
    CHECK_STR(env_get(p->env, "WORLD_SIZE"), "2");
    CHECK_STR(env_get(p->ranks[1].env, "RANK"), "1");
}

TEST(the_last_ranks_have_the_programs_that_were_named_for_them)
{
    char *a[] = {"a", NULL}, *b[] = {"b", "1", NULL}, *c[] = {"c", NULL};
    char *env[] = {"X=1", "HERE", "GONE", NULL}, *base[] = {"HERE=h", NULL};
    const struct launch_app apps[] = {{.ranks = 2, .argv = b, .env = env},
                                      {.ranks = 1, .argv = c, .wdir = "/d"}};
    struct launch_spec s = {.ranks = 5, .argv = a, .apps = apps, .app_count = 2};
    const char *expected[] = {NULL, NULL, "b", "b", "c"};
    AUTO(topo) struct topo *t = machine("vm-2core");
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, base, NULL), 0);
    for (int again = 0; again < 2; again++) { /* a node whose placement is computed again */
        for (int i = 0; i < 5; i++) {
            const struct plan_rank *r = &p->ranks[i];
            bool has_env = expected[i] && *expected[i] == 'b';
            CHECK(!r->argv == !expected[i]);
            if (expected[i])
                CHECK_STR(r->argv[0], expected[i]);
            CHECK_INT(env_get(r->env, "X") != NULL, has_env);
            CHECK_INT(env_get(r->env, "HERE") != NULL, has_env);
            CHECK(!env_get(r->env, "GONE"));
            if (has_env)
                CHECK_STR(env_get(r->env, "HERE"), "h");
            CHECK_INT(r->wdir != NULL, i == 4);
        }
        CHECK_INT(plan_set_node(p, 0, &s, t, base, NULL), 0);
    }
}
