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

enum { CONNECT_MS = 10000 };

struct agent {
    uv_loop_t loop;
    struct guardian *guardian;
    struct control *control; /* the connection to the launcher */
    uv_pipe_t parent;        /* closes when the parent dies */
    struct engine *engine;
    struct engine_job *job; /* NULL: not started */
    struct rank_spec spec;  /* has no plan before it is received */
    char host[256];         /* this host's name */
    int rank, port_fd;
    pid_t pid;                  /* process of the rank; 0: not started */
    size_t uncredited_bytes;    /* output that was sent and is not credited yet */
    bool output_paused;         /* too much output is not credited */
    int stdin_fd;               /* the rank's end of its stdin, until the rank has it; then -1 */
    uv_pipe_t stdin_pipe;       /* the agent's end */
    bool stdin_open;            /* the agent's end is open */
    bool stdin_eof;             /* no further input follows */
    int stdin_writes;           /* number of writes that are not complete */
    bool released;              /* the launcher told the agent to exit, so the connection may end */
    struct call_stacks *stacks; /* call stacks that are being captured; NULL: none */
};

static void send_head(struct agent *a, json_t *head)
{
    control_send(a->control, head, NULL, 0);
}

static void send_not_started(struct agent *a, int status, bool node_fault, const char *why)
{
    send_head(a, json_pack("{s:s,s:i,s:b,s:o}", "t", "not_started", "status", status, "node_fault",
                           node_fault, "why", json_text(why)));
}

static void send_error(struct agent *a, const struct err *e)
{
    bool by_user = e->code == -EINVAL;
    send_not_started(a, by_user ? 2 : 126, !by_user, e->text);
}

/* ---- events of the rank ------------------------------------------------------------------------
 */

static void on_started(void *arg, int rank, pid_t pid)
{
    ((struct agent *)arg)->pid = pid;
    send_head(arg, json_pack("{s:s,s:i}", "t", "started", "pid", (int)pid));
}

static void on_not_started(void *arg, int rank, int status, bool node_fault, const char *why)
{
    send_not_started(arg, status, node_fault, why);
}

static void send_status(struct agent *a, const struct rank_status *s)
{
    send_head(a, json_pack("{s:s,s:o}", "t", "rank_status", "status", rank_status_json(s)));
}

/* Reports the exit. The rank's last collective is sent first, since it may have caused the exit. */
static void on_exited(void *arg, int rank, int wait_status, bool oom_killed, const char *error)
{
    struct agent *a = arg;
    struct rank_status last = {0};
    engine_last_collective(a->job, 0, &last.collective);
    if (last.collective.comm[0])
        send_status(a, &last);
    json_t *head = json_pack("{s:s,s:i,s:b}", "t", "exit", "wait", wait_status, "oom", oom_killed);
    control_send(a->control, head, error, error ? strlen(error) : 0);
}

static bool on_bytes(void *arg, int rank, enum launch_stream from, const char *bytes, size_t len)
{
    struct agent *a = arg;
    control_send(a->control, json_pack("{s:s,s:i}", "t", "output", "from", (int)from), bytes, len);
    a->uncredited_bytes += len;
    a->output_paused = a->uncredited_bytes >= CONTROL_WINDOW;
    return !a->output_paused;
}

static void on_eof(void *arg, int rank)
{
    send_head(arg, json_pack("{s:s}", "t", "eof"));
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct agent *a = arg;
    control_send(a->control, json_pack("{s:s}", "t", "report"), json, len);
}

static void on_pmi(void *arg, int rank, const char *bytes, size_t len)
{
    struct agent *a = arg;
    control_send(a->control, json_pack("{s:s}", "t", "pmi"), bytes, len);
}

static void on_reaped(void *arg)
{
    send_head(arg, json_pack("{s:s}", "t", "reaped")); /* `exit` and `eof` may follow */
}

/* ---- stdin of the rank -------------------------------------------------------------------------
 */

static int open_stdin(struct agent *a, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "stdin: %s", strerror(errno));
    a->stdin_fd = ends[0];
    uv_pipe_init(&a->loop, &a->stdin_pipe, 0);
    a->stdin_open = true;
    int rc = uv_pipe_open(&a->stdin_pipe, ends[1]);
    if (rc < 0)
        close(ends[1]);
    return rc < 0 ? err_set(e, rc, "stdin: %s", uv_strerror(rc)) : 0;
}

static void close_stdin(struct agent *a)
{
    if (a->stdin_open)
        uv_close((uv_handle_t *)&a->stdin_pipe, NULL);
    a->stdin_open = false;
}

struct stdin_write {
    uv_write_t req;
    struct agent *agent;
    size_t len;
    char bytes[];
};

/* A failed write shows that the rank has closed its stdin. The launcher then sends no more
 * input. */
