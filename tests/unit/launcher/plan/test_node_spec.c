/* node_spec: encoding and decoding the messages of a job and of a node, and which environment
 * variables win. */
#include "launcher/plan/node_spec.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hosts.h"
#include "launcher/remote/control/control_frame.h"
#include "tests/unit/test.h"

/* Three ranks on two nodes; the second node has ranks 0 and 2. */
static struct plan *plan_of_three(void)
{
    static const int nodes[] = {1, 0, 1};
    struct plan *p = xzalloc(sizeof *p);
    p->engine = "openmpi";
    p->world_size = 3;
    p->node_count = 2;
    p->nodes = xcalloc(2, sizeof *p->nodes);
    p->nodes[0].name = xstrdup("a");
    p->nodes[1].name = xstrdup("b");
    p->ranks = xcalloc(3, sizeof *p->ranks);
    p->job_id = xstrdup("job-1");
    strv_push(&p->argv, xstrdup("./train"));
    strv_push(&p->argv, xstrdup("a b"));
    strv_push(&p->env, xstrdup("WORLD_SIZE=3"));
    strv_push(&p->env, xstrdup("OMPI_MCA_btl=tcp"));
    for (int i = 0; i < 2; i++)
        p->nodes[i].ranks = xcalloc(2, sizeof *p->nodes[i].ranks);
    for (int i = 0; i < 3; i++) {
        struct plan_node *n = &p->nodes[nodes[i]];
        n->ranks[n->local_size++] = i;
        p->ranks[i].rank = i;
        p->ranks[i].node = nodes[i];
        strv_push(&p->ranks[i].env, xasprintf("RANK=%d", i));
    }
    p->ranks[2].cpus = xstrdup("4-7");
    p->ranks[2].mems = xstrdup("1");
    p->ranks[2].wdir = xstrdup("/data");
    strv_push(&p->ranks[2].argv, xstrdup("./serve"));
    return p;
}

/* The messages of a job and of its node 1. */
struct messages {
    json_t *job, *own;
    struct strbuf job_payload, own_payload;
};

static void encode(struct messages *m, const struct launch_node_settings *w,
                   const struct strbuf *base)
{
    AUTO(plan) struct plan *p = plan_of_three();
    *m = (struct messages){0};
    m->job = node_spec_encode_job(&m->job_payload, p, "/work", w, base);
    m->own = node_spec_encode(&m->own_payload, p, 1);
}

static void messages_free(struct messages *m)
{
    json_decref(m->job);
    json_decref(m->own);
    strbuf_free(&m->job_payload);
    strbuf_free(&m->own_payload);
}

/* Decodes so many bytes of each payload. */
static int decode(struct node_spec *r, const struct messages *m, size_t job_len, size_t own_len,
                  char *const *own, struct err *e)
{
    const struct node_spec_message a = {m->job, m->job_payload.data, job_len};
    const struct node_spec_message b = {m->own, m->own_payload.data, own_len};
    return node_spec_decode(r, &a, &b, own, e);
}

static void there_and_back(struct node_spec *r, char *const *base, char *const *own)
{
    AUTO(strbuf) struct strbuf shared = {0};
    struct messages m;
    struct launch_node_settings w = {
        .reports = true, .no_pmix = true, .master_port = 4711, .stdin_rank = -1, .tree_radix = 32};
    w.ft_config = "{\"safety_factor\":5.0}";
    node_spec_base_env(&shared, base);
    encode(&m, &w, &shared);
    struct err e = {0};
    if (decode(r, &m, m.job_payload.len, m.own_payload.len, own, &e) < 0)
        FAIL("%s", e.text);
    messages_free(&m);
}

