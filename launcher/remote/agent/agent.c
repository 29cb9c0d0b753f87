#include "launcher/remote/agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "launcher/remote/agent/agent_internal.h"
#include "launcher/remote/remote_launcher.h"

enum {
    CONNECT_MS = 10000,
    END_LIMIT_S = 20 /* more than guardian_stop() takes */
};

void agent_send(struct agent *a, json_t *head, const void *payload, size_t len)
{
    control_send(a->control, head, payload, len);
}

void agent_send_bulk(struct agent *a, json_t *head, const void *payload, size_t len)
{
    control_send_bulk(a->control, head, payload, len);
}

void agent_send_head(struct agent *a, json_t *head)
{
    agent_send(a, head, NULL, 0);
}

void agent_send_start_error(struct agent *a, const struct err *e)
{
    bool by_user = e->code == -EINVAL;
    AUTO(free) char *why = xasprintf(e->hint[0] ? "%s; try: %s" : "%s", e->text, e->hint);
    agent_send_head(a, json_pack("{s:s,s:i,s:b,s:o}", "t", "not_started", "status",
                                 by_user ? 2 : 126, "node_fault", !by_user, "why", json_text(why)));
}

/* ---- the connection ------------------------------------------------------------------------- */

static void on_exit_agent(struct agent *a, const struct control_frame *f)
{
    a->released = true;
    if (!a->children || agent_children_count(a->children) == 0)
        uv_stop(&a->loop);
}

static void on_reject(struct agent *a, const struct control_frame *f)
{
    const char *why = "no reason given";
    (void)json_optional_str(&why, f->head, "why", NULL);
    log_error("%s: rejected by the launcher: %s", a->host, why);
    on_exit_agent(a, f);
}

void agent_handle(struct agent *a, const struct control_frame *f)
{
    static const struct {
        const char *type;
        void (*handle)(struct agent *a, const struct control_frame *f);
    } handlers[] = {
        {"relay", agent_tree_on_relay},
        {"exchange", agent_tree_on_exchange},
        {"credit", agent_ranks_on_credit},
        {"stdin", agent_stdin_on_stdin},
        {"signal", agent_ranks_on_signal},
        {"stop", agent_ranks_on_stop},
        {"finish_output", agent_ranks_on_finish_output},
        {"status_request", agent_ranks_on_status_request},
        {"stack", agent_ranks_on_stack},
        {"sample_gpus", agent_gpus_on_sample_gpus},
        {"kill_tree", agent_ranks_on_kill_tree},
        {"topo_request", agent_start_on_topo_request},
        {"job", agent_start_on_job},
        {"node_spec", agent_start_on_node_spec},
        {"start", agent_start_on_start},
        {"listen", agent_tree_on_listen},
        {"move", agent_tree_on_move},
        {"exit_agent", on_exit_agent},
        {"reject", on_reject},
    };
    for (size_t i = 0; i < COUNT_OF(handlers); i++)
        if (strcmp(handlers[i].type, f->type) == 0) {
            handlers[i].handle(a, f);
            return;
        }
    log_warn("'%s' is not understood and dropped", f->type);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    agent_handle(arg, f);
}

static void on_ended(void *arg, const char *why)
{
    struct agent *a = arg;
    if (!a->released)
        log_warn("%s: the launcher disconnected (%s); killing the ranks", a->host, why);
    uv_stop(&a->loop);
}

int agent_connect(struct agent *a, const char *addresses, struct err *e)
{
    static const struct control_events ev = {.frame = on_frame, .ended = on_ended};
    int fd = -1;
    int rc = control_connect(&fd, addresses, CONNECT_MS, e);
    if (rc == 0)
        rc = control_open(&a->control, &a->loop, fd, a->token, &ev, a, e);
    if (rc < 0)
        return rc;
    control_authenticate(a->control, CONTROL_SILENT_MS);
    agent_send_head(a, json_pack("{s:s,s:s,s:i,s:i,s:o}", "t", "hello", "version", DROVER_VERSION,
                                 "protocol", CONTROL_FRAME_PROTOCOL, "node", a->node, "host",
                                 json_text(a->host)));
    return 0;
}

/* ---- the parent process --------------------------------------------------------------------- */

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
    agent_send_head(a, json_pack("{s:s}", "t", "parent_died"));
}