static void on_stdin_written(uv_write_t *req, int status)
{
    struct stdin_write *w = (struct stdin_write *)req;
    struct agent *a = w->agent;
    if (--a->stdin_writes == 0 && a->stdin_eof)
        close_stdin(a);
    if (status != UV_ECANCELED)
        send_head(a, json_pack("{s:s,s:I,s:b}", "t", "credit", "bytes", (json_int_t)w->len,
                               "closed", status < 0));
    free(w);
}

static void on_stdin(struct agent *a, const struct control_frame *f)
{
    if (!a->stdin_open)
        return;
    if (f->len == 0) { /* end of input; stdin is closed when all writes are complete */
        a->stdin_eof = true;
        if (a->stdin_writes == 0)
            close_stdin(a);
        return;
    }
    struct stdin_write *w = xzalloc(sizeof *w + f->len);
    w->agent = a;
    w->len = f->len;
    a->stdin_writes++;
    memcpy(w->bytes, f->payload, f->len);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)f->len);
    int rc = uv_write(&w->req, (uv_stream_t *)&a->stdin_pipe, &buf, 1, on_stdin_written);
    if (rc < 0)
        on_stdin_written(&w->req, rc);
}

/* ---- frames of the launcher --------------------------------------------------------------------
 */

static void on_topo_request(struct agent *a, const struct control_frame *f)
{
    AUTO(strbuf) struct strbuf topo = {0};
    struct err e = {0};
    struct node_probe_checks checks = {0};
    bool checked = false;
    int64_t ranks = 0;
    (void)json_optional_bool(&checked, f->head, "preflight", NULL);
    (void)json_optional_int(&ranks, f->head, "ranks", NULL);
    (void)json_optional_str(&checks.gpus, f->head, "gpus", NULL);
    checks.ranks = (int)ranks;
    if (node_probe(&topo, checked ? &checks : NULL, &e) < 0)
        send_error(a, &e);
    else
        control_send(a->control, json_pack("{s:s}", "t", "topo"), topo.data, topo.len);
}

static int choose_port(struct agent *a, struct err *e)
{
    int port = 0;
    int rc = port_hold(&a->port_fd, &port, a->spec.opts.port_wanted, e);
    if (rc < 0)
        return rc;
    if (!a->spec.opts.port_held)
        close(fd_take(&a->port_fd));
    send_head(a, json_pack("{s:s,s:i}", "t", "port", "port", port));
    return 0;
}

/* Returns the variables that a rank inherits from this process: those that describe this host or
 * login, and those that mpirun or srun has set. The caller frees the result (strv). */
static char **inherited_env(void)
{
    char **own = NULL;
    for (char **entry = environ; *entry; entry++)
        if (rank_spec_is_host_env(*entry) || remote_launcher_sets(*entry))
            strv_push(&own, xstrdup(*entry));
    return own;
}

static void on_rank_spec(struct agent *a, const struct control_frame *f)
{
    struct err e = {0};
    if (a->spec.plan)
        return;
    AUTO(strv) char **own = inherited_env();
    int rc = rank_spec_decode(&a->spec, f->head, f->payload, f->len, own, &e);
    if (rc == 0 && a->spec.opts.with_stdin)
        rc = open_stdin(a, &e);
    if (rc == 0 && a->spec.opts.port)
        rc = choose_port(a, &e);
    if (rc < 0)
        send_error(a, &e);
}

static bool is_set(const struct agent *a, const char *name)
{
    const struct plan *p = a->spec.plan;
    return env_get(a->spec.base, name) || env_get(p->env, name) || env_get(p->ranks[0].env, name);
}

/* Excludes networks that exist only inside a node. Over TCP, Open MPI tries every interface to
 * reach the other nodes. It hangs or fails on an interface such as docker0, which has the same
 * address on all nodes. The value replaces Open MPI's default, so it also includes the default. */
static void exclude_inner_networks(struct agent *a, const char *names)
{
    if (names && !is_set(a, "OMPI_MCA_btl_tcp_if_include") &&
        !is_set(a, "OMPI_MCA_btl_tcp_if_exclude"))
        env_set(&a->spec.plan->env, "OMPI_MCA_btl_tcp_if_exclude", "127.0.0.1/8,sppp,%s", names);
}

/* Sets the network interface of NCCL, gloo and TensorPipe to the one that reaches the launcher. By
 * default, each of these libraries chooses an interface by rules of its own, and this interface may
 * not reach the other nodes. */
static void set_interface(struct agent *a, const char *name)
{
    static const char *const variables[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
                                            "TP_SOCKET_IFNAME"};
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        if (!is_set(a, variables[i]))
            env_set(&a->spec.plan->env, variables[i], "%s", name);
}

