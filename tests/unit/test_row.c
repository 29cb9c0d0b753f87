/* row: a rank's line of the plan, there and back, and which environment wins. */
#include "launcher/row.h"

#include "launcher/env.h"
#include "tests/unit/test.h"

static struct plan *plan_of_two(void)
{
    struct plan *p = xzalloc(sizeof *p);
    p->engine = PLAN_ENGINE_OPENMPI;
    p->world_size = 2;
    p->node_count = 1;
    p->nodes = xcalloc(1, sizeof *p->nodes);
    p->ranks = xcalloc(2, sizeof *p->ranks);
    p->job_id = xstrdup("job-1");
    strv_push(&p->argv, xstrdup("./train"));
    strv_push(&p->argv, xstrdup("a b"));
    strv_push(&p->env, xstrdup("WORLD_SIZE=2"));
    strv_push(&p->env, xstrdup("OMPI_MCA_btl=tcp"));
    p->ranks[1].rank = 1;
    p->ranks[1].cpus = xstrdup("4-7");
    p->ranks[1].mems = xstrdup("1");
    strv_push(&p->ranks[1].env, xstrdup("RANK=1"));
    return p;
}

static void there_and_back(struct row *r, char *const *base, char *const *own)
{
    AUTO(plan) struct plan *p = plan_of_two();
    AUTO(strbuf) struct strbuf shared = {0};
    AUTO(strbuf) struct strbuf payload = {0};
    struct row_wish w = {.reports = true, .port = true, .port_wanted = 4711, .port_held = true};
    row_base(&shared, base);
    AUTO(json) json_t *head = row_put(&payload, p, 1, "/work", &w, &shared);
    struct err e = {0};
    if (row_get(r, head, payload.data, payload.len, own, &e) < 0)
        FAIL("%s", e.text);
}

TEST(a_row_comes_as_it_was)
{
    struct row r;
    char *none[] = {NULL};
    there_and_back(&r, none, none);
    CHECK_STR(r.plan->argv[0], "./train");
    CHECK_STR(r.plan->argv[1], "a b");
    CHECK(!r.plan->argv[2]);
    CHECK_STR(r.plan->wdir, "/work");
    CHECK_STR(r.plan->job_id, "job-1");
    CHECK_STR(r.plan->ranks[0].cpus, "4-7");
    CHECK_STR(r.plan->ranks[0].mems, "1");
    CHECK_STR(env_get(r.plan->env, "RANK"), "1");
    CHECK(r.wish.reports && r.wish.port && r.wish.port_held && !r.wish.with_stdin);
    CHECK_INT(r.wish.port_wanted, 4711);
    row_free(&r);
}

TEST(what_means_a_host_is_the_far_one_s_and_the_rest_is_the_launcher_s)
{
    struct row r;
    char *base[] = {(char *)"HOSTNAME=head",
                    (char *)"PATH=/opt/bin",
                    (char *)"SSH_CONNECTION=x",
                    (char *)"XDG_RUNTIME_DIR=/run/user/0",
                    (char *)"LATIN=\xe9",
                    (char *)"DROVER_TOKEN=secret",
                    NULL};
    char *own[] = {(char *)"HOSTNAME=c03",        (char *)"PATH=/usr/bin",
                   (char *)"DROVER_TOKEN=secret", (char *)"PMIX_RANK=1",
                   (char *)"OMPI_MCA_btl=self",   NULL};
    there_and_back(&r, base, own);
    AUTO(strv) char **env = env_merge(r.base, r.plan->env, NULL);
    CHECK_STR(env_get(env, "HOSTNAME"), "c03");
    CHECK_STR(env_get(env, "PATH"), "/opt/bin");
    CHECK_STR(env_get(env, "LATIN"), "\xe9");
    CHECK_STR(env_get(env, "PMIX_RANK"), "1");
    CHECK_STR(env_get(env, "OMPI_MCA_btl"), "tcp");
    CHECK(!env_get(env, "SSH_CONNECTION") && !env_get(env, "XDG_RUNTIME_DIR"));
    CHECK(!env_get(env, "DROVER_TOKEN"));
    row_free(&r);
}

TEST(a_row_that_is_cut_anywhere_is_refused_or_shorter)
{
    AUTO(plan) struct plan *p = plan_of_two();
    AUTO(strbuf) struct strbuf payload = {0};
    struct strbuf none = {0};
    struct row_wish w = {0};
    AUTO(json) json_t *head = row_put(&payload, p, 1, "/work", &w, &none);
    for (size_t len = 0; len < payload.len; len++) {
        struct row r;
        CHECK_INT(row_get(&r, head, payload.data, len, NULL, NULL), -EBADMSG);
    }
}
