#include "launcher/remote/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/log.h"
#include "launcher/engine/engine.h"
#include "launcher/inspect/call_stacks.h"
#include "launcher/node/netif.h"
#include "launcher/node/port_hold.h"
#include "launcher/plan/env.h"
#include "launcher/plan/rank_spec.h"
#include "launcher/remote/control.h"
#include "launcher/remote/node_probe.h"
#include "launcher/remote/remote_launcher.h"

enum { DIAL_MS = 10000 };

struct agent {
    uv_loop_t loop;
    struct guardian *guardian;
    struct control *link; /* to the launcher */
    uv_pipe_t parent;
    struct engine *engine;
    struct engine_job *job; /* NULL: not started */
    struct rank_spec rank_spec;
    char name[256]; /* this host's */
    int rank, port_fd;
    pid_t pid;                  /* of the program; 0: not started */
    size_t on_the_way;          /* bytes of output that the launcher has not taken */
    bool paused;                /* for that reason */
    int stdin_fd;               /* the rank's end, until it has it; -1 */
    uv_pipe_t feed;             /* our end */
    bool feeds;                 /* it is open */
    bool feed_ends;             /* nothing more comes for it */
    int feeding;                /* pieces that are being written to it */
    bool told;                  /* to leave: the end of the connection is no surprise */
    struct call_stacks *stacks; /* being taken; NULL: none */
};

static void say(struct agent *a, json_t *head)
{
    control_send(a->link, head, NULL, 0);
}

static void say_not_started(struct agent *a, int status, const char *why)
{
    say(a, json_pack("{s:s,s:i,s:o}", "t", "not_started", "status", status, "why", json_text(why)));
}

static void say_error(struct agent *a, const struct err *e)
{
    say_not_started(a, e->code == -EINVAL ? 2 : 126, e->text);
}

/* ---- what happens to the rank ------------------------------------------------------------------
 */

static void on_started(void *arg, int rank, pid_t pid)
{
    ((struct agent *)arg)->pid = pid;
    say(arg, json_pack("{s:s,s:i}", "t", "started", "pid", (int)pid));
}

static void on_not_started(void *arg, int rank, int status, const char *why)
{
    say_not_started(arg, status, why);
}

static void say_standing(struct agent *a, const struct rank_status *s)
{
    say(a, json_pack("{s:s,s:o}", "t", "rank_status", "status", rank_status_json(s)));
}

/* The collective that it was in comes before its end, which may have come of that. */
static void on_exited(void *arg, int rank, int wait_status, bool oom_killed)
{
    struct agent *a = arg;
    struct rank_status nowhere = {0};
    engine_last_collective(a->job, 0, &nowhere.collective);
    if (nowhere.collective.comm[0])
        say_standing(a, &nowhere);
    say(arg, json_pack("{s:s,s:i,s:b}", "t", "exit", "wait", wait_status, "oom", oom_killed));
}

static bool on_bytes(void *arg, int rank, enum launch_stream from, const char *bytes, size_t len)
{
    struct agent *a = arg;
    control_send(a->link, json_pack("{s:s,s:i}", "t", "output", "from", (int)from), bytes, len);
    a->on_the_way += len;
    a->paused = a->on_the_way >= CONTROL_WINDOW;
    return !a->paused;
}

static void on_quiet(void *arg, int rank)
{
    say(arg, json_pack("{s:s}", "t", "eof"));
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct agent *a = arg;
    control_send(a->link, json_pack("{s:s}", "t", "report"), json, len);
}

static void on_pmi(void *arg, int rank, const char *bytes, size_t len)
{
    struct agent *a = arg;
    control_send(a->link, json_pack("{s:s}", "t", "pmi"), bytes, len);
}

static void on_cleared(void *arg)
{
    say(arg, json_pack("{s:s}", "t", "reaped")); /* `exit` and `eof` may still be to come */
}

/* ---- what it reads -----------------------------------------------------------------------------
 */

static int open_feed(struct agent *a, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "stdin: %s", strerror(errno));
    a->stdin_fd = ends[0];
    uv_pipe_init(&a->loop, &a->feed, 0);
    a->feeds = true;
    int rc = uv_pipe_open(&a->feed, ends[1]);
    if (rc < 0)
        close(ends[1]);
    return rc < 0 ? err_set(e, rc, "stdin: %s", uv_strerror(rc)) : 0;
}

static void close_feed(struct agent *a)
{
    if (a->feeds)
        uv_close((uv_handle_t *)&a->feed, NULL);
    a->feeds = false;
}

struct feeding {
    uv_write_t req;
    struct agent *agent;
    size_t len;
    char bytes[];
};