static void set_networks(struct agent *a, bool other_nodes)
{
    struct control_endpoints ends = {0};
    (void)control_endpoints(&ends, a->control);
    AUTO(free) char *inner = NULL;
    AUTO(free) char *name = netif_by_address(ends.own, &inner);
    exclude_inner_networks(a, inner);
    if (other_nodes && name && strcmp(name, "lo") != 0)
        set_interface(a, name);
}

/* Sets MASTER_ADDR, unless the user has set it. Also sets the variable in which JAX looks for the
 * address. mpirun sets this variable to its own address, but JAX's coordinator is rank 0. */
static void set_master_addr(struct agent *a, const char *address)
{
    struct plan *p = a->spec.plan;
    if (address)
        env_set(&p->env, "MASTER_ADDR", "%s", address);
    address = env_get(p->env, "MASTER_ADDR");
    if (address && is_set(a, "OMPI_COMM_WORLD_SIZE"))
        env_set_hnp_uri(&p->env, address, p->job_id);
}

/* Sets the rank and size for PMI-1 to those of the whole job, since the launcher serves PMI-1. In
 * the agent's local job the rank is 0 of 1. */
static void set_pmi_rank(struct agent *a, int64_t size)
{
    char ***env = &a->spec.plan->env;
    env_set(env, "PMI_RANK", "%d", a->rank);
    env_set(env, "PMI_SIZE", "%d", (int)size);
    if (!is_set(a, "MPIR_CVAR_PMI_VERSION"))
        env_set(env, "MPIR_CVAR_PMI_VERSION", "1"); /* MPICH 5 fails if it finds PMI-1 and PMIx */
}

static void on_start(struct agent *a, const struct control_frame *f)
{
    struct engine_events ev = {.started = on_started,
                               .not_started = on_not_started,
                               .exited = on_exited,
                               .bytes = on_bytes,
                               .quiet = on_eof,
                               .report = on_report,
                               .cleared = on_reaped};
    struct err e = {0};
    const char *address = NULL;
    int64_t port = 0, nodes = 1, lost_after_ms = CONTROL_SILENT_MS, pmi_size = 0;
    if (a->job || !a->spec.plan)
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
        set_pmi_rank(a, pmi_size);
        ev.pmi = on_pmi;
    }
    if (rc == 0)
        set_master_addr(a, address);
    control_authenticate(a->control, (int)lost_after_ms);
    set_networks(a, nodes > 1);
    struct launch_spec spec = {.stdin_fd = a->stdin_fd,
                               .stdin_null = a->stdin_fd < 0,
                               .reports = a->spec.opts.reports,
                               .ft_config = a->spec.opts.ft_config,
                               .no_pty = !a->spec.opts.pty};
    struct engine_start_opts opts = {a->spec.plan, &spec, a->spec.base, NULL, (int)port};
    if (rc == 0)
        rc = engine_local_start(&a->job, a->engine, &opts, &ev, a, &e);
    auto_fd(&a->stdin_fd);
    a->stdin_fd = -1;
    if (rc < 0)
        send_error(a, &e);
}

static void on_signal(struct agent *a, const struct control_frame *f)
{
    int64_t sig = 0;
    if (!a->job || json_require_int(&sig, f->head, "signal", NULL) < 0 || sig < 1 || sig > SIGRTMAX)
        return;
    if (sig == SIGSTOP) /* after stopping the job, the launcher stops itself (^Z) */
        control_suspend_timeout(a->control);
    engine_signal(a->job, 0, (int)sig);
}

static void on_stop(struct agent *a, const struct control_frame *f)
{
    if (a->job)
        /* The launcher sends this only if the rank has used its report channel */
        (void)engine_request_stop(a->job);
}

static void on_status_request(struct agent *a, const struct control_frame *f)
{
    struct rank_status s = {0};
    if (!a->job)
        return;
    /* If this fails, the collective trace may still help */
    (void)rank_status_sample(&s, &a->pid, 1);
    engine_last_collective(a->job, 0, &s.collective);
    send_status(a, &s);
}

static void send_stack(struct agent *a, const char *lines)
{
    control_send(a->control, json_pack("{s:s}", "t", "stack"), lines, strlen(lines));
}

static void on_stacks(void *arg, const char *const *texts)
{
    struct agent *a = arg;
    send_stack(a, texts[0]);
    call_stacks_free(TAKE(a->stacks));
}

static void on_stack(struct agent *a, const struct control_frame *f)
{
    struct rank_status s = {0};
    if (a->stacks) /* the present capture answers this request, too */
        return;
    if (rank_status_sample(&s, &a->pid, 1) < 0 || s.pid == 0)
        send_stack(a, "");
    else
        a->stacks = call_stacks_capture(&a->loop, &s, 1, on_stacks, a);
}

static void on_pmi_reply(struct agent *a, const struct control_frame *f)
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
        send_head(a, json_pack("{s:s}", "t", "reaped"));
}