static void watch_parent(struct agent *a, int fd)
{
    uv_pipe_init(&a->loop, &a->parent, 0);
    a->parent.data = a;
    if (uv_pipe_open(&a->parent, fd) < 0)
        close(fd); /* the agent then does not notice the parent's death */
}

/* ---- start and end -------------------------------------------------------------------------- */

static char *dup_or_null(const char *s)
{
    return s ? xstrdup(s) : NULL;
}

/* Removes what the remote launcher has set for this process. libpmix would take this process for a
 * rank of the launcher's job, and the ranks inherit nothing of it (agent_start_inherited_env()). */
static void clear_launcher_env(struct agent *a)
{
    a->addresses = dup_or_null(getenv(REMOTE_ENV_CONTROL));
    a->token = dup_or_null(getenv(REMOTE_ENV_TOKEN));
    a->inherited_env = agent_start_inherited_env();
    AUTO(strv) char **all = strv_copy(environ);
    for (size_t i = 0; all && all[i]; i++) {
        char *name = all[i];
        bool sets = remote_launcher_sets(name);
        name[strcspn(name, "=")] = '\0';
        if (sets || strcmp(name, REMOTE_ENV_TOKEN) == 0)
            unsetenv(name);
    }
}

/* Connects first, so that the launcher answers while this process loads the topology. If that
 * fails, the launcher is told. */
static int begin(struct agent *a, struct err *e)
{
    if (a->node < 0)
        return err_set(e, -EINVAL, "no variable of mpirun or srun has the number of this node");
    int rc = agent_connect(a, a->addresses, e);
    if (rc < 0)
        return rc;
    /* A parent in the tree that is frozen is different: the launcher ends the job without it */
    control_tolerate_frozen(a->control);
    (void)uv_read_start((uv_stream_t *)&a->parent, on_parent_buffer, on_parent);
    struct err why = {0};
    if (launch_context_open(&a->context, &a->loop, a->guardian, &why) < 0)
        agent_send_start_error(a, &why);
    return 0;
}

/* Closes the guardian's lifeline first: the guardian then kills what still runs, whatever the rest
 * does. libpmix may hang when its server is closed. Then SIGALRM ends this process, and the parent
 * cleans up. */
static void finish(struct agent *a)
{
    signal(SIGALRM, SIG_DFL); /* the parent ignores it */
    alarm(END_LIMIT_S);
    guardian_shutdown(a->guardian);
    agent_gpus_close(a);
    agent_ranks_free(a);
    agent_tree_leave(a);
    launch_context_close(a->context);
    agent_stdin_close(a);
    agent_stdin_handed_over(a);
    uv_close((uv_handle_t *)&a->parent, NULL);
    agent_children_close(a->children);
    control_close(a->control);
    guardian_stop(a->guardian);
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_loop_close(&a->loop);
    node_spec_free(&a->spec);
    json_decref(a->job_head);
    strbuf_free(&a->job_payload);
    free(a->addresses);
    free(a->token);
    strv_free(a->inherited_env);
    auto_fd(&a->port_fd);
}

int agent_main(int parent_fd)
{
    struct agent a = {
        .node = remote_launcher_node(environ), .port_fd = -1, .stdin_of_rank.rank_fd = -1};
    struct err e = {0};
    char program[32];
    snprintf(program, sizeof program, "drover agent %d", a.node);
    log_open(program);
    setsid();
    if (gethostname(a.host, sizeof a.host - 1) < 0 || !a.host[0])
        snprintf(a.host, sizeof a.host, "(unnamed host)");
    clear_launcher_env(&a);
    int rc = guardian_start_unmonitored(&a.guardian, &e); /* the parent cleans up instead */
    int loop_rc = uv_loop_init(&a.loop); /* after the fork: libuv closes descriptors in a child */
    if (loop_rc < 0) {
        log_error("%s: event loop: %s", a.host, uv_strerror(loop_rc));
        return 1;
    }
    watch_parent(&a, parent_fd);
    uv_timer_init(&a.loop, &a.gpus_timer);
    a.gpus_timer.data = &a;
    if (rc == 0)
        rc = begin(&a, &e);
    if (rc == 0)
        uv_run(&a.loop, UV_RUN_DEFAULT);
    else
        log_error("%s: %s", a.host, e.text);
    finish(&a);
    return rc < 0;
}
