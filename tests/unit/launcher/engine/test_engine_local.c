/* engine_local: the ranks of one node of a larger job. The node has the ranks 1 and 3 of four. */
#include <sys/wait.h>

#include "launcher/engine/engine.h"
#include "launcher/guardian/guardian.h"
#include "tests/unit/test.h"

enum { RANKS = 2, WINDOW = 100000 };

struct node {
    uv_loop_t loop;
    struct guardian *guardian;
    struct engine *engine;
    struct engine_job *job;
    struct plan plan;
    struct plan_rank ranks[RANKS];
    struct job_map map;
    struct launch_spec spec;
    struct engine_start_opts opts;
    char *argv[4];
    struct strbuf output[RANKS];
    size_t limit[RANKS]; /* output after which a rank is paused */
    bool paused[RANKS], eof[RANKS], reaped;
    int exited, joined, finalized; /* number of exits; the last rank in the whole job, -1: none */
};

static void on_started(void *arg, int rank, pid_t pid)
{
}

static void on_not_started(void *arg, int rank, int status, bool node_fault, const char *why)
{
    FAIL("%s", why);
}

static void on_exited(void *arg, int rank, int wait_status, bool oom_killed, const char *error)
{
    struct node *n = arg;
    CHECK(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
    n->exited++;
}

static bool on_bytes(void *arg, int rank, enum launch_stream from, const char *bytes, size_t len)
{
    struct node *n = arg;
    CHECK(!n->paused[rank]);
    strbuf_add(&n->output[rank], bytes, len);
    n->paused[rank] = n->output[rank].len >= n->limit[rank];
    return !n->paused[rank];
}

static void on_eof(void *arg, int rank)
{
    ((struct node *)arg)->eof[rank] = true;
}

static void on_rank_event(void *arg, enum rank_event ev, int rank, int code)
{
    struct node *n = arg;
    CHECK(ev == RANK_JOINED || ev == RANK_FINALIZED);
    *(ev == RANK_JOINED ? &n->joined : &n->finalized) = rank;
}

/* Stops the loop, since a turn that began with a timer's event would wait for another event. */
static void on_reaped(void *arg)
{
    struct node *n = arg;
    n->reaped = true;
    uv_stop(&n->loop);
}

static const struct rank_events of_ranks = {.event = on_rank_event};
static const struct engine_events events = {.started = on_started,
                                            .not_started = on_not_started,
                                            .exited = on_exited,
                                            .bytes = on_bytes,
                                            .eof = on_eof,
                                            .of_ranks = &of_ranks,
                                            .reaped = on_reaped};

/* Starts a shell script in the first `at_once` ranks (0: in both), with `text` as their stdin
 * (NULL: /dev/null). */
static void node_open_with(struct node *n, const char *script, int at_once, const char *text)
{
    static int rank_nodes[] = {1, 0, 1, 0}, local[] = {1, 3};
    static char *node_names[] = {(char *)"here", (char *)"there", NULL};
    static char *cpus[] = {(char *)"", (char *)"", NULL};
    static struct plan_node plan_node = {.name = (char *)"here", .local_size = RANKS};
    static char *pmix_env[] = {(char *)"PMIX_NAMESPACE=j", NULL};
    struct err e = {0};
    memset(n, 0, sizeof *n);
    n->argv[0] = (char *)"/bin/sh";
    n->argv[1] = (char *)"-c";
    n->argv[2] = (char *)script;
    n->joined = n->finalized = -1;
    for (int i = 0; i < RANKS; i++) {
        n->ranks[i] = (struct plan_rank){.rank = i, .gpu = -1};
        n->limit[i] = SIZE_MAX;
    }
    n->plan = (struct plan){.engine = PLAN_ENGINE_LOCAL,
                            .ranks = n->ranks,
                            .world_size = RANKS,
                            .nodes = &plan_node,
                            .node_count = 1,
                            .job_id = (char *)"j",
                            .argv = n->argv};
    n->map = (struct job_map){.job_id = (char *)"j",
                              .nodes = node_names,
                              .node_count = 2,
                              .rank_nodes = rank_nodes,
                              .ranks = COUNT_OF(rank_nodes),
                              .local = local,
                              .local_count = RANKS,
                              .cpus = cpus};
    if (guardian_start(&n->guardian, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(uv_loop_init(&n->loop), 0);
    if (engine_open(&n->engine, &n->loop, n->guardian, &e) < 0)
        FAIL("%s", e.text);
    n->spec = (struct launch_spec){.stdin_null = true, .node.no_pty = true};
    n->opts = (struct engine_start_opts){.plan = &n->plan,
                                         .spec = &n->spec,
                                         .base_env = environ,
                                         .pmix_env = pmix_env,
                                         .map = &n->map,
                                         .master_port = 4711,
                                         .at_once = at_once,
                                         .stdin_text = text};
    if (engine_local_start(&n->job, n->engine, &n->opts, &events, n, &e) < 0)
        FAIL("%s", e.text);
}

static void node_open(struct node *n, const char *script)
{
    node_open_with(n, script, 0, NULL);
}

static void node_close(struct node *n)
{
    while (n->exited < RANKS || !n->eof[0] || !n->eof[1])
        uv_run(&n->loop, UV_RUN_ONCE);
    n->job->ops->kill_tree(n->job);
    while (!n->reaped)
        uv_run(&n->loop, UV_RUN_ONCE);
    engine_free(n->job);
    engine_close(n->engine);
    guardian_stop(n->guardian);
    CHECK_INT(uv_run(&n->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&n->loop), 0);
    for (int i = 0; i < RANKS; i++)
        strbuf_free(&n->output[i]);
}

static void until_quiet(struct node *n, int rank)
{
    while (!n->eof[rank])
        uv_run(&n->loop, UV_RUN_ONCE);
}

TEST(pmix_and_pmi1_number_the_ranks_as_the_whole_job_does)
{
    struct node n;
    node_open(&n, "echo $PMIX_RANK $PMI_RANK $PMI_SIZE");
    until_quiet(&n, 0);
    until_quiet(&n, 1);
    CHECK_STR(strbuf_str(&n.output[0]), "1 1 4\n");
    CHECK_STR(strbuf_str(&n.output[1]), "3 3 4\n");
    node_close(&n);
}

/* The rank with index 1 speaks PMI-1. */
TEST(events_of_pmi1_have_the_number_in_the_job)
{
    struct node n;
    node_open(&n, "[ $PMI_RANK = 3 ] || exit 0; "
                  "say() { echo \"$1\" >&$PMI_FD; IFS= read -r answer <&$PMI_FD; }; "
                  "say 'cmd=init pmi_version=1 pmi_subversion=1'; echo $answer; "
                  "say 'cmd=finalize'; echo $answer");
    until_quiet(&n, 1);
    CHECK_HAS(strbuf_str(&n.output[1]), "cmd=response_to_init");
    CHECK_HAS(strbuf_str(&n.output[1]), "cmd=finalize_ack");
    CHECK_INT(n.joined, 3); /* in the whole job */
    CHECK_INT(n.finalized, 3);
    node_close(&n);
}

TEST(a_rank_that_is_paused_does_not_pause_the_others)
{
    struct node n;
    node_open(&n, "head -c 1000000 /dev/zero | tr '\\0' x");
    n.limit[0] = WINDOW;
    until_quiet(&n, 1);
    CHECK_INT(n.output[1].len, 1000000);
    while (!n.paused[0])
        uv_run(&n.loop, UV_RUN_ONCE);
    CHECK(n.output[0].len < 1000000 && !n.eof[0]);
    while (!n.eof[0]) {
        if (n.paused[0]) {
            n.limit[0] = n.output[0].len + WINDOW;
            n.paused[0] = false;
            engine_local_resume_rank(n.job, 0);
        }
        uv_run(&n.loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(n.output[0].len, 1000000);
    node_close(&n);
}

TEST(each_rank_reads_all_of_a_text_from_stdin)
{
    struct node n;
    node_open_with(&n, "cat", 0, "a\nb\n");
    until_quiet(&n, 0);
    until_quiet(&n, 1);
    CHECK_STR(strbuf_str(&n.output[0]), "a\nb\n");
    CHECK_STR(strbuf_str(&n.output[1]), "a\nb\n");
    node_close(&n);
}

/* The first rank has ended, and with it all processes of the job, when the second one starts. */
TEST(a_rank_that_waits_starts_when_it_is_told_to)
{
    struct node n;
    struct err e = {0};
    node_open_with(&n, "cat; echo $MASTER_PORT", 1, "in\n");
    until_quiet(&n, 0);
    while (n.exited < 1)
        uv_run(&n.loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&n.output[0]), "in\n4711\n");
    CHECK_INT(n.output[1].len, 0);
    CHECK_INT(engine_local_start_next(n.job, &n.opts, &e), 0);
    until_quiet(&n, 1);
    CHECK_STR(strbuf_str(&n.output[1]), "in\n4711\n");
    node_close(&n);
}

TEST(a_job_is_cleared_while_a_rank_waits)
{
    struct node n;
    node_open_with(&n, "exit 0", 1, NULL);
    until_quiet(&n, 0);
    while (n.exited < 1)
        uv_run(&n.loop, UV_RUN_ONCE);
    n.exited = RANKS; /* the second one never starts */
    n.eof[1] = true;
    node_close(&n);
}
