/* remote_start, remote_peers: the start and end of a job, with an mpirun that only writes down
 * where the launcher listens. The agents are written by hand here. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "launcher/node/topo.h"
#include "launcher/plan/hosts.h"
#include "launcher/remote/control/control.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/tree/exchange.h"
#include "tests/unit/kit_launch.h"

enum { PEERS = 4 };

struct peer {
    struct scene *s;
    struct control *control;
    struct strbuf frames; /* "type|" of each */
    bool ended;
};

struct scene {
    struct fixture *f;
    char dir[40], path[PATH_MAX];
    char control[256], token[128], *argv[4];
    struct hosts *hosts;
    int lost_after_ms;
    struct launch_spec spec;
    struct peer peers[PEERS];
};

/* A directory with an `mpirun` in it, first in PATH. */
static void scene_open(struct scene *s, const char *mpirun)
{
    memset(s, 0, sizeof *s);
    strcpy(s->dir, "/tmp/drover-test-XXXXXX");
    CHECK(mkdtemp(s->dir));
    AUTO(free) char *path = xasprintf("%s/mpirun", s->dir);
    FILE *f = fopen(path, "w");
    fprintf(f, "#!/bin/sh\n%s\n", mpirun);
    fclose(f);
    chmod(path, 0755);
    snprintf(s->path, sizeof s->path, "%s:%s", s->dir, getenv("PATH"));
    setenv("PATH", s->path, 1);
    setenv("SCENE", s->dir, 1);
    s->f = open_all();
}

static void scene_close(struct scene *s)
{
    for (int i = 0; i < PEERS; i++) {
        control_close(s->peers[i].control);
        strbuf_free(&s->peers[i].frames);
    }
    close_all(s->f);
    hosts_free(s->hosts);
    AUTO(free) char *rm = xasprintf("rm -r %s", s->dir);
    CHECK_INT(system(rm), 0);
}

#define WRITE_TICKET "echo $DROVER_CONTROL $DROVER_TOKEN >$SCENE/new; mv $SCENE/new $SCENE/ticket; "
#define UNTIL_DIE "while [ ! -e $SCENE/die ]; do sleep 0.01; done; "
static const char waits[] = WRITE_TICKET "exec sleep 100";

/* A job of three ranks: rank 0 is on node 0, the others are on node 1. */
static struct heard *begin_remote(struct scene *s, int start_timeout_ms)
{
    s->spec = far_script(3, s->argv, "echo hi");
    s->hosts = two_hosts(1, 2);
    s->spec.hosts = s->hosts;
    s->spec.lost_after_ms = s->lost_after_ms;
    s->spec.oversubscribe = true;
    s->spec.engine = "openmpi";
    s->spec.start_timeout_ms = start_timeout_ms;
    return begin(s->f, 0, &s->spec);
}

static void end_mpirun(const struct scene *s)
{
    AUTO(free) char *path = xasprintf("%s/die", s->dir);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
}

/* Until the mpirun has written the join ticket. */
static void until_ticket(struct scene *s)
{
    AUTO(free) char *path = xasprintf("%s/ticket", s->dir);
    FILE *f = NULL;
    while (!(f = fopen(path, "r")))
        uv_run(&s->f->loop, UV_RUN_NOWAIT);
    CHECK_INT(fscanf(f, "%255s %127s", s->control, s->token), 2);
    fclose(f);
    CHECK_INT(strlen(s->token), 64);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct peer *p = arg;
    strbuf_printf(&p->frames, "%s|", f->type);
}

static void on_peer_ended(void *arg, const char *why)
{
    struct peer *p = arg;
    p->ended = true;
}

static struct peer *connect_peer(struct scene *s, int i, const char *token)
{
    static const struct control_events ev = {.frame = on_frame, .ended = on_peer_ended};
    struct peer *p = &s->peers[i];
    int fd = -1;
    p->s = s;
    CHECK_INT(control_connect(&fd, s->control, 5000, NULL), 0);
    CHECK_INT(control_open(&p->control, &s->f->loop, fd, token, &ev, p, NULL), 0);
    control_authenticate(p->control, 15000);
    return p;
}

