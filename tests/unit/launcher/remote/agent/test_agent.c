/* agent: an agent in a child process, and a launcher that is written by hand: it sends and receives
 * frames of the control connection. */
#include "launcher/remote/agent/agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <uv.h>

#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "launcher/plan/node_spec.h"
#include "launcher/remote/control/control.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/tree/exchange.h"
#include "tests/unit/test.h"

enum { NODE = 1, LIMIT_MS = 15000 };
/* The nodes of the job's ranks: the agent has the ranks 0 and 2. */
static const int rank_nodes[] = {NODE, 0, NODE, 0};
enum { RANKS = COUNT_OF(rank_nodes), FIRST = 0, SECOND = 2 };
static const char token[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/* What the agent has sent about one rank. */
struct rank_frames {
    struct strbuf output;
    json_t *exit, *not_started; /* the last of its type; NULL: none */
    int64_t pid;
    bool eof;
};

struct scene {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_timer_t limit;
    struct control *control; /* to the agent */
    pid_t agent;
    int lifeline;         /* closed when the agent's parent dies */
    struct strbuf frames; /* "type|" of each */
    struct rank_frames ranks[RANKS];
    json_t *hello, *credit, *refusal; /* the last of its type; NULL: none. refusal: `not_started`
                                         without a rank */
    int64_t port;
    struct exchange *exchange; /* the launcher's; NULL: none */
    bool topo_is_valid, disconnected;
};

static void keep(json_t **slot, json_t *head)
{
    json_decref(*slot);
    *slot = json_incref(head);
}

static void on_rank_frame(struct rank_frames *r, const struct control_frame *f)
{
    if (strcmp(f->type, "exit") == 0)
        keep(&r->exit, f->head);
    else if (strcmp(f->type, "not_started") == 0)
        keep(&r->not_started, f->head);
    else if (strcmp(f->type, "started") == 0)
        CHECK_INT(json_require_int(&r->pid, f->head, "pid", NULL), 0);
    else if (strcmp(f->type, "output") == 0)
        strbuf_add(&r->output, f->payload, f->len);
    else if (strcmp(f->type, "eof") == 0)
        r->eof = true;
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct scene *s = arg;
    int64_t rank = -1;
    strbuf_printf(&s->frames, "%s|", f->type);
    CHECK_INT(json_optional_int(&rank, f->head, "rank", NULL), 0);
    if (strcmp(f->type, "hello") == 0)
        keep(&s->hello, f->head);
    else if (strcmp(f->type, "credit") == 0)
        keep(&s->credit, f->head);
    else if (strcmp(f->type, "port") == 0)
        CHECK_INT(json_require_int(&s->port, f->head, "port", NULL), 0);
    else if (strcmp(f->type, "not_started") == 0 && rank < 0)
        keep(&s->refusal, f->head);
    if (strcmp(f->type, "topo") == 0) {
        AUTO(topo) struct topo *t = NULL;
        s->topo_is_valid = topo_import(&t, NULL, f->payload, f->len, NULL) == 0;
    } else if (strcmp(f->type, "exchange") == 0) {
        CHECK_INT(exchange_receive(s->exchange, NODE, f->payload, f->len, 0, NULL), 0);
    }
    if (rank >= 0) {
        CHECK(rank < RANKS && rank_nodes[rank] == NODE);
        on_rank_frame(&s->ranks[rank], f);
    }
}

static void on_disconnected(void *arg, const char *why)
{
    ((struct scene *)arg)->disconnected = true;
}

static void on_connection(uv_stream_t *listener, int status)
{
    static const struct control_events ev = {.frame = on_frame, .ended = on_disconnected};
    struct scene *s = listener->data;
    CHECK_INT(control_accept(&s->control, listener, token, &ev, s, NULL), 0);
    control_authenticate(s->control, CONTROL_SILENT_MS);
}

static void on_limit(uv_timer_t *t)
{
    struct scene *s = t->data;
    FAIL("no progress after %d s: %s", LIMIT_MS / 1000, strbuf_str(&s->frames));
}

static int listen_on_loopback(struct scene *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int len = sizeof at;
    uv_tcp_init(&s->loop, &s->listener);
    s->listener.data = s;
    CHECK_INT(uv_tcp_bind(&s->listener, (struct sockaddr *)&at, 0), 0);
    CHECK_INT(uv_listen((uv_stream_t *)&s->listener, 5, on_connection), 0);
    CHECK_INT(uv_tcp_getsockname(&s->listener, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* Forks an agent that connects to `address`. Before there is a loop: libuv's handles are not
 * shared. */
static pid_t fork_agent(int *lifeline, const char *address)
{
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(ends[1]);
        setenv(REMOTE_ENV_CONTROL, address, 1);
        setenv(REMOTE_ENV_TOKEN, token, 1);
        setenv(REMOTE_ENV_NODE, "1", 1);
        setenv("PMIX_RANK", "5", 1); /* as an outer launcher leaves them */
        setenv("SLURM_PROCID", "5", 1);
        setenv("SLURM_JOB_ID", "77", 1);
        _exit(agent_main(ends[0]));
    }
    close(ends[0]);
    *lifeline = ends[1];
    return pid;
}

static void scene_open(struct scene *s)
{
    memset(s, 0, sizeof *s);
    uv_loop_init(&s->loop);
    uv_timer_init(&s->loop, &s->limit);
    s->limit.data = s;
    uv_timer_start(&s->limit, on_limit, LIMIT_MS, 0);
    AUTO(free) char *address = xasprintf("127.0.0.1:%d", listen_on_loopback(s));
    s->agent = fork_agent(&s->lifeline, address);
}

static void until_frame(struct scene *s, const char *frame)
{
    while (!strstr(strbuf_str(&s->frames), frame)) {
        CHECK(!s->disconnected);
        uv_run(&s->loop, UV_RUN_ONCE);
    }
}

static int until_exit(struct scene *s)
{
    int status = 0;
    while (waitpid(s->agent, &status, WNOHANG) == 0) {
        uv_run(&s->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void scene_close(struct scene *s)
{
    control_close(s->control);
    uv_close((uv_handle_t *)&s->listener, NULL);
    uv_close((uv_handle_t *)&s->limit, NULL);
    CHECK_INT(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&s->loop), 0);
    json_decref(s->hello);
    json_decref(s->credit);
    json_decref(s->refusal);
    for (int i = 0; i < RANKS; i++) {
        json_decref(s->ranks[i].exit);
        json_decref(s->ranks[i].not_started);
        strbuf_free(&s->ranks[i].output);
    }
    strbuf_free(&s->frames);
    if (s->lifeline >= 0)
        close(s->lifeline);
}

static void send_type(struct scene *s, const char *type)
{
    control_send(s->control, json_pack("{s:s}", "t", type), NULL, 0);
}

static void send_for(struct scene *s, const char *type, int rank, const char *key, int64_t value)
{
    json_t *head = json_pack("{s:s,s:i}", "t", type, "rank", rank);
    if (key)
        json_object_set_new(head, key, json_integer(value));
    control_send(s->control, head, NULL, 0);
}

/* Sends the plan of four ranks that run `script` with the shell, or `program`. */
static void send_node_spec(struct scene *s, const char *program, const char *script, int stdin_rank)
{
    struct plan_node nodes[] = {
        {.name = (char *)"there", .local_size = 2},
        {.name = (char *)"here", .local_size = 2, .ranks = (int[]){FIRST, SECOND}}};
    struct plan_rank ranks[RANKS] = {0};
    char *rank_env[RANKS][2] = {0};
    char texts[RANKS][16];
    for (int i = 0; i < RANKS; i++) {
        snprintf(texts[i], sizeof texts[i], "RANK=%d", i);
        rank_env[i][0] = texts[i];
        ranks[i] =
            (struct plan_rank){.rank = i, .node = rank_nodes[i], .gpu = -1, .env = rank_env[i]};
    }
    char *argv[] = {(char *)program, (char *)"-c", (char *)script, NULL};
    struct plan p = {.engine = "openmpi",
                     .world_size = RANKS,
                     .node_count = 2,
                     .nodes = nodes,
                     .ranks = ranks,
                     .argv = argv,
                     .job_id = (char *)"job-1"};
    struct launch_node_settings opts = {
        .stdin_rank = stdin_rank, .no_pmix = !s->exchange, .tree_radix = TREE_RADIX};
    AUTO(strbuf) struct strbuf base = {0}, payload = {0};
    node_spec_base_env(&base, environ);
    json_t *head = node_spec_encode_job(&payload, &p, "/", &opts, &base);
    control_send(s->control, head, payload.data, payload.len);
    strbuf_reset(&payload);
    head = node_spec_encode(&payload, &p, NODE);
    control_send(s->control, head, payload.data, payload.len);
}

static void send_start(struct scene *s)
{
    json_t *head = json_pack("{s:s,s:i,s:i,s:i,s:s,s:[s,s]}", "t", "start", "port", (int)s->port,
                             "nodes", 2, "lost_after_ms", CONTROL_SILENT_MS, "address", "127.0.0.1",
                             "env", "LATE=x=y", "WITHOUT");
    control_send(s->control, head, NULL, 0);
}

/* From hello to the start of the ranks. The scene is open. */
static void start_in(struct scene *s, const char *program, const char *script, int stdin_rank)
{
    until_frame(s, "hello|");
    send_type(s, "topo_request");
    until_frame(s, "topo|");
    send_node_spec(s, program, script, stdin_rank);
    until_frame(s, "port|ready|");
    send_start(s);
}

static void start_program(struct scene *s, const char *program, const char *script, int stdin_rank)
{
    scene_open(s);
    start_in(s, program, script, stdin_rank);
}

static void start_ranks(struct scene *s, const char *script)
{
    start_program(s, "/bin/sh", script, -1);
}

static const char *output_of(struct scene *s, int rank)
{
    return strbuf_str(&s->ranks[rank].output);
}

static void until_ended(struct scene *s, int rank)
{
    while (!s->ranks[rank].exit || !s->ranks[rank].eof)
        uv_run(&s->loop, UV_RUN_ONCE);
}

static int exit_status(const struct scene *s, int rank)
{
    int64_t wait = -1;
    CHECK_INT(json_require_int(&wait, s->ranks[rank].exit, "wait", NULL), 0);
    return WIFEXITED(wait) ? WEXITSTATUS((int)wait) : 128 + WTERMSIG((int)wait);
}

/* From the exit of the ranks to the agent's. */
static void release(struct scene *s)
{
    send_type(s, "kill_tree");
    until_frame(s, "reaped|");
    send_type(s, "exit_agent");
    CHECK_INT(until_exit(s), 0);
    scene_close(s);
}

/* Waits for the ranks' line "up" and for their process ids, which may arrive in any order. */
static void until_up(struct scene *s)
{
    for (int i = 0; i < RANKS; i++)
        while (rank_nodes[i] == NODE && (s->ranks[i].pid <= 0 || !strstr(output_of(s, i), "up\n")))
            uv_run(&s->loop, UV_RUN_ONCE);
}

TEST(an_agent_says_who_it_is_and_exits_when_it_is_released)
{
    struct scene s;
    const char *text;
    int64_t number;
    scene_open(&s);
    until_frame(&s, "hello|");
    CHECK(json_object_get(s.hello, "token") == NULL); /* it is never sent */
    CHECK_INT(json_require_str(&text, s.hello, "version", NULL), 0);
    CHECK_STR(text, DROVER_VERSION);
    CHECK_INT(json_require_int(&number, s.hello, "protocol", NULL), 0);
    CHECK_INT(number, CONTROL_FRAME_PROTOCOL);
    CHECK_INT(json_require_int(&number, s.hello, "node", NULL), 0);
    CHECK_INT(number, NODE);
    CHECK_INT(json_require_str(&text, s.hello, "host", NULL), 0);
    send_type(&s, "exit_agent");
    CHECK_INT(until_exit(&s), 0);
    scene_close(&s);
}

TEST(it_sends_its_topology_on_request)
{
    struct scene s;
    scene_open(&s);
    until_frame(&s, "hello|");
    send_type(&s, "topo_request");
    until_frame(&s, "topo|");
    CHECK(s.topo_is_valid);
    release(&s);
}

TEST(it_runs_the_ranks_of_its_node_and_forwards_output_and_exit)
{
    struct scene s;
    start_ranks(&s, "echo $RANK $MASTER_ADDR:$MASTER_PORT $LATE; echo two >&2; exit 7$RANK");
    until_ended(&s, FIRST);
    until_ended(&s, SECOND);
    CHECK(s.ranks[FIRST].pid > 0 && s.ranks[SECOND].pid > 0);
    CHECK_INT(exit_status(&s, FIRST), 70);
    CHECK_INT(exit_status(&s, SECOND), 72);
    AUTO(free) char *first = xasprintf("0 127.0.0.1:%d x=y\n", (int)s.port);
    AUTO(free) char *second = xasprintf("2 127.0.0.1:%d x=y\n", (int)s.port);
    CHECK_HAS(output_of(&s, FIRST), first);
    CHECK_HAS(output_of(&s, SECOND), second);
    CHECK_HAS(output_of(&s, FIRST), "two\n");
    release(&s);
}

TEST(what_the_remote_launcher_has_set_does_not_reach_the_ranks_but_the_allocation_does)
{
    struct scene s;
    start_ranks(&s, "echo \"[$PMIX_RANK$SLURM_PROCID$DROVER_TOKEN$DROVER_CONTROL$SLURM_JOB_ID]\"");
    until_ended(&s, FIRST);
    until_ended(&s, SECOND);
    CHECK_STR(output_of(&s, FIRST), "[77]\n");
    CHECK_STR(output_of(&s, SECOND), "[77]\n");
    release(&s);
}

TEST(a_program_that_is_missing_is_reported_for_each_rank)
{
    struct scene s;
    start_program(&s, "/no/such/program", "", -1);
    while (!s.ranks[FIRST].not_started || !s.ranks[SECOND].not_started)
        uv_run(&s.loop, UV_RUN_ONCE);
    for (int i = FIRST; i <= SECOND; i += SECOND - FIRST) {
        const json_t *head = s.ranks[i].not_started;
        int64_t status;
        CHECK_INT(json_require_int(&status, head, "status", NULL), 0);
        CHECK_INT(status, 127);
        CHECK(json_is_false(json_object_get(head, "node_fault")));
    }
    release(&s);
}

TEST(a_message_for_another_node_is_refused)
{
    struct scene s;
    const char *why;
    scene_open(&s);
    until_frame(&s, "hello|");
    AUTO(strbuf) struct strbuf base = {0}, payload = {0};
    char *argv[] = {(char *)"true", NULL};
    struct plan_node node = {.name = (char *)"there", .local_size = 1, .ranks = (int[]){0}};
    struct plan_rank rank = {.gpu = -1};
    struct plan p = {.world_size = 1,
                     .node_count = 1,
                     .nodes = &node,
                     .ranks = &rank,
                     .argv = argv,
                     .job_id = (char *)"job-1"};
    struct launch_node_settings opts = {
        .stdin_rank = -1, .no_pmix = true, .tree_radix = TREE_RADIX};
    json_t *head = node_spec_encode_job(&payload, &p, "/", &opts, &base);
    control_send(s.control, head, payload.data, payload.len);
    strbuf_reset(&payload);
    head = node_spec_encode(&payload, &p, 0);
    control_send(s.control, head, payload.data, payload.len);
    until_frame(&s, "not_started|");
    CHECK_INT(json_require_str(&why, s.refusal, "why", NULL), 0);
    CHECK_HAS(why, "node 0");
    release(&s);
}

TEST(signals_reach_one_rank_or_all_and_their_status_is_sent)
{
    struct scene s;
    start_ranks(&s, "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.01; done");
    until_up(&s);
    send_type(&s, "status_request");
    until_frame(&s, "rank_status|rank_status|");
    send_for(&s, "signal", SECOND, "signal", SIGUSR1);
    until_ended(&s, SECOND);
    CHECK_INT(exit_status(&s, SECOND), 5);
    CHECK_HAS(output_of(&s, SECOND), "got\n");
    CHECK(!s.ranks[FIRST].exit);
    control_send(s.control, json_pack("{s:s,s:i}", "t", "signal", "signal", SIGUSR1), NULL, 0);
    until_ended(&s, FIRST);
    CHECK_INT(exit_status(&s, FIRST), 5);
    release(&s);
}

TEST(stdin_reaches_the_rank_that_reads_it_and_is_credited)
{
    struct scene s;
    int64_t number;
    start_program(&s, "/bin/sh", "cat; exit 4", SECOND);
    until_ended(&s, FIRST); /* it reads /dev/null */
    CHECK_STR(output_of(&s, FIRST), "");
    control_send(s.control, json_pack("{s:s,s:i}", "t", "stdin", "rank", SECOND), "some input\n",
                 11);
    until_frame(&s, "credit|");
    CHECK_INT(json_require_int(&number, s.credit, "bytes", NULL), 0);
    CHECK_INT(number, 11);
    CHECK_INT(json_require_int(&number, s.credit, "rank", NULL), 0);
    CHECK_INT(number, SECOND);
    send_for(&s, "stdin", SECOND, NULL, 0); /* the end */
    until_ended(&s, SECOND);
    CHECK_STR(output_of(&s, SECOND), "some input\n");
    CHECK_INT(exit_status(&s, SECOND), 4);
    release(&s);
}

/* The first rank is never credited, the second one always: the first must not pause it. */
TEST(output_of_a_rank_stops_until_it_is_credited_and_that_of_others_goes_on)
{
    enum { BYTES = 1000000 };
    struct scene s;
    start_ranks(&s, "head -c 1000000 /dev/zero | tr '\\0' x");
    struct strbuf *first = &s.ranks[FIRST].output, *second = &s.ranks[SECOND].output;
    for (size_t credited = 0; !s.ranks[SECOND].eof || first->len < CONTROL_WINDOW;) {
        if (second->len > credited)
            send_for(&s, "credit", SECOND, "bytes", (int64_t)(second->len - credited));
        credited = second->len;
        uv_run(&s.loop, UV_RUN_ONCE);
    }
    until_ended(&s, SECOND);
    CHECK(first->len < 2 * CONTROL_WINDOW && !s.ranks[FIRST].eof);
    for (size_t credited = 0; !s.ranks[FIRST].eof;) {
        if (first->len > credited)
            send_for(&s, "credit", FIRST, "bytes", (int64_t)(first->len - credited));
        credited = first->len;
        uv_run(&s.loop, UV_RUN_ONCE);
    }
    until_ended(&s, FIRST);
    CHECK_INT(first->len, BYTES);
    release(&s);
}

/* ---- PMI-1 over two nodes: the launcher and node 0 have only their exchanges ---------------- */

static const struct tree tree = {2, TREE_RADIX};

/* The launcher's exchange sends: to the agent, or to node 0, whose exchange is `other`. */
static void on_send(void *arg, int to, const char *bytes, size_t len)
{
    struct scene *s = arg;
    if (to == NODE)
        control_send(s->control, json_pack("{s:s}", "t", "exchange"), bytes, len);
}

static void on_send_from_other(void *arg, int to, const char *bytes, size_t len)
{
    struct scene *s = arg;
    CHECK_INT(to, TREE_LAUNCHER);
    CHECK_INT(exchange_receive(s->exchange, 0, bytes, len, 0, NULL), 0);
}

static void on_deliver(void *arg, const struct exchange_message *m)
{
    FAIL("a message for a PMIx server that does not exist");
}

#define PMI1_SCRIPT                                                                       \
    "say() { echo \"$1\" >&$PMI_FD; IFS= read -r answer <&$PMI_FD; echo \"$answer\"; }; " \
    "say 'cmd=init pmi_version=1 pmi_subversion=1'; say 'cmd=barrier_in'; say cmd=finalize"

TEST(a_barrier_of_pmi1_waits_for_the_other_node)
{
    static const struct exchange_events at_launcher = {on_send, on_deliver};
    static const struct exchange_events at_other = {on_send_from_other, on_deliver};
    struct scene s;
    scene_open(&s);
    s.exchange = exchange_new(&tree, TREE_LAUNCHER, rank_nodes, RANKS, &at_launcher, &s);
    AUTO(exchange)
    struct exchange *other = exchange_new(&tree, 0, rank_nodes, RANKS, &at_other, &s);
    start_in(&s, "/bin/sh", PMI1_SCRIPT, -1);
    until_frame(&s, "exchange|"); /* both ranks of the node are in the barrier */
    CHECK_HAS(strbuf_str(&s.frames), "joined|");
    CHECK(!strstr(output_of(&s, FIRST), "barrier_out") && !s.ranks[FIRST].exit);
    const struct exchange_message fence = {.type = EXCHANGE_FENCE, .kind = EXCHANGE_PMI1};
    (void)exchange_submit(other, &fence, 0, NULL);
    until_ended(&s, FIRST);
    until_ended(&s, SECOND);
    CHECK_HAS(output_of(&s, FIRST), "cmd=barrier_out");
    CHECK_HAS(output_of(&s, SECOND), "cmd=finalize_ack");
    CHECK_HAS(strbuf_str(&s.frames), "finalized|");
    exchange_free(s.exchange);
    release(&s);
}

TEST(kill_tree_ends_ranks_that_ignore_signals_and_their_children)
{
    struct scene s;
    start_ranks(&s, "trap '' TERM HUP INT; setsid sleep 1000 & echo up; wait; sleep 1000");
    until_up(&s);
    send_type(&s, "kill_tree");
    while (!s.ranks[FIRST].exit || !s.ranks[SECOND].exit)
        uv_run(&s.loop, UV_RUN_ONCE);
    until_frame(&s, "reaped|");
    CHECK_INT(exit_status(&s, FIRST), 128 + SIGKILL);
    CHECK_INT(exit_status(&s, SECOND), 128 + SIGKILL);
    send_type(&s, "exit_agent");
    CHECK_INT(until_exit(&s), 0);
    scene_close(&s);
}

TEST(a_rejection_ends_it)
{
    struct scene s;
    scene_open(&s);
    until_frame(&s, "hello|");
    control_send(s.control, json_pack("{s:s,s:s}", "t", "reject", "why", "version mismatch"), NULL,
                 0);
    CHECK_INT(until_exit(&s), 0);
    scene_close(&s);
}

TEST(the_death_of_its_parent_is_reported_and_the_ranks_still_run)
{
    struct scene s;
    start_ranks(&s, "echo up; exec sleep 1000");
    until_up(&s);
    close(s.lifeline);
    s.lifeline = -1;
    until_frame(&s, "parent_died|");
    CHECK_INT(kill((pid_t)s.ranks[FIRST].pid, 0), 0);
    CHECK_INT(kill((pid_t)s.ranks[SECOND].pid, 0), 0);
    CHECK(!s.ranks[FIRST].exit && !s.ranks[SECOND].exit && !s.disconnected);
    release(&s);
}

TEST(it_kills_its_ranks_if_the_launcher_disconnects)
{
    struct scene s;
    start_ranks(&s, "trap '' TERM; echo up; sleep 1000; sleep 1000");
    until_up(&s);
    control_close(TAKE(s.control));
    CHECK_INT(until_exit(&s), 0);
    for (int i = FIRST; i <= SECOND; i += SECOND - FIRST) {
        while (kill((pid_t)s.ranks[i].pid, 0) == 0) /* the guardian may still reap it */
            usleep(1000);
        CHECK_INT(errno, ESRCH);
    }
    scene_close(&s);
}

TEST(without_a_launcher_it_fails)
{
    int lifeline, status = 0;
    pid_t pid = fork_agent(&lifeline, "127.0.0.1:1");
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    close(lifeline);
}