/* A rank that reads no more gets no more. */
static void on_fed(uv_write_t *req, int status)
{
    struct feeding *f = (struct feeding *)req;
    struct agent *a = f->agent;
    if (--a->feeding == 0 && a->feed_ends)
        close_feed(a);
    if (status != UV_ECANCELED)
        say(a, json_pack("{s:s,s:I,s:b}", "t", "credit", "bytes", (json_int_t)f->len, "closed",
                         status < 0));
    free(f);
}

static void on_stdin(struct agent *a, const struct control_frame *f)
{
    if (!a->feeds)
        return;
    if (f->len == 0) { /* the end, behind what is still to be written */
        a->feed_ends = true;
        if (a->feeding == 0)
            close_feed(a);
        return;
    }
    struct feeding *w = xzalloc(sizeof *w + f->len);
    w->agent = a;
    w->len = f->len;
    a->feeding++;
    memcpy(w->bytes, f->payload, f->len);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)f->len);
    int rc = uv_write(&w->req, (uv_stream_t *)&a->feed, &buf, 1, on_fed);
    if (rc < 0)
        on_fed(&w->req, rc);
}

/* ---- what the launcher says --------------------------------------------------------------------
 */

static void on_topo_request(struct agent *a, const struct control_frame *f)
{
    AUTO(strbuf) struct strbuf told = {0};
    struct err e = {0};
    if (node_probe(&told, &e) < 0)
        say_error(a, &e);
    else
        control_send(a->link, json_pack("{s:s}", "t", "topo"), told.data, told.len);
}

static int choose_port(struct agent *a, struct err *e)
{
    int port = 0;
    int rc = port_hold(&a->port_fd, &port, a->rank_spec.opts.port_wanted, e);
    if (rc < 0)
        return rc;
    if (!a->rank_spec.opts.port_held)
        close(fd_take(&a->port_fd));
    say(a, json_pack("{s:s,s:i}", "t", "port", "port", port));
    return 0;
}

static void on_rank_spec(struct agent *a, const struct control_frame *f)
{
    struct err e = {0};
    if (a->rank_spec.plan)
        return;
    int rc = rank_spec_decode(&a->rank_spec, f->head, f->payload, f->len, environ, &e);
    if (rc == 0 && a->rank_spec.opts.with_stdin)
        rc = open_feed(a, &e);
    if (rc == 0 && a->rank_spec.opts.port)
        rc = choose_port(a, &e);
    if (rc < 0)
        say_error(a, &e);
}

static bool is_set(const struct agent *a, const char *name)
{
    const struct plan *p = a->rank_spec.plan;
    return env_get(a->rank_spec.base, name) || env_get(p->env, name) ||
           env_get(p->ranks[0].env, name);
}

/* Open MPI over TCP takes every interface for a way to the other nodes, and hangs or fails on one
 * like docker0, which has the same address on all. Its default is named, as ours replaces it. */
static void leave_inner_networks_out(struct agent *a, const char *names)
{
    if (names && !is_set(a, "OMPI_MCA_btl_tcp_if_include") &&
        !is_set(a, "OMPI_MCA_btl_tcp_if_exclude"))
        env_set(&a->rank_spec.plan->env, "OMPI_MCA_btl_tcp_if_exclude", "127.0.0.1/8,sppp,%s",
                names);
}

/* NCCL, gloo and TensorPipe each choose an interface by rules of their own, and may choose one that
 * leads nowhere. The one by which the launcher was reached leads to the other nodes. */
static void name_the_network(struct agent *a, const char *name)
{
    static const char *const variables[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
                                            "TP_SOCKET_IFNAME"};
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        if (!is_set(a, variables[i]))
            env_set(&a->rank_spec.plan->env, variables[i], "%s", name);
}

static void tell_networks(struct agent *a, bool other_nodes)
{
    struct control_endpoints ends = {0};
    (void)control_endpoints(&ends, a->link);
    AUTO(free) char *inner = NULL;
    AUTO(free) char *ours = netif_by_address(ends.own, &inner);
    leave_inner_networks_out(a, inner);
    if (other_nodes && ours && strcmp(ours, "lo") != 0)
        name_the_network(a, ours);
}

/* Who speaks PMI-1 to the launcher has its own place among all ranks, here it is the only one. */
static void name_the_place(struct agent *a, int64_t size)
{
    char ***env = &a->rank_spec.plan->env;
    env_set(env, "PMI_RANK", "%d", a->rank);
    env_set(env, "PMI_SIZE", "%d", (int)size);
    if (!is_set(a, "MPIR_CVAR_PMI_VERSION"))
        env_set(env, "MPIR_CVAR_PMI_VERSION", "1"); /* MPICH 5 takes no choice between two */
}