static void send_head(struct peer *p, json_t *head)
{
    control_send(p->control, head, NULL, 0);
}

static struct peer *hello(struct scene *s, int i, const char *token, int node)
{
    struct peer *p = connect_peer(s, i, token);
    send_head(p, json_pack("{s:s,s:s,s:i,s:i,s:s}", "t", "hello", "version", DROVER_VERSION,
                           "protocol", CONTROL_FRAME_PROTOCOL, "node", node, "host", "by-hand"));
    return p;
}

static void until_peer(struct peer *p, const char *frame)
{
    while (!strstr(strbuf_str(&p->frames), frame)) {
        CHECK(!p->ended);
        uv_run(&p->s->f->loop, UV_RUN_ONCE);
    }
}

static void until_dropped(struct peer *p)
{
    while (!p->ended)
        uv_run(&p->s->f->loop, UV_RUN_ONCE);
}

static void send_topo(struct peer *p)
{
    AUTO(free) char *bytes = NULL;
    size_t len = 0;
    CHECK_INT(topo_export(&bytes, &len, p->s->f->l->topo, NULL), 0);
    control_send(p->control, json_pack("{s:s}", "t", "topo"), bytes, len);
}

static struct peer *until_configured(struct scene *s, int node)
{
    struct peer *p = hello(s, node, s->token, node);
    until_peer(p, "topo_request|");
    send_topo(p);
    until_peer(p, "node_spec|");
    return p;
}

/* Both agents connect, are configured and ready, and get `start`. */
static void until_started(struct scene *s)
{
    struct peer *a = until_configured(s, 0);
    send_head(a, json_pack("{s:s,s:i}", "t", "port", "port", 4711));
    send_head(a, json_pack("{s:s}", "t", "ready"));
    struct peer *b = until_configured(s, 1);
    CHECK(!strstr(strbuf_str(&a->frames), "start|"));
    send_head(b, json_pack("{s:s}", "t", "ready"));
    until_peer(b, "start|");
    until_peer(a, "start|");
    CHECK_STR(strbuf_str(&a->frames), "job|topo_request|node_spec|start|");
    CHECK_STR(strbuf_str(&b->frames), "job|topo_request|node_spec|start|");
}

static void exits(struct peer *p, int rank, int wait)
{
    send_head(p, json_pack("{s:s,s:i,s:i}", "t", "started", "rank", rank, "pid", 1234));
    control_send(p->control, json_pack("{s:s,s:i,s:i}", "t", "output", "rank", rank, "from", 1),
                 "one\ntwo", 7);
    send_head(p, json_pack("{s:s,s:i,s:i,s:b}", "t", "exit", "rank", rank, "wait", wait, "oom", 0));
    send_head(p, json_pack("{s:s,s:i}", "t", "eof", "rank", rank));
}

static void clears(struct peer *p)
{
    until_peer(p, "kill_tree|");
    send_head(p, json_pack("{s:s}", "t", "reaped"));
}

/* All ranks, from their exit on. */
static void all_exit(struct scene *s, int wait, int wait_2)
{
    exits(&s->peers[0], 0, wait);
    exits(&s->peers[1], 1, wait);
    exits(&s->peers[1], 2, wait_2);
    for (int i = 0; i < 2; i++)
        clears(&s->peers[i]);
    for (int i = 0; i < 2; i++)
        until_peer(&s->peers[i], "exit_agent|");
}

TEST(all_agents_connect_start_are_reaped_and_released)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    all_exit(&s, 0, 3 << 8);
    until_over(h);
    CHECK_INT(h->end.status, 3);
    CHECK_HAS(strbuf_str(&h->out), "0oone|");
    CHECK_HAS(strbuf_str(&h->out), "0otwo|");
    CHECK_HAS(strbuf_str(&h->out), "2otwo|");
    CHECK_INT(h->end.first_failed, 2);
    CHECK(h->end.seconds < 5); /* this mpirun never exits by itself */
    scene_close(&s);
}

/* Once mpirun's child has ended, mpirun's process tree is being killed: from then on the loop does
 * not run until each timer is due. */
