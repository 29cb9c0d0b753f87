/* agent_spawn: a job whose agents another process starts, here all on this machine. */
#include "launcher/remote/agent_spawn.h"

#include "launcher/node/topo.h"
#include "launcher/plan/hosts.h"
#include "tests/unit/kit_launch.h"

struct held {
    struct fixture *f;
    struct heard *job;
    struct hosts *hosts;
    struct launch_node_resources parts[2];
    struct launch_spec spec;
    char *argv[4];
    struct agent_spawn *agents[2];
    int ended; /* number of `agents` */
};

static void on_agents_ended(void *arg)
{
    ((struct held *)arg)->ended++;
}

/* Starts a job of two ranks on so many nodes, which waits for its agents. */
static void held_open(struct held *h, int nodes, const char *text)
{
    setenv("PMIX_RANK", "7", 1); /* as if mpirun had started this process */
    h->f = open_all();
    h->hosts = xzalloc(sizeof *h->hosts);
    for (int i = 1; i <= nodes; i++) {
        AUTO(free) char *name = xasprintf("127.0.0.%d", i);
        hosts_add(h->hosts, name, 2 / nodes, 0);
    }
    h->spec = script(2, h->argv, text);
    h->spec.hosts = h->hosts;
    h->spec.node_resources = h->parts;
    h->spec.engine = "external";
    h->job = begin(h->f, 0, &h->spec);
}

static void start_agent(struct held *h, int node)
{
    struct err e = {0};
    const char *token = NULL;
    AUTO(free) char *control = launch_join_ticket(h->job->job, &token);
    const struct agent_spawn_opts ask = {control, token, node, NULL};
    if (agent_spawn_start(&h->agents[node], h->f->l, &ask, on_agents_ended, h, &e) < 0)
        FAIL("%s", e.text);
}

static void until_ended(struct held *h, int n)
{
    while (h->ended < n)
        uv_run(&h->f->loop, UV_RUN_ONCE);
}

static void held_close(struct held *h)
{
    agent_spawn_free(h->agents[0]);
    agent_spawn_free(h->agents[1]);
    close_all(h->f);
    hosts_free(h->hosts);
}

TEST(ranks_run_when_all_agents_are_there_and_agents_exit_with_the_job)
{
    struct held h = {0};
    char dir[] = "/tmp/drover-agents-XXXXXX";
    CHECK(mkdtemp(dir));
    AUTO(free) char *spoke = xasprintf("%s/spoke", dir);
    AUTO(free)
    char *text = xasprintf("echo $RANK of $WORLD_SIZE ${PMIX_RANK-none}\n"
                           "test $RANK = 1 || exec touch %s\n"
                           "while ! test -e %s; do sleep 0.01; done\n"
                           "exit 3",
                           spoke, spoke); /* its failure ends the other rank */
    held_open(&h, 2, text);
    start_agent(&h, 1);
    start_agent(&h, 0);
    until_over(h.job);
    CHECK_HAS(strbuf_str(&h.job->out), "0o0 of 2 none|");
    CHECK_HAS(strbuf_str(&h.job->out), "1o1 of 2 none|");
    CHECK_INT(h.job->end.status, 3);
    CHECK_INT(h.job->end.first_failed, 1);
    until_ended(&h, 2); /* by themselves */
    held_close(&h);
    unlink(spoke);
    rmdir(dir);
}

TEST(each_node_has_its_own_resources)
{
    struct held h = {0};
    AUTO(topo) struct topo *t = NULL;
    CHECK_INT(topo_load(&t, NULL), 0);
    AUTO(free) char *one = xasprintf("%d", hwloc_bitmap_first(topo_allowed(t)));
    held_open(&h, 1, "taskset -pc $$ | sed 's/.*: /on /'");
    h.parts[0].cpus = one;
    start_agent(&h, 0);
    until_over(h.job);
    CHECK_INT(h.job->end.status, 0);
    AUTO(free) char *said = xasprintf("1oon %s|", one);
    CHECK_HAS(strbuf_str(&h.job->out), said);
    until_ended(&h, 1);
    held_close(&h);
}

TEST(ranks_whose_agent_is_killed_are_lost_and_those_of_other_nodes_can_save)
{
    struct held h = {0};
    held_open(&h, 2, "trap 'echo saved; exit 0' TERM; echo here; while :; do sleep 0.01; done");
    start_agent(&h, 0);
    start_agent(&h, 1);
    until_heard(h.job, &h.job->out, "0ohere");
    until_heard(h.job, &h.job->out, "1ohere");
    agent_spawn_kill(h.agents[1]);
    agent_spawn_kill(h.agents[1]);
    until_over(h.job);
    CHECK(h.job->end.first.lost);
    CHECK_INT(h.job->end.first_failed, 1);
    CHECK_STR(h.job->broken,
              ""); /* no remote launcher has ended: nothing started the agents but this */
    CHECK_HAS(strbuf_str(&h.job->out), "0osaved|");
    until_ended(&h, 2);
    held_close(&h);
}

TEST(a_job_that_is_killed_before_its_agents_connect_ends)
{
    struct held h = {0};
    held_open(&h, 1, "echo never");
    launch_kill(h.job->job);
    until_over(h.job);
    CHECK_STR(strbuf_str(&h.job->out), "");
    start_agent(&h, 0); /* too late: the job does not listen any more */
    until_ended(&h, 1);
    held_close(&h);
}
