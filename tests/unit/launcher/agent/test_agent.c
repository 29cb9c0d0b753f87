/* agent: an agent in a child process, and a launcher that is written by hand: it sends and receives
 * frames of the control connection. */
#include "launcher/remote/agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <uv.h>

#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "launcher/plan/rank_spec.h"
#include "launcher/remote/control.h"
#include "launcher/remote/remote_launcher.h"
#include "tests/unit/test.h"

enum { RANK = 3, LIMIT_MS = 15000 };
static const char token[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

struct scene {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_timer_t limit;
    struct control *control; /* to the agent */
    pid_t agent;
    int lifeline;         /* closed when the agent's parent dies */
    struct strbuf frames; /* "type|" of each */
    struct strbuf output;
    json_t *hello, *exit, *not_started, *credit; /* the last of its type; NULL: none */
    int64_t pid, port;
    bool topo_is_valid, disconnected;
};

static void keep(json_t **slot, json_t *head)
{
    json_decref(*slot);
    *slot = json_incref(head);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct scene *s = arg;
    strbuf_printf(&s->frames, "%s|", f->type);
    if (strcmp(f->type, "hello") == 0)
        keep(&s->hello, f->head);
    else if (strcmp(f->type, "exit") == 0)
        keep(&s->exit, f->head);
    else if (strcmp(f->type, "not_started") == 0)
        keep(&s->not_started, f->head);
    else if (strcmp(f->type, "credit") == 0)
        keep(&s->credit, f->head);
    else if (strcmp(f->type, "started") == 0)
        CHECK_INT(json_require_int(&s->pid, f->head, "pid", NULL), 0);
    else if (strcmp(f->type, "port") == 0)
        CHECK_INT(json_require_int(&s->port, f->head, "port", NULL), 0);
    else if (strcmp(f->type, "output") == 0)
        strbuf_add(&s->output, f->payload, f->len);
    if (strcmp(f->type, "topo") == 0) {
        AUTO(topo) struct topo *t = NULL;
        s->topo_is_valid = topo_import(&t, f->payload, f->len, NULL) == 0;
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
        setenv(REMOTE_ENV_RANK, "3", 1);
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
    json_decref(s->exit);
    json_decref(s->not_started);
    json_decref(s->credit);
    strbuf_free(&s->frames);
    strbuf_free(&s->output);
    if (s->lifeline >= 0)
        close(s->lifeline);
}

static void send_type(struct scene *s, const char *type)
{
    control_send(s->control, json_pack("{s:s}", "t", type), NULL, 0);
}

static void send_rank_spec(struct scene *s, const char *program, const char *script,
                           bool with_stdin)
{
    struct plan_node node = {.name = (char *)"here", .local_size = 1};
    struct plan_rank rank = {.rank = RANK, .gpu = -1};
    char *argv[] = {(char *)program, (char *)"-c", (char *)script, NULL};
    struct plan p = {.world_size = 1,
                     .node_count = 1,
                     .nodes = &node,
                     .ranks = &rank,
                     .argv = argv,
                     .job_id = (char *)"job-1"};
    struct rank_spec_opts opts = {.port = true, .with_stdin = with_stdin};
    AUTO(strbuf) struct strbuf base = {0}, payload = {0};
    rank_spec_base_env(&base, environ);
    json_t *head = rank_spec_encode(&payload, &p, 0, "/", &opts, &base);
    control_send(s->control, head, payload.data, payload.len);
}

/* hello, rank spec, start. */
static void start_rank(struct scene *s, const char *script)
{
    scene_open(s);
    until_frame(s, "hello|");
    send_rank_spec(s, "/bin/sh", script, false);
    until_frame(s, "port|");
    control_send(s->control,
                 json_pack("{s:s,s:i,s:i,s:i,s:s}", "t", "start", "port", (int)s->port, "nodes", 1,
                           "lost_after_ms", CONTROL_SILENT_MS, "address", "127.0.0.1"),
                 NULL, 0);
}

static int exit_status(const struct scene *s)
{
    int64_t wait = -1;
    CHECK_INT(json_require_int(&wait, s->exit, "wait", NULL), 0);
    return WIFEXITED(wait) ? WEXITSTATUS((int)wait) : 128 + WTERMSIG((int)wait);
}

/* From the rank's exit to the agent's. */
static void release(struct scene *s)
{
    send_type(s, "kill_tree");
    until_frame(s, "reaped|");
    send_type(s, "exit_agent");
    CHECK_INT(until_exit(s), 0);
    scene_close(s);
}

/* Waits for the rank's line "up" and for its process id, which may arrive in any order. */
static void until_up(struct scene *s)
{
    while (s->pid <= 0 || !strstr(strbuf_str(&s->output), "up\n"))
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
    CHECK_INT(json_require_int(&number, s.hello, "rank", NULL), 0);
    CHECK_INT(number, RANK);
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

TEST(it_runs_its_rank_and_forwards_output_and_exit)
{
    struct scene s;
    start_rank(&s, "echo $MASTER_ADDR:$MASTER_PORT; echo two >&2; exit 7");
    until_frame(&s, "exit|");
    until_frame(&s, "eof|");
    CHECK(s.pid > 0 && strstr(strbuf_str(&s.frames), "started|"));
    CHECK_INT(exit_status(&s), 7);
    AUTO(free) char *address = xasprintf("127.0.0.1:%d\n", (int)s.port);
    CHECK_HAS(strbuf_str(&s.output), address);
    CHECK_HAS(strbuf_str(&s.output), "two\n");
    release(&s);
}

TEST(a_program_that_is_missing_is_reported)
{
    struct scene s;
    int64_t status;
    scene_open(&s);
    until_frame(&s, "hello|");
    send_rank_spec(&s, "/no/such/program", "", false);
    until_frame(&s, "port|");
    control_send(s.control,
                 json_pack("{s:s,s:i,s:i,s:i}", "t", "start", "port", (int)s.port, "nodes", 1,
                           "lost_after_ms", CONTROL_SILENT_MS),
                 NULL, 0);
    until_frame(&s, "not_started|");
    CHECK_INT(json_require_int(&status, s.not_started, "status", NULL), 0);
    CHECK_INT(status, 127);
    CHECK(json_is_false(json_object_get(s.not_started, "node_fault")));
    release(&s);
}

TEST(signals_reach_the_rank_and_its_status_is_sent)
{
    struct scene s;
    start_rank(&s, "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.01; done");
    until_up(&s);
    send_type(&s, "status_request");
    until_frame(&s, "rank_status|");
    control_send(s.control, json_pack("{s:s,s:i}", "t", "signal", "signal", SIGUSR1), NULL, 0);
    until_frame(&s, "exit|");
    until_frame(&s, "eof|");
    CHECK_INT(exit_status(&s), 5);
    CHECK_HAS(strbuf_str(&s.output), "got\n");
    release(&s);
}

TEST(stdin_reaches_the_rank_and_is_credited)
{
    struct scene s;
    int64_t bytes;
    scene_open(&s);
    until_frame(&s, "hello|");
    send_rank_spec(&s, "/bin/sh", "cat; exit 4", true);
    until_frame(&s, "port|");
    control_send(s.control,
                 json_pack("{s:s,s:i,s:i,s:i}", "t", "start", "port", (int)s.port, "nodes", 1,
                           "lost_after_ms", CONTROL_SILENT_MS),
                 NULL, 0);
    control_send(s.control, json_pack("{s:s}", "t", "stdin"), "some input\n", 11);
    until_frame(&s, "credit|");
    CHECK_INT(json_require_int(&bytes, s.credit, "bytes", NULL), 0);
    CHECK_INT(bytes, 11);
    send_type(&s, "stdin"); /* the end */
    until_frame(&s, "exit|");
    until_frame(&s, "eof|");
    CHECK_STR(strbuf_str(&s.output), "some input\n");
    CHECK_INT(exit_status(&s), 4);
    release(&s);
}

TEST(output_stops_until_it_is_credited)
{
    struct scene s;
    start_rank(&s, "head -c 1000000 /dev/zero | tr '\\0' x");
    while (s.output.len < CONTROL_WINDOW)
        uv_run(&s.loop, UV_RUN_ONCE);
    uint64_t end = uv_hrtime() + 200000000;
    while (uv_hrtime() < end)
        uv_run(&s.loop, UV_RUN_NOWAIT);
    CHECK(s.output.len < 2 * CONTROL_WINDOW);
    for (size_t credited = 0; s.output.len < 1000000;) {
        control_send(
            s.control,
            json_pack("{s:s,s:I}", "t", "credit", "bytes", (json_int_t)(s.output.len - credited)),
            NULL, 0);
        credited = s.output.len;
        uv_run(&s.loop, UV_RUN_ONCE);
    }
    until_frame(&s, "exit|");
    release(&s);
}

TEST(kill_tree_ends_a_rank_that_ignores_signals_and_its_children)
{
    struct scene s;
    start_rank(&s, "trap '' TERM HUP INT; setsid sleep 1000 & echo up; wait; sleep 1000");
    until_up(&s);
    send_type(&s, "kill_tree");
    until_frame(&s, "exit|");
    until_frame(&s, "reaped|");
    CHECK_INT(exit_status(&s), 128 + SIGKILL);
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

TEST(the_death_of_its_parent_is_reported_and_the_rank_still_runs)
{
    struct scene s;
    start_rank(&s, "echo up; exec sleep 1000");
    until_up(&s);
    close(s.lifeline);
    s.lifeline = -1;
    until_frame(&s, "parent_died|");
    CHECK_INT(kill((pid_t)s.pid, 0), 0);
    CHECK(!s.exit && !s.disconnected);
    send_type(&s, "kill_tree");
    until_frame(&s, "exit|");
    until_frame(&s, "reaped|");
    send_type(&s, "exit_agent");
    CHECK_INT(until_exit(&s), 0);
    scene_close(&s);
}

TEST(it_kills_its_rank_if_the_launcher_disconnects)
{
    struct scene s;
    start_rank(&s, "trap '' TERM; echo up; sleep 1000; sleep 1000");
    until_up(&s);
    control_close(TAKE(s.control));
    CHECK_INT(until_exit(&s), 0);
    while (kill((pid_t)s.pid, 0) == 0) /* the guardian may still reap it */
        usleep(1000);
    CHECK_INT(errno, ESRCH);
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