static void on_prepare(uv_prepare_t *p)
{
    pid_t child = *(pid_t *)p->data;
    for (int i = 0; i < 100 && kill(child, 0) == 0; i++)
        usleep(100);
    if (kill(child, 0) == 0)
        return;
    usleep(300000);
    uv_close((uv_handle_t *)p, NULL);
}

TEST(an_mpirun_that_exits_just_at_its_limit_does_no_harm)
{
    struct scene s;
    uv_prepare_t late;
    pid_t child;
    scene_open(&s, "sleep 100 & echo $! >$SCENE/child; " WRITE_TICKET UNTIL_DIE);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    all_exit(&s, 0, 3 << 8);
    AUTO(free) char *path = xasprintf("%s/child", s.dir);
    AUTO(file) FILE *f = fopen(path, "r");
    CHECK_INT(fscanf(f, "%d", &child), 1);
    late.data = &child;
    uv_prepare_init(&s.f->loop, &late);
    uv_prepare_start(&late, on_prepare);
    end_mpirun(&s);
    until_over(h);
    CHECK_INT(h->end.status, 3);
    scene_close(&s);
}

TEST(peers_without_the_token_and_a_second_agent_of_a_node_are_rejected_and_the_job_continues)
{
    struct scene s;
    char wrong[65];
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    memset(wrong, '0', 64);
    wrong[64] = '\0';
    until_dropped(hello(&s, 2, wrong, 0));
    CHECK_STR(strbuf_str(&s.peers[2].frames), "");
    control_close(TAKE(s.peers[2].control));
    s.peers[2].ended = false;
    struct peer *garbage = connect_peer(&s, 2, s.token);
    send_head(garbage, json_pack("{s:s}", "t", "exit"));
    until_dropped(garbage);
    CHECK_STR(strbuf_str(&garbage->frames), "reject|");
    strbuf_reset(&garbage->frames);
    control_close(TAKE(s.peers[2].control));
    s.peers[2].ended = false;
    until_started(&s);
    struct peer *second = hello(&s, 2, s.token, 1);
    until_dropped(second);
    CHECK_STR(strbuf_str(&second->frames), "reject|");
    CHECK(!h->over);
    launch_kill(h->job);
    control_close(TAKE(s.peers[0].control));
    control_close(TAKE(s.peers[1].control));
    until_over(h);
    scene_close(&s);
}

TEST(a_node_whose_agent_does_not_connect_in_time_is_named)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 1000);
    until_ticket(&s);
    struct peer *a = hello(&s, 0, s.token, 0);
    clears(a);
    until_over(h);
    CHECK_INT(h->end.status, 126);
    CHECK_INT(h->end.first_failed, 1);
    CHECK_HAS(h->end.first.start_error,
              "no agent connected from 127.0.0.2 within 1 s; try: open port ");
    CHECK_HAS(strbuf_str(&a->frames), "exit_agent|");
    scene_close(&s);
}

TEST(an_mpirun_that_fails_is_quoted)
{
    struct scene s;
    scene_open(&s, "echo a word of explanation >&2; exit 3");
    struct heard *h = begin_remote(&s, 0);
    until_over(h);
    CHECK_INT(h->end.status, 126);
    CHECK_HAS(h->end.first.start_error, "mpirun exited with status 3");
    CHECK_HAS(h->last_line, "mpirun: a word of explanation");
    scene_close(&s);
}

TEST(an_agent_that_is_not_ready_in_time_is_named)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 1000);
    until_ticket(&s);
    struct peer *a = until_configured(&s, 0);
    send_head(a, json_pack("{s:s,s:i}", "t", "port", "port", 4711));
    send_head(a, json_pack("{s:s}", "t", "ready"));
    struct peer *b = until_configured(&s, 1);
    clears(b);
    clears(a);
    until_over(h);
    CHECK_INT(h->end.first_failed, 1);
    CHECK_HAS(h->end.first.start_error, "127.0.0.2: the agent was not ready within 1 s");
    scene_close(&s);
}

