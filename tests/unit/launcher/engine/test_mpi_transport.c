#include "launcher/engine/mpi_transport.h"

#include "launcher/plan/env.h"
#include "tests/unit/test.h"

/* A plan over `nodes` nodes with what drover sets if it serves PMIx, and one more variable. */
static struct plan plan_over(int nodes, const char *name, const char *value)
{
    struct plan p = {.engine = "openmpi", .world_size = 6, .node_count = nodes};
    env_set(&p.env, "OMPI_COMM_WORLD_SIZE", "6");
    if (name)
        env_set(&p.env, name, "%s", value);
    return p;
}

static bool names_tcp(const struct plan *p, const char *base_entry, bool has_fabric)
{
    AUTO(strv) char **base = NULL;
    strv_push(&base, xstrdup("HOME=/root"));
    if (base_entry)
        strv_push(&base, xstrdup(base_entry));
    AUTO(strv) char **env = mpi_transport_between_nodes(p, base, has_fabric);
    if (env) {
        CHECK_INT(strv_len(env), 2);
        CHECK_STR(env_get(env, "OMPI_MCA_pml"), "ob1");
        CHECK_STR(env_get(env, "OMPI_MCA_btl"), "self,vader,tcp");
    }
    return env != NULL;
}

TEST(ranks_on_nodes_without_a_fabric_use_tcp)
{
    struct plan p = plan_over(3, NULL, NULL);
    CHECK(names_tcp(&p, NULL, false));
    CHECK(!names_tcp(&p, NULL, true)); /* at least one node has a fabric */
    strv_free(p.env);
}

TEST(a_job_on_one_node_needs_no_transport_between_nodes)
{
    struct plan p = plan_over(1, NULL, NULL);
    CHECK(!names_tcp(&p, NULL, false));
    strv_free(p.env);
}

TEST(without_pmix_of_drover_nothing_is_chosen)
{
    struct plan p = {.engine = "openmpi", .world_size = 6, .node_count = 3};
    CHECK(!names_tcp(&p, NULL, false));
}

TEST(what_the_user_has_chosen_stays)
{
    static const char *const names[] = {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct plan given = plan_over(3, names[i], "x"), plain = plan_over(3, NULL, NULL);
        AUTO(free) char *inherited = xasprintf("%s=x", names[i]);
        CHECK(!names_tcp(&given, NULL, false));
        CHECK(!names_tcp(&plain, inherited, false));
        strv_free(given.env);
        strv_free(plain.env);
    }
}

TEST(what_a_drover_around_this_one_has_chosen_is_no_choice_of_the_user)
{
    struct plan p = plan_over(3, NULL, NULL);
    AUTO(strv) char **base = NULL;
    strv_push(&base, xstrdup("DROVER_JOB_ID=outer"));
    strv_push(&base, xstrdup("OMPI_MCA_btl=self,vader,tcp"));
    AUTO(strv) char **env = mpi_transport_between_nodes(&p, base, false);
    CHECK_INT(strv_len(env), 2);
    CHECK_STR(env_get(env, "OMPI_MCA_pml"), "ob1");
    CHECK_STR(env_get(env, "OMPI_MCA_btl"), "self,vader,tcp");
    strv_free(p.env);
}
