/* test_remote_workers - workers on other nodes: how many trials each runs, and what follows when
 * they exit. This program is also the worker, and this machine all other nodes. */
#include "hpo/coordinator/remote_workers.h"

#include "common/strbuf.h"
#include "tests/unit/test.h"

/* Acts as `worker --id ID --places N`; the variable WORKER says how. */
__attribute__((constructor)) static void be_a_worker(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "worker") != 0)
        return;
    const char *want = getenv("WORKER"), *key = getenv("DROVER_SWEEP_KEY");
    fprintf(stderr, "%s %s with %s\n", argv[4], argv[5], key ? key : "no key");
    fflush(stdout);
    if (want && strcmp(want, "stays") == 0)
        for (;;)
            pause();
    _exit(want ? atoi(want) : 1); /* test_local_worker sets no WORKER */
}

struct fixture {
    uv_loop_t loop;
    uv_timer_t deadline;
    struct guardian *g;
    struct remote_workers *workers;
    struct hosts hosts;
    struct launch_spec spec;
    struct remote_workers_opts config;
    char dir[40];
    int gone, failed, released;
    char why[1100];
};

static void on_gone(void *arg, const char *id)
{
    ((struct fixture *)arg)->gone++;
}

static void on_failed(void *arg, const struct err *e)
{
    struct fixture *f = arg;
    f->failed++;
    snprintf(f->why, sizeof f->why, "%s; %s", e->text, e->hint);
}

static void on_released(void *arg)
{
    ((struct fixture *)arg)->released++;
}

static void too_late(uv_timer_t *t)
{
    FAIL("an awaited event did not come in 60 s");
}

/* Opens workers in a directory that has a worker.key; `want` as in be_a_worker(). */
static void open_workers(struct fixture *f, const char *want)
{
    static const struct remote_workers_events ev = {on_gone, on_failed, on_released};
    static char *env[2];
    struct err e = {0};
    memset(f, 0, sizeof *f);
    strcpy(f->dir, "/tmp/test_remote_workers.XXXXXX");
    CHECK(mkdtemp(f->dir) != NULL);
    AUTO(free) char *cmd = xasprintf("echo the-key > %s/worker.key", f->dir);
    CHECK_INT(system(cmd), 0);
    env[0] = xasprintf("WORKER=%s", want);
    if (guardian_start(&f->g, &e) < 0)
        FAIL("%s", e.text);
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->deadline);
    uv_timer_start(&f->deadline, too_late, 60000, 0); /* a silent name server takes 10 s */
    uv_unref((uv_handle_t *)&f->deadline);
    hosts_add(&f->hosts, "n1", 6, 0);
    hosts_add(&f->hosts, "n2", 3, 0);
    hosts_add(&f->hosts, "me", 8, 0);
    f->hosts.at[2].here = true;
    f->spec = (struct launch_spec){.engine = "local-agents", .env = env};
    f->config = (struct remote_workers_opts){
        .guardian = f->g, .spec = &f->spec, .hosts = &f->hosts, .ranks = 2, .limit = true};
    if (remote_workers_open(&f->workers, &f->loop, &f->config, f->dir, &ev, f, &e) < 0)
        FAIL("%s", e.text);
}

static void close_workers(struct fixture *f)
{
    remote_workers_close(f->workers);
    uv_close((uv_handle_t *)&f->deadline, NULL);
    CHECK_INT(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    guardian_stop(f->g);
    for (int i = 0; i < f->hosts.count; i++)
        free(f->hosts.at[i].name);
    free(f->hosts.at);
    free(f->spec.env[0]);
    AUTO(free) char *cmd = xasprintf("rm -rf %s", f->dir);
    CHECK_INT(system(cmd), 0);
}

/* Runs the loop until the node's log contains the text. */
static bool wrote(const struct fixture *f, const char *node, const char *line)
{
    AUTO(free) char *cmd = xasprintf("grep -qxe '%s' %s/worker.%s.log", line, f->dir, node);
    return system(cmd) == 0;
}

static void until(struct fixture *f, const int *what, int count)
{
    while (*what < count)
        uv_run(&f->loop, UV_RUN_ONCE);
}

TEST(a_node_runs_as_many_trials_as_its_slots_hold_ranks_of)
{
    const struct {
        bool limit;
        int slots, ranks, places;
    } cases[] = {{true, 8, 1, 8}, {true, 8, 2, 4}, {true, 7, 2, 3},
                 {true, 1, 2, 1}, /* a trial has more ranks than the node has slots: still one */
                 {true, 0, 2, 0}, /* no limit: as many as fit */
                 {false, 8, 2, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct remote_workers_opts c = {.ranks = cases[i].ranks, .limit = cases[i].limit};
        const struct host h = {.slots = cases[i].slots};
        CHECK_INT(remote_workers_slots(&c, &h), cases[i].places);
    }
}

TEST(workers_that_cannot_run_are_given_up_and_the_last_cause_is_reported)
{
    struct fixture f;
    open_workers(&f, "2");
    remote_workers_start(f.workers);
    until(&f, &f.failed, 1);
    CHECK_INT(f.gone, 2); /* this host gets no remote worker */
    CHECK_HAS(f.why, "no worker can be kept on any node; the last one was on n");
    CHECK_HAS(f.why, "status 2: --places");
    CHECK_HAS(f.why, "/worker.n");
    CHECK(wrote(&f, "n1", "--places 3 with the-key"));
    CHECK(wrote(&f, "n2", "--places 1 with the-key"));
    close_workers(&f);
    CHECK_INT(f.failed, 1);
    CHECK_INT(f.released, 0);
}

TEST(a_worker_that_failed_is_started_again)
{
    struct fixture f;
    open_workers(&f, "1");
    remote_workers_start(f.workers);
    until(&f, &f.gone, 3); /* the second start of one of them */
    CHECK_INT(f.failed, 0);
    close_workers(&f);
}

TEST(released_workers_are_not_started_again_and_their_exits_are_reported)
{
    struct fixture f;
    open_workers(&f, "stays");
    remote_workers_start(f.workers);
    while (!wrote(&f, "n1", "--places 3 with the-key") ||
           !wrote(&f, "n2", "--places 1 with the-key"))
        uv_run(&f.loop, UV_RUN_ONCE);
    remote_workers_release(f.workers);
    CHECK_INT(f.released, 0);
    remote_workers_kill(f.workers);
    until(&f, &f.released, 1);
    CHECK_INT(f.gone, 2);
    close_workers(&f);
    CHECK_INT(f.failed, 0);
}

TEST(workers_that_still_run_are_stopped_when_they_are_closed)
{
    struct fixture f;
    open_workers(&f, "stays");
    remote_workers_start(f.workers);
    while (!wrote(&f, "n1", "--places 3 with the-key"))
        uv_run(&f.loop, UV_RUN_ONCE);
    close_workers(&f);
    CHECK_INT(f.gone, 0); /* no event after the close */
}