static void on_credit(struct agent *a, const struct control_frame *f)
{
    int64_t n = 0;
    if (json_require_int(&n, f->head, "bytes", NULL) < 0 || n < 0 ||
        (size_t)n > a->uncredited_bytes)
        return;
    a->uncredited_bytes -= (size_t)n;
    if (!a->output_paused || a->uncredited_bytes > CONTROL_WINDOW / 2)
        return;
    a->output_paused = false;
    if (a->job)
        engine_resume(a->job);
}

static void on_exit_agent(struct agent *a, const struct control_frame *f)
{
    a->released = true;
    uv_stop(&a->loop);
}

static void on_reject(struct agent *a, const struct control_frame *f)
{
    const char *why = "no reason given";
    (void)json_optional_str(&why, f->head, "why", NULL);
    log_error("%s: rejected by the launcher: %s", a->host, why);
    on_exit_agent(a, f);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    static const struct {
        const char *type;
        void (*handle)(struct agent *a, const struct control_frame *f);
    } handlers[] = {
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
        {"pmi", on_pmi_reply},
    };
    for (size_t i = 0; i < COUNT_OF(handlers); i++)
        if (strcmp(handlers[i].type, f->type) == 0) {
            handlers[i].handle(arg, f);
            return;
        }
    log_warn("'%s' is not understood and dropped", f->type);
}

static void on_ended(void *arg, const char *why)
{
    struct agent *a = arg;
    if (!a->released)
        log_warn("%s: the launcher disconnected (%s); killing the rank", a->host, why);
    uv_stop(&a->loop);
}

/* ---- start and end -----------------------------------------------------------------------------
 */

static void on_parent_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
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
    send_head(a, json_pack("{s:s}", "t", "parent_died"));
}

static void watch_parent(struct agent *a, int fd)
{
    uv_pipe_init(&a->loop, &a->parent, 0);
    a->parent.data = a;
    if (uv_pipe_open(&a->parent, fd) < 0)
        close(fd); /* the agent then does not notice the parent's death */
}

static int connect_launcher(struct agent *a, struct err *e)
{
    static const struct control_events ev = {.frame = on_frame, .ended = on_ended};
    int fd = -1;
    int rc = control_connect(&fd, getenv(REMOTE_ENV_CONTROL), CONNECT_MS, e);
    if (rc == 0)
        rc = control_open(&a->control, &a->loop, fd, getenv(REMOTE_ENV_TOKEN), &ev, a, e);
    if (rc < 0)
        return rc;
    control_authenticate(a->control, CONTROL_SILENT_MS);
    send_head(a, json_pack("{s:s,s:s,s:i,s:i,s:o}", "t", "hello", "version", DROVER_VERSION,
                           "protocol", CONTROL_FRAME_PROTOCOL, "rank", a->rank, "host",
                           json_text(a->host)));
    (void)uv_read_start((uv_stream_t *)&a->parent, on_parent_buffer, on_parent);
    return 0;
}

static int begin(struct agent *a, struct err *e)
{
    if (a->rank < 0)
        return err_set(e, -EINVAL, "no variable of mpirun or srun holds the rank of this agent");
    int rc = engine_open(&a->engine, &a->loop, a->guardian, e);
    return rc < 0 ? rc : connect_launcher(a, e);
}

static void finish(struct agent *a)
{
    call_stacks_free(a->stacks);
    engine_free(a->job);
    engine_close(a->engine);
    close_stdin(a);
    uv_close((uv_handle_t *)&a->parent, NULL);
    control_close(a->control);
    guardian_stop(a->guardian); /* kills what still runs */
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_loop_close(&a->loop);
    rank_spec_free(&a->spec);
    auto_fd(&a->stdin_fd);
    auto_fd(&a->port_fd);
}

int agent_main(int parent_fd)
{
    struct agent a = {.rank = remote_launcher_rank(environ), .port_fd = -1, .stdin_fd = -1};
    struct err e = {0};
    char program[32];
    snprintf(program, sizeof program, "drover rank %d", a.rank);
    log_open(program);
    setsid();
    if (gethostname(a.host, sizeof a.host - 1) < 0 || !a.host[0])
        snprintf(a.host, sizeof a.host, "(unnamed host)");
    int rc = guardian_start_unmonitored(&a.guardian, &e); /* the parent cleans up instead */
    int loop_rc =
        /* Must follow the fork, since libuv closes its descriptors in a child */
        uv_loop_init(&a.loop);
    if (loop_rc < 0) {
        log_error("%s: event loop: %s", a.host, uv_strerror(loop_rc));
        return 1;
    }
    watch_parent(&a, parent_fd);
    if (rc == 0)
        rc = begin(&a, &e);
    if (rc == 0)
        uv_run(&a.loop, UV_RUN_DEFAULT);
    else
        log_error("%s: %s", a.host, e.text);
    finish(&a);
    return rc < 0;
}
