#include "launcher/plan/plan_print.h"

#include "common/json.h"
#include "launcher/node/topo.h"
#include "launcher/plan/hosts.h"
#include "tests/unit/test.h"

static char *program[] = {(char *)"./train", (char *)"-v", NULL};

static struct plan *plan_of(const char *name, const struct launch_spec *spec_of)
{
    struct launch_spec s = *spec_of;
    AUTO(topo) struct topo *t = NULL;
    AUTO(free) char *path = xasprintf("tests/plan/machines/%s.xml", name);
    CHECK_INT(topo_load_file(&t, path, NULL), 0);
    s.argv = program;
    struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    return p;
}

TEST(a_plan_is_a_table_of_ranks_and_the_jobs_variables)
{
    AUTO(plan)
    struct plan *p = plan_of("v100-smt-off", &(struct launch_spec){.node.no_pmix = true});
    AUTO(strbuf) struct strbuf b = {0};
    plan_print(&b, p);
    CHECK_STR(strbuf_str(&b), "2 ranks of ./train -v\n"
                              "rank  node          local  GPU  CPUs   cores  memory\n"
                              "   0  v100-smt-off      0    0  0-19      20  0\n"
                              "   1  v100-smt-off      1    1  20-39     20  1\n"
                              "rank 0: RANK=0 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 "
                              "MASTER_PORT=(chosen at the start) OMP_NUM_THREADS=20\n"
                              "rank 1: RANK=1 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 "
                              "MASTER_PORT=(chosen at the start) OMP_NUM_THREADS=20\n"
                              "DROVER_JOB_ID=job\n"
                              "WORLD_SIZE=2\n"
                              "GROUP_WORLD_SIZE=1\n"
                              "ROLE_WORLD_SIZE=2\n"
                              "ROLE_NAME=default\n"
                              "MASTER_ADDR=127.0.0.1\n"
                              "TORCHELASTIC_RESTART_COUNT=0\n"
                              "TORCHELASTIC_MAX_RESTARTS=0\n"
                              "DROVER_RESTART_COUNT=0\n"
                              "TORCHELASTIC_RUN_ID=job\n");
}

TEST(json_has_what_the_table_has_and_null_for_what_there_is_none_of)
{
    AUTO(plan)
    struct plan *p = plan_of("laptop", &(struct launch_spec){.ranks = 6, .wdir = "/w"});
    json_t *j = plan_print_json(p), *ranks = json_object_get(j, "ranks");
    CHECK_INT(json_array_size(ranks), 6);
    json_t *r = json_array_get(ranks, 5);
    CHECK_INT(json_integer_value(json_object_get(r, "rank")), 5);
    CHECK_STR(json_string_value(json_object_get(r, "node")), "laptop");
    CHECK(json_is_null(json_object_get(r, "gpu")));
    CHECK(json_is_null(json_object_get(r, "cpus")));
    CHECK(json_is_null(json_object_get(r, "mems")));
    CHECK_STR(json_string_value(json_object_get(json_object_get(r, "env"), "RANK")), "5");
    CHECK_STR(json_string_value(json_object_get(j, "wdir")), "/w");
    CHECK_INT(json_integer_value(json_object_get(j, "world_size")), 6);
    CHECK_STR(json_string_value(json_array_get(json_object_get(j, "argv"), 1)), "-v");
    json_t *node = json_array_get(json_object_get(j, "nodes"), 0);
    CHECK_INT(json_integer_value(json_object_get(node, "ranks")), 6);
    json_decref(j);
}

TEST(nodes_that_were_not_contacted_are_marked)
{
    struct host list[] = {{.name = (char *)"far1", .slots = 1},
                          {.name = (char *)"far2", .slots = 1}};
    const struct hosts hosts = {.at = list, .count = 2};
    AUTO(plan)
    struct plan *p = plan_of(
        "laptop", &(struct launch_spec){.ranks = 2, .hosts = &hosts, .node.master_port = 1234});
    AUTO(strbuf) struct strbuf b = {0};
    plan_print(&b, p);
    CHECK_HAS(strbuf_str(&b), "\nassumed to be like this machine, not contacted: far1, far2\n");
    CHECK_HAS(strbuf_str(&b),
              "rank 1: RANK=1 LOCAL_RANK=0 MASTER_ADDR=(chosen at the start) MASTER_PORT=1234 ");
    AUTO(json) json_t *j = plan_print_json(p);
    json_t *node = json_array_get(json_object_get(j, "nodes"), 1);
    CHECK(json_is_true(json_object_get(node, "assumed")));
    CHECK_INT(json_integer_value(json_object_get(j, "master_port")), 1234);
}

TEST(secrets_are_not_shown)
{
    char *x[] = {(char *)"HF_TOKEN=hf_abc", (char *)"WANDB_API_KEY=abc", (char *)"apikey=abc",
                 (char *)"LAYOUT=us", NULL};
    AUTO(plan) struct plan *p = plan_of("laptop", &(struct launch_spec){.env = x});
    AUTO(strbuf) struct strbuf b = {0};
    plan_print(&b, p);
    json_t *j = plan_print_json(p);
    AUTO(free) char *text = json_dumps(j, 0);
    CHECK_HAS(strbuf_str(&b), "HF_TOKEN=***\n");
    CHECK_HAS(strbuf_str(&b), "LAYOUT=us\n");
    CHECK(strstr(strbuf_str(&b), "abc") == NULL);
    CHECK(strstr(text, "abc") == NULL);
    json_decref(j);
}

TEST(bytes_that_are_no_utf_8_do_not_break_the_json)
{
    char *x[] = {(char *)"ODD=\xff\xfe", NULL};
    AUTO(plan) struct plan *p = plan_of("laptop", &(struct launch_spec){.env = x});
    json_t *j = plan_print_json(p);
    CHECK(j != NULL);
    AUTO(free) char *text = json_dumps(j, 0);
    CHECK_HAS(text, "ODD");
    json_decref(j);
}