TEST(a_node_gets_the_plan_of_its_ranks)
{
    struct node_spec r;
    char *none[] = {NULL};
    there_and_back(&r, none, none);
    const struct plan_rank *ranks = r.plan->ranks;
    CHECK_INT(r.plan->world_size, 2);
    CHECK_INT(r.plan->nodes[0].local_size, 2);
    CHECK_STR(r.plan->job_id, "job-1");
    CHECK_STR(plan_rank_argv(r.plan, &ranks[0])[0], "./train");
    CHECK_STR(plan_rank_argv(r.plan, &ranks[0])[1], "a b");
    CHECK(!plan_rank_argv(r.plan, &ranks[0])[2]);
    CHECK_STR(plan_rank_wdir(r.plan, &ranks[0]), "/work");
    CHECK(!ranks[0].cpus && !ranks[0].mems);
    CHECK_STR(env_get(ranks[0].env, "RANK"), "0");
    CHECK_INT(ranks[1].rank, 1);
    CHECK_STR(plan_rank_argv(r.plan, &ranks[1])[0], "./serve");
    CHECK_STR(plan_rank_wdir(r.plan, &ranks[1]), "/data");
    CHECK_STR(ranks[1].cpus, "4-7");
    CHECK_STR(ranks[1].mems, "1");
    CHECK_STR(env_get(ranks[1].env, "RANK"), "2");
    CHECK(r.settings.reports && r.settings.no_pmix);
    CHECK(!r.settings.no_pty && !r.settings.no_hold_port);
    CHECK_INT(r.settings.master_port, 4711);
    CHECK_INT(r.settings.stdin_rank, -1);
    CHECK_INT(r.settings.tree_radix, 32);
    CHECK_STR(r.settings.ft_config, "{\"safety_factor\":5.0}");
    node_spec_free(&r);
}

TEST(a_node_gets_the_map_of_the_whole_job)
{
    struct node_spec r;
    char *none[] = {NULL};
    there_and_back(&r, none, none);
    const struct job_map *m = r.map;
    CHECK_STR(m->job_id, "job-1");
    CHECK_INT(m->node, 1);
    CHECK_INT(m->node_count, 2);
    CHECK_STR(m->nodes[0], "a");
    CHECK_STR(m->nodes[1], "b");
    CHECK_INT(m->ranks, 3);
    CHECK(m->rank_nodes[0] == 1 && m->rank_nodes[1] == 0 && m->rank_nodes[2] == 1);
    CHECK(m->local_count == 2 && m->local[0] == 0 && m->local[1] == 2);
    CHECK_STR(m->cpus[0], "");
    CHECK_STR(m->cpus[1], "4-7");
    node_spec_free(&r);
}

TEST(what_means_a_host_is_the_far_one_s_and_the_rest_is_the_launcher_s)
{
    struct node_spec r;
    char *base[] = {(char *)"HOSTNAME=head",
                    (char *)"PATH=/opt/bin",
                    (char *)"SSH_CONNECTION=x",
                    (char *)"XDG_RUNTIME_DIR=/run/user/0",
                    (char *)"LATIN=\xe9",
                    (char *)"DROVER_TOKEN=secret",
                    (char *)"DROVER_AGENT_NODE=7",
                    (char *)"PMIX_RANK=5",
                    NULL};
    char *own[] = {(char *)"HOSTNAME=c03", NULL};
    there_and_back(&r, base, own);
    AUTO(strv) char **env = env_merge(r.base, r.plan->env, NULL);
    CHECK_STR(env_get(env, "HOSTNAME"), "c03");
    CHECK_STR(env_get(env, "PATH"), "/opt/bin");
    CHECK_STR(env_get(env, "LATIN"), "\xe9");
    CHECK_STR(env_get(env, "OMPI_MCA_btl"), "tcp");
    CHECK(!env_get(env, "SSH_CONNECTION") && !env_get(env, "XDG_RUNTIME_DIR"));
    CHECK(!env_get(env, "DROVER_TOKEN") && !env_get(env, "DROVER_AGENT_NODE"));
    CHECK(!env_get(env, "PMIX_RANK")); /* of a job around the launcher */
    node_spec_free(&r);
}

