/* rank_spec: encoding and decoding a rank's message, and which environment variables win. */
#include "launcher/plan/rank_spec.h"

#include <sys/resource.h>
#include <time.h>

#include "launcher/hosts/hosts.h"
#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "launcher/remote/control_frame.h"
#include "tests/unit/test.h"

static struct plan *plan_of_two(void)
{
    struct plan *p = xzalloc(sizeof *p);
    p->engine = "openmpi";
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

static void there_and_back(struct rank_spec *r, char *const *base, char *const *own)
{
    AUTO(plan) struct plan *p = plan_of_two();
    AUTO(strbuf) struct strbuf shared = {0};
    AUTO(strbuf) struct strbuf payload = {0};
    struct rank_spec_opts w = {
        .reports = true, .pty = true, .port = true, .port_wanted = 4711, .port_held = true};
    w.ft_config = "{\"safety_factor\":5.0}";
    rank_spec_base_env(&shared, base);
    AUTO(json) json_t *head = rank_spec_encode(&payload, p, 1, "/work", &w, &shared);
    struct err e = {0};
    if (rank_spec_decode(r, head, payload.data, payload.len, own, &e) < 0)
        FAIL("%s", e.text);
}

TEST(a_row_comes_as_it_was)
{
    struct rank_spec r;
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
    CHECK(r.opts.reports && r.opts.pty && r.opts.port && r.opts.port_held && !r.opts.with_stdin);
    CHECK_INT(r.opts.port_wanted, 4711);
    CHECK_STR(r.opts.ft_config, "{\"safety_factor\":5.0}");
    rank_spec_free(&r);
}

TEST(what_means_a_host_is_the_far_one_s_and_the_rest_is_the_launcher_s)
{
    struct rank_spec r;
    char *base[] = {(char *)"HOSTNAME=head",
                    (char *)"PATH=/opt/bin",
                    (char *)"SSH_CONNECTION=x",
                    (char *)"XDG_RUNTIME_DIR=/run/user/0",
                    (char *)"LATIN=\xe9",
                    (char *)"DROVER_TOKEN=secret",
                    NULL};
    char *own[] = {(char *)"HOSTNAME=c03", (char *)"PMIX_RANK=1", (char *)"OMPI_MCA_btl=self",
                   NULL};
    there_and_back(&r, base, own);
    AUTO(strv) char **env = env_merge(r.base, r.plan->env, NULL);
    CHECK_STR(env_get(env, "HOSTNAME"), "c03");
    CHECK_STR(env_get(env, "PATH"), "/opt/bin");
    CHECK_STR(env_get(env, "LATIN"), "\xe9");
    CHECK_STR(env_get(env, "PMIX_RANK"), "1");
    CHECK_STR(env_get(env, "OMPI_MCA_btl"), "tcp");
    CHECK(!env_get(env, "SSH_CONNECTION") && !env_get(env, "XDG_RUNTIME_DIR"));
    CHECK(!env_get(env, "DROVER_TOKEN"));
    rank_spec_free(&r);
}

TEST(a_row_that_is_cut_anywhere_is_refused_or_shorter)
{
    AUTO(plan) struct plan *p = plan_of_two();
    AUTO(strbuf) struct strbuf payload = {0};
    struct strbuf none = {0};
    struct rank_spec_opts w = {0};
    AUTO(json) json_t *head = rank_spec_encode(&payload, p, 1, "/work", &w, &none);
    for (size_t len = 0; len < payload.len; len++) {
        struct rank_spec r;
        CHECK_INT(rank_spec_decode(&r, head, payload.data, len, NULL, NULL), -EBADMSG);
    }
}

/* For 1,000 nodes, each like the recorded machine: makes the plan, then sets each node's topology,
 * then encodes every rank's message. */
static size_t plan_and_encode(const struct launch_spec *s, const struct topo *t, char *const *env)
{
    AUTO(plan) struct plan *p = NULL;
    AUTO(strbuf) struct strbuf base = {0};
    struct rank_spec_opts w = {.port_held = true};
    struct err e = {0};
    size_t bytes = 0;
    rank_spec_base_env(&base, env);
    if (plan_make(&p, s, t, env, &e) < 0)
        FAIL("%s", e.text);
    for (int i = 0; i < p->node_count; i++)
        if (plan_set_node(p, i, s, t, env, &e) < 0)
            FAIL("%s", e.text);
    for (int i = 0; i < p->world_size; i++) {
        AUTO(strbuf) struct strbuf payload = {0}, frame = {0};
        AUTO(json) json_t *head = rank_spec_encode(&payload, p, i, "/work", &w, &base);
        CHECK_INT(control_frame_encode(&frame, head, payload.data, payload.len), 0);
        bytes += frame.len;
    }
    CHECK_INT(p->world_size, 8000);
    return bytes;
}

/* Processor time: other load of the machine does not count. */
TEST(a_thousand_nodes_are_planned_and_told_in_less_than_a_second_and_200_MB)
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
    CHECK(used.ru_maxrss < 200000);
#endif
}