TEST(an_agent_that_dies_loses_all_ranks_of_its_node_and_ends_the_job)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    control_close(TAKE(s.peers[1].control));
    until_peer(&s.peers[0], "signal|");
    exits(&s.peers[0], 0, SIGTERM);
    clears(&s.peers[0]);
    until_over(h);
    CHECK_INT(h->end.first_failed, 1);
    CHECK_INT(h->ranks_ended, 3);
    CHECK(h->end.first.lost);
    CHECK_STR(h->end.first.lost_how,
              "its agent on 127.0.0.2 disconnected: the connection was closed");
    CHECK_INT(h->end.status, 1);
    scene_close(&s);
}

TEST(a_node_whose_agent_is_silent_is_lost)
{
    struct scene s;
    scene_open(&s, waits);
    s.lost_after_ms = 300; /* our agents send pings every 5 s only */
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    until_over(h);
    CHECK(h->end.first.lost);
    CHECK_HAS(h->end.first.lost_how, " is lost: silent for 0.3 s");
    scene_close(&s);
}

TEST(events_of_PMIx_decide_as_on_one_node)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    for (int rank = 0; rank < 3; rank++)
        send_head(&s.peers[rank > 0], json_pack("{s:s,s:i}", "t", "joined", "rank", rank));
    send_head(&s.peers[0], json_pack("{s:s,s:i}", "t", "finalized", "rank", 0));
    exits(&s.peers[0], 0, 0);
    exits(&s.peers[1], 2, 0); /* without MPI_Finalize */
    until_peer(&s.peers[1], "signal|");
    exits(&s.peers[1], 1, SIGTERM);
    for (int i = 0; i < 2; i++)
        clears(&s.peers[i]);
    until_over(h);
    CHECK_INT(h->end.first_failed, 2);
    CHECK_INT(h->end.first.mpi_fault, JOB_MPI_NO_FINALIZE);
    CHECK_INT(h->end.status, 1);
    scene_close(&s);
}

TEST(an_MPI_Abort_is_the_exit_status_unless_an_exit_of_another_node_came_first)
{
    for (int crashed = 0; crashed < 2; crashed++) {
        struct scene s;
        scene_open(&s, waits);
        struct heard *h = begin_remote(&s, 0);
        until_ticket(&s);
        until_started(&s);
        send_head(&s.peers[1], json_pack("{s:s,s:i,s:i}", "t", "aborted", "rank", 1, "code", 42));
        if (crashed) /* its exit was on its way */
            exits(&s.peers[0], 0, SIGSEGV);
        until_peer(&s.peers[1], "signal|");
        if (!crashed)
            exits(&s.peers[0], 0, SIGTERM);
        exits(&s.peers[1], 1, SIGTERM);
        exits(&s.peers[1], 2, SIGTERM);
        for (int i = 0; i < 2; i++)
            clears(&s.peers[i]);
        until_over(h);
        CHECK_INT(h->end.first_failed, crashed ? 0 : 1);
        CHECK_INT(h->end.status, crashed ? 128 + SIGSEGV : 42);
        scene_close(&s);
    }
}

TEST(fences_of_the_nodes_meet_at_the_launcher)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    for (int i = 0; i < 2; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        const struct exchange_message m = {
            .type = EXCHANGE_FENCE, .kind = EXCHANGE_MODEX, .node = i};
        exchange_message_encode(&b, &m);
        CHECK(!strstr(strbuf_str(&s.peers[0].frames), "exchange|"));
        control_send(s.peers[i].control, json_pack("{s:s}", "t", "exchange"), b.data, b.len);
    }
    until_peer(&s.peers[0], "exchange|");
    until_peer(&s.peers[1], "exchange|");
    all_exit(&s, 0, 0);
    until_over(h);
    CHECK_INT(h->end.status, 0);
    scene_close(&s);
}

TEST(after_the_start_no_message_of_mpirun_is_taken_for_a_failed_start)
{
    static const struct {
        const char *script, *says;
    } ends[] = {
        {WRITE_TICKET UNTIL_DIE
         "echo 'ORTE was unable to reliably start one or more daemons.'; exit 1",
         "exited with status 1"},
        {WRITE_TICKET UNTIL_DIE "echo 'An ORTE daemon has unexpectedly failed after launch'; "
                                "echo '  remote host: c02'; exit 1",
         "host c02: its Open MPI daemon exited"},
    };
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        struct scene s;
        scene_open(&s, ends[i].script);
        struct heard *h = begin_remote(&s, 0);
        until_ticket(&s);
        until_started(&s);
        end_mpirun(&s);
        until_peer(&s.peers[0], "signal|");
        all_exit(&s, 0, SIGTERM);
        until_over(h);
        CHECK_HAS(h->broken, ends[i].says);
        CHECK(!strstr(h->broken, "start"));
        scene_close(&s);
    }
}