TEST(a_message_that_is_cut_anywhere_is_refused)
{
    struct messages m;
    struct node_spec r;
    encode(&m, &(struct launch_node_settings){.tree_radix = 32}, &(struct strbuf){0});
    for (size_t len = 0; len < m.job_payload.len; len++)
        CHECK_INT(decode(&r, &m, len, m.own_payload.len, NULL, NULL), -EBADMSG);
    for (size_t len = 0; len < m.own_payload.len; len++)
        CHECK_INT(decode(&r, &m, m.job_payload.len, len, NULL, NULL), -EBADMSG);
    messages_free(&m);
}

TEST(a_message_whose_map_does_not_fit_is_refused)
{
    static const struct {
        const char *key;
        json_int_t value;
    } wrong[] = {{"node", 2},
                 {"node", -1},
                 {"nodes", 1},
                 {"nodes", 9},
                 {"ranks", 2},
                 {"ranks", 4},
                 {"ranks", 0},
                 {"tree_radix", 0},
                 {"stdin_rank", -2},
                 {"master_port", -1},
                 {"node", 0},
                 {"tree_radix", (1LL << 32) + 32},
                 {"stdin_rank", 1LL << 32},
                 {"master_port", (1LL << 32) + 80}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct messages m;
        struct node_spec r;
        encode(&m, &(struct launch_node_settings){.tree_radix = 32}, &(struct strbuf){0});
        bool own = strcmp(wrong[i].key, "node") == 0;
        json_object_set_new(own ? m.own : m.job, wrong[i].key, json_integer(wrong[i].value));
        CHECK_INT(decode(&r, &m, m.job_payload.len, m.own_payload.len, NULL, NULL), -EBADMSG);
        messages_free(&m);
    }
}

/* For 1,000 nodes, each like the recorded machine: makes the plan, then sets each node's topology,
 * then encodes the job's message and every node's. */
static size_t plan_and_encode(const struct launch_spec *s, const struct topo *t, char *const *env)
{
    AUTO(plan) struct plan *p = NULL;
    AUTO(strbuf) struct strbuf base = {0};
    struct launch_node_settings w = {.tree_radix = 32};
    struct err e = {0};
    size_t bytes = 0;
    node_spec_base_env(&base, env);
    if (plan_make(&p, s, t, env, &e) < 0)
        FAIL("%s", e.text);
    for (int i = 0; i < p->node_count; i++)
        if (plan_set_node(p, i, s, t, env, &e) < 0)
            FAIL("%s", e.text);
    AUTO(strbuf) struct strbuf job = {0};
    AUTO(json) json_t *job_head = node_spec_encode_job(&job, p, "/work", &w, &base);
    bytes += job.len;
    for (int i = 0; i < p->node_count; i++) {
        AUTO(strbuf) struct strbuf payload = {0}, frame = {0};
        AUTO(json) json_t *head = node_spec_encode(&payload, p, i);
        CHECK_INT(control_frame_encode(&frame, head, payload.data, payload.len), 0);
        bytes += frame.len;
    }
    CHECK_INT(p->world_size, 8000);
    return bytes;
}

/* Processor time: other load of the machine does not count. */
TEST(a_thousand_nodes_are_planned_and_told_in_less_than_a_second_and_100_MB)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    AUTO(strv) char **env = NULL;
    struct rusage used;
    struct timespec began, ended;
    CHECK_INT(topo_load_file(&t, "tests/plan/machines/dgx-h100.xml", NULL), 0);
    for (int i = 0; i < 100; i++) /* 4 KiB, as a login shell has */
        strv_push(&env, xasprintf("VARIABLE_%d=the value of a variable", i));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%04d", i);
        hosts_add(h, name, 8, 0);
    }
    char *argv[] = {(char *)"python3", (char *)"train.py", NULL};
    struct launch_spec s = {.argv = argv, .hosts = h, .engine = "openmpi"};
    size_t bytes = plan_and_encode(&s, t, env);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    getrusage(RUSAGE_SELF, &used);
    double took_s =
        (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
    printf("# %.2f s of a processor, %.1f MB of messages, %.0f MB at the peak\n", took_s,
           (double)bytes / 1e6, (double)used.ru_maxrss / 1e3);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK_TIME(took_s < 1);
    CHECK(used.ru_maxrss < 100000);
#endif
}