static void on_start(struct agent *a, const struct control_frame *f)
{
    struct engine_events ev = {.started = on_started,
                               .not_started = on_not_started,
                               .exited = on_exited,
                               .bytes = on_bytes,
                               .quiet = on_quiet,
                               .report = on_report,
                               .cleared = on_cleared};
    struct err e = {0};
    const char *address = NULL;
    int64_t port = 0, nodes = 1, lost_after_ms = CONTROL_SILENT_MS, pmi_size = 0;
    if (a->job || !a->rank_spec.plan)
        return;
    int rc = json_require_int(&port, f->head, "port", &e);
    if (rc == 0)
        rc = json_require_int(&nodes, f->head, "nodes", &e);
    if (rc == 0)
        rc = json_require_int(&lost_after_ms, f->head, "lost_after_ms", &e);
    if (rc == 0)
        rc = json_optional_str(&address, f->head, "address", &e);
    if (rc == 0)
        rc = json_optional_int(&pmi_size, f->head, "pmi_size", &e);
    if (rc == 0 && pmi_size > 0) {
        name_the_place(a, pmi_size);
        ev.pmi = on_pmi;
    }
    if (rc == 0 && address)
        env_set(&a->rank_spec.plan->env, "MASTER_ADDR", "%s", address);
    control_authenticate(a->link, (int)lost_after_ms);
    tell_networks(a, nodes > 1);
    struct launch_spec spec = {.stdin_fd = a->stdin_fd,
                               .stdin_null = a->stdin_fd < 0,
                               .reports = a->rank_spec.opts.reports};
    struct engine_start_opts order = {a->rank_spec.plan, &spec, a->rank_spec.base, NULL, (int)port};
    if (rc == 0)
        rc = engine_local_start(&a->job, a->engine, &order, &ev, a, &e);
    auto_fd(&a->stdin_fd);
    a->stdin_fd = -1;
    if (rc < 0)
        say_error(a, &e);
}

static void on_signal(struct agent *a, const struct control_frame *f)
{
    int64_t sig = 0;
    if (!a->job || json_require_int(&sig, f->head, "signal", NULL) < 0 || sig < 1 || sig > SIGRTMAX)
        return;
    if (sig == SIGSTOP) /* a launcher that stops the job stops, too (^Z) */
        control_suspend_timeout(a->link);
    engine_signal(a->job, 0, (int)sig);
}

static void on_stop(struct agent *a, const struct control_frame *f)
{
    if (a->job)
        (void)engine_request_stop(a->job); /* the launcher knows whether it listens */
}

static void on_status_request(struct agent *a, const struct control_frame *f)
{
    struct rank_status s = {0};
    if (!a->job)
        return;
    (void)rank_status_sample(&s, &a->pid, 1); /* where not, its notes tell something */
    engine_last_collective(a->job, 0, &s.collective);
    say_standing(a, &s);
}

static void say_stack(struct agent *a, const char *lines)
{
    control_send(a->link, json_pack("{s:s}", "t", "stack"), lines, strlen(lines));
}

static void on_stacks(void *arg, const char *const *texts)
{
    struct agent *a = arg;
    say_stack(a, texts[0]);
    call_stacks_free(TAKE(a->stacks));
}

static void on_stack(struct agent *a, const struct control_frame *f)
{
    struct rank_status s = {0};
    if (a->stacks) /* its answer is one to this, too */
        return;
    if (rank_status_sample(&s, &a->pid, 1) < 0 || s.pid == 0)
        say_stack(a, "");
    else
        a->stacks = call_stacks_capture(&a->loop, &s, 1, on_stacks, a);
}

static void on_pmi_answer(struct agent *a, const struct control_frame *f)
{
    if (a->job)
        engine_pmi_reply(a->job, 0, f->payload, f->len);
}

static void on_finish_output(struct agent *a, const struct control_frame *f)
{
    if (a->job)
        engine_finish_output(a->job, 0);
}

static void on_kill_tree(struct agent *a, const struct control_frame *f)
{
    if (a->job)
        engine_kill_tree(a->job);
    else
        say(a, json_pack("{s:s}", "t", "reaped"));
}

static void on_credit(struct agent *a, const struct control_frame *f)
{
    int64_t n = 0;
    if (json_require_int(&n, f->head, "bytes", NULL) < 0 || n < 0 || (size_t)n > a->on_the_way)
        return;
    a->on_the_way -= (size_t)n;
    if (!a->paused || a->on_the_way > CONTROL_WINDOW / 2)
        return;
    a->paused = false;
    if (a->job)
        engine_resume(a->job);
}

static void on_exit_agent(struct agent *a, const struct control_frame *f)
{
    a->told = true;
    uv_stop(&a->loop);
}