TEST(if_mpirun_is_killed_the_job_is_stopped_with_its_grace_period)
{
    struct scene s;
    scene_open(&s, WRITE_TICKET UNTIL_DIE "kill -9 $$");
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    end_mpirun(&s);
    until_peer(&s.peers[0], "signal|");
    until_peer(&s.peers[1], "signal|");
    all_exit(&s, SIGTERM, SIGTERM);
    until_over(h);
    CHECK_INT(h->end.first_failed, -1);
    CHECK_HAS(h->broken, "mpirun was killed by signal 9");
    CHECK_INT(h->end.status, 128 + SIGTERM);
    scene_close(&s);
}

TEST(a_job_that_is_stopped_before_all_agents_connect_ends_at_once)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    struct peer *a = hello(&s, 0, s.token, 0);
    until_peer(a, "topo_request|");
    launch_stop(h->job, 0);
    clears(a);
    until_over(h);
    CHECK(h->end.stopped && h->end.seconds < 3);
    scene_close(&s);
}

TEST(without_mpirun_the_error_says_what_to_install)
{
    struct scene s;
    char *argv[4];
    struct err e = {0};
    scene_open(&s, waits);
    setenv("PATH", "/nowhere", 1);
    launch_context_close(s.f->l);
    CHECK_INT(launch_context_open(&s.f->l, &s.f->loop, s.f->g, &e), 0);
    struct launch_spec spec = far_script(2, argv, "true");
    spec.engine = "openmpi";
    CHECK_INT(launch_start(&s.f->jobs[0].job, s.f->l, &spec, &kit_events, &s.f->jobs[0], &e),
              -ENOENT);
    CHECK_HAS(e.text, "mpirun");
    CHECK_HAS(e.hint, "openmpi-bin");
    setenv("PATH", "/usr/bin:/bin", 1);
    scene_close(&s);
}

/* Runs the loop for a moment, so that it sees what the peers did. */
static void run_for(struct scene *s, uint64_t ms)
{
    uint64_t end = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < end)
        uv_run(&s->f->loop, UV_RUN_NOWAIT);
}

TEST(a_job_that_is_killed_just_after_an_agent_disconnected_does_not_wait_for_the_reap_limit)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    until_started(&s);
    control_close(TAKE(s.peers[1].control));
    run_for(&s, 20);
    launch_kill(h->job);
    exits(&s.peers[0], 0, SIGKILL);
    clears(&s.peers[0]);
    until_over(h);
    CHECK(h->end.first.lost && h->end.seconds < 10);
    scene_close(&s);
}

TEST(a_job_that_is_killed_before_all_agents_connect_ends_at_once)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    struct peer *a = hello(&s, 0, s.token, 0);
    until_peer(a, "topo_request|");
    launch_kill(h->job);
    CHECK_INT(h->ranks_ended, 0); /* no event inside the call */
    clears(a);
    until_over(h);
    CHECK_INT(h->ranks_ended, 3);
    CHECK(h->end.stopped && h->end.seconds < 3);
    scene_close(&s);
}

TEST(an_agent_of_another_version_ends_the_start)
{
    struct scene s;
    scene_open(&s, waits);
    struct heard *h = begin_remote(&s, 0);
    until_ticket(&s);
    struct peer *p = connect_peer(&s, 0, s.token);
    send_head(p, json_pack("{s:s,s:s,s:i,s:i,s:s}", "t", "hello", "version", "0.0.1", "protocol",
                           CONTROL_FRAME_PROTOCOL, "node", 1, "host", "old"));
    until_dropped(p);
    until_over(h);
    CHECK_INT(h->end.status, 2);
    CHECK_INT(h->end.first_failed, 1);
    CHECK_HAS(h->end.first.start_error, "version mismatch: old has drover 0.0.1");
    scene_close(&s);
}