static void on_reject(struct agent *a, const struct control_frame *f)
{
    const char *why = "without a reason";
    (void)json_optional_str(&why, f->head, "why", NULL);
    log_error("%s: `drover run` does not take it: %s", a->name, why);
    on_exit_agent(a, f);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    static const struct {
        const char *type;
        void (*act)(struct agent *a, const struct control_frame *f);
    } acts[] = {
        {"topo_request", on_topo_request},
        {"rank_spec", on_rank_spec},
        {"start", on_start},
        {"stdin", on_stdin},
        {"signal", on_signal},
        {"stop", on_stop},
        {"credit", on_credit},
        {"finish_output", on_finish_output},
        {"status_request", on_status_request},
        {"kill_tree", on_kill_tree},
        {"exit_agent", on_exit_agent},
        {"reject", on_reject},
        {"stack", on_stack},
        {"pmi", on_pmi_answer},
    };
    for (size_t i = 0; i < COUNT_OF(acts); i++)
        if (strcmp(acts[i].type, f->type) == 0) {
            acts[i].act(arg, f);
            return;
        }
    log_warn("'%s' is not understood and dropped", f->type);
}

static void on_ended(void *arg, const char *why)
{
    struct agent *a = arg;
    if (!a->told)
        log_warn("%s: `drover run` is gone (%s): the rank is ended", a->name, why);
    uv_stop(&a->loop);
}

/* ---- start and end -----------------------------------------------------------------------------
 */

/* Which rank this is; -1: nothing tells. */
static int agent_rank(void)
{
    static const char *const names[] = {REMOTE_ENV_RANK, "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *value = getenv(names[i]);
        if (value)
            return atoi(value);
    }
    return -1;
}

static void on_room(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char byte;
    *buf = uv_buf_init(&byte, 1);
}

static void on_parent(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct agent *a = s->data;
    if (n >= 0)
        return;
    uv_read_stop(s);
    say(a, json_pack("{s:s}", "t", "parent_died"));
}

static void watch_parent(struct agent *a, int fd)
{
    uv_pipe_init(&a->loop, &a->parent, 0);
    a->parent.data = a;
    if (uv_pipe_open(&a->parent, fd) < 0)
        close(fd); /* then its end is not noticed, no more */
}

static int connect_up(struct agent *a, struct err *e)
{
    static const struct control_events ev = {on_frame, on_ended};
    int fd = -1;
    int rc = control_connect(&fd, getenv(REMOTE_ENV_CONTROL), DIAL_MS, e);
    if (rc == 0)
        rc = control_open(&a->link, &a->loop, fd, &ev, a, e);
    if (rc < 0)
        return rc;
    control_authenticate(a->link, CONTROL_SILENT_MS);
    say(a, json_pack("{s:s,s:o,s:s,s:i,s:i,s:o}", "t", "hello", "token",
                     json_text(getenv(REMOTE_ENV_TOKEN)), "version", DROVER_VERSION, "protocol",
                     CONTROL_FRAME_PROTOCOL, "rank", a->rank, "host", json_text(a->name)));
    (void)uv_read_start((uv_stream_t *)&a->parent, on_room, on_parent);
    return 0;
}

static int begin(struct agent *a, struct err *e)
{
    if (a->rank < 0)
        return err_set(e, -EINVAL, "nothing in the environment says which rank this is");
    int rc = engine_open(&a->engine, &a->loop, a->guardian, e);
    return rc < 0 ? rc : connect_up(a, e);
}

static void finish(struct agent *a)
{
    call_stacks_free(a->stacks);
    engine_free(a->job);
    engine_close(a->engine);
    close_feed(a);
    uv_close((uv_handle_t *)&a->parent, NULL);
    control_close(a->link);
    guardian_stop(a->guardian); /* whatever runs still is killed */
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_loop_close(&a->loop);
    rank_spec_free(&a->rank_spec);
    auto_fd(&a->stdin_fd);
    auto_fd(&a->port_fd);
}

int agent_main(int parent)
{
    struct agent a = {.rank = agent_rank(), .port_fd = -1, .stdin_fd = -1};
    struct err e = {0};
    char who[32];
    snprintf(who, sizeof who, "drover rank %d", a.rank);
    log_open(who);
    setsid();
    if (gethostname(a.name, sizeof a.name - 1) < 0 || !a.name[0])
        snprintf(a.name, sizeof a.name, "a host without a name");
    int rc = guardian_start_unmonitored(&a.guardian, &e); /* rank_main.c is above us */
    uv_loop_init(&a.loop); /* after the fork: libuv closes descriptors of its own in a child */
    watch_parent(&a, parent);
    if (rc == 0)
        rc = begin(&a, &e);
    if (rc == 0)
        uv_run(&a.loop, UV_RUN_DEFAULT);
    else
        log_error("%s: %s", a.name, e.text);
    finish(&a);
    return rc < 0;
}
