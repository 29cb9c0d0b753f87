/* The processes of the remote launcher: one for the job, or one per node. Their start, their
 * output, and what their ends mean. They run as a local job of this process. */
#include <string.h>
#include <sys/wait.h>

#include "common/file.h"
#include "common/log.h"
#include "common/own_process.h"
#include "launcher/plan/env.h"
#include "launcher/plan/mca_params.h"
#include "launcher/remote/agent_spawn.h"
#include "launcher/remote/engine_remote_internal.h"

enum { EXIT_MS = 500 }; /* after mpirun's exit: time for ranks to report the cause first */

/* ---- before the start ----------------------------------------------------------------------- */

/* Returns true if an agent must be started on another machine. mpirun and srun start the agents of
 * this machine, too. */
static bool needs_program(const struct remote_job *j)
{
    bool needed = !j->launcher->per_node;
    for (int i = 0; i < j->plan->node_count; i++)
        needed |= !j->plan->nodes[i].here;
    return needed && j->launcher->program;
}

static int find_program(struct remote_job *j, struct err *e)
{
    const struct remote_launcher *l = j->launcher;
    AUTO(free)
    char *own = l->program_for ? l->program_for(j->spec->engine_args, j->base_env) : NULL;
    const char *name = own ? own : l->program;
    int rc = own_process_find_program(&j->program, name, env_get(j->base_env, "PATH"));
    if (rc == 0)
        return 0;
    err_set(e, rc, "%s: not found in PATH; it starts the agents on other nodes", name);
    return own ? rc : err_hint(e, "apt install %s", l->package);
}

/* Writes the host names without users, since Open MPI's sequential mapper does not accept
 * "me@host". */
static int write_hostfile(struct remote_job *j, struct err *e)
{
    int rc = session_dir_open(&j->session_dir, e);
    if (rc < 0)
        return rc;
    j->hostfile = xasprintf("%s/hosts", session_dir_path(j->session_dir));
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < j->plan->node_count; i++) {
        const char *host = remote_node_host(&j->nodes[i]), *at = strchr(host, '@');
        strbuf_printf(&b, "%s\n", at ? at + 1 : host);
    }
    rc = file_write(j->hostfile, b.data, b.len, 0666);
    return rc < 0 ? err_set(e, rc, "%s: %s", j->hostfile, strerror(-rc)) : 0;
}

int remote_processes_prepare(struct remote_job *j, struct err *e)
{
    int rc = needs_program(j) ? find_program(j, e) : 0;
    return rc < 0 ? rc : write_hostfile(j, e);
}

/* ---- what has happened to them -------------------------------------------------------------- */

/* Returns the name of a process for messages. The agent of this machine is started without a
 * launcher if there is one process per node. */
static const char *process_name(const struct remote_job *j, int node)
{
    const struct remote_processes *p = &j->processes;
    if (!j->program || (p->per_node && node >= 0 && j->plan->nodes[node].here))
        return "an agent";
    const char *slash = strrchr(j->program, '/');
    return slash ? slash + 1 : j->program;
}

/* Copies the last lines into `lines` as pointers. With one process per node, these are the lines of
 * `node`, without its name. */
static void collect_lines(const char **lines, const struct remote_job *j, int node)
{
    const struct remote_processes *p = &j->processes;
    AUTO(free) char *tag = node >= 0 ? xasprintf("%s: ", remote_node_host(&j->nodes[node])) : NULL;
    size_t len = tag ? strlen(tag) : 0;
    for (int i = 0; i < last_lines_count(p->output); i++) {
        const char *line = last_lines_get(p->output, i, NULL);
        if (!tag || strncmp(line, tag, len) == 0)
            *lines++ = line + len;
    }
    *lines = NULL;
}

/* Returns how a process has ended. The caller frees the text, here and below. */
static char *describe_status(const struct remote_job *j, int node)
{
    int wait = j->processes.wait_status;
    const char *name = process_name(j, node);
    return WIFSIGNALED(wait) ? xasprintf("%s was killed by signal %d", name, WTERMSIG(wait))
                             : xasprintf("%s exited with status %d", name, WEXITSTATUS(wait));
}

/* Removes the step "start: " from the text of a failure after the start. Returns false if the text
 * is about a start that did not succeed, since this one did. */
static bool drop_start(char *text)
{
    static const char step[] = "start: ";
    char *at = strstr(text, step);
    if (at)
        memmove(at, at + sizeof step - 1, strlen(at + sizeof step - 1) + 1);
    return !strstr(text, "did not start");
}

static char *describe_exit(struct remote_job *j)
{
    struct remote_processes *p = &j->processes;
    const char *lines[REMOTE_LAUNCHER_LINES + 1], *host = NULL;
    struct err e = {0};
    collect_lines(lines, j, p->failed_node);
    if (p->failed_node >= 0)
        host = remote_node_host(&j->nodes[p->failed_node]);
    p->cause_known = j->launcher->find_failure && j->launcher->find_failure(&e, host, lines) &&
                     (remote_job_is_starting(j->state) || drop_start(e.text));
    AUTO(free)
    char *port = strstr(e.text, "connect back to this machine")
                     ? xasprintf(", port %d", control_listener_port(&j->listener))
                     : xstrdup("");
    if (p->cause_known)
        return xasprintf("%s%s%s%s", e.text, port, e.hint[0] ? "; try: " : "", e.hint);
    AUTO(free) char *status = describe_status(j, p->failed_node);
    if (p->orphan && (p->running > 0 || !j->launcher->argv))
        return xasprintf("the agent on %s was killed from outside, or its parent process was%s%s%s",
                         remote_node_host(p->orphan), host ? " (" : "", host ? status : "",
                         host ? ")" : "");
    return host ? xasprintf("host %s: %s", host, status) : TAKE(status);
}

/* Returns a node whose agent did not connect. A node that `why` names is preferred, then one on
 * another machine. */
static int node_to_blame(const struct remote_job *j, const char *why)
{
    int found = 0, best = -1;
    for (int i = 0; i < j->plan->node_count; i++) {
        const struct plan_node *n = &j->plan->nodes[i];
        int score = j->nodes[i].state != REMOTE_NODE_EXPECTED ? 0
                    : i == j->processes.failed_node           ? 4
                    : strstr(why, n->name)                    ? 3
                    : !n->here                                ? 2
                                                              : 1;
        if (score > best) {
            best = score;
            found = i;
        }
    }
    return found;
}

static bool any_rank_runs(const struct remote_job *j)
{
    for (int i = 0; i < j->plan->world_size; i++)
        if (j->ranks[i].state == REMOTE_RANK_STARTED)
            return true;
    return false;
}

static void on_exit_timer(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    AUTO(free) char *why = describe_exit(j);
    if (remote_job_is_starting(j->state))
        engine_remote_fail_start(j, node_to_blame(j, why), 126, "%s", why);
    else if (any_rank_runs(j))
        j->ev.broken(j->arg, why);
}

/* Tells the job after a while. Ranks may still run. */
static void tell_later(struct remote_job *j)
{
    uv_timer_t *t = &j->processes.exit_timer;
    if (!uv_is_active((uv_handle_t *)t))
        uv_timer_start(t, on_exit_timer, EXIT_MS, 0);
}

void remote_processes_orphaned(struct remote_node *n)
{
    struct remote_job *j = n->job;
    bool counts = remote_job_is_starting(j->state) || j->state == REMOTE_JOB_RUNNING;
    if (!counts || uv_is_active((uv_handle_t *)&j->processes.exit_timer))
        return;
    j->processes.orphan = n;
    tell_later(j);
}

/* ---- events of the local job ---------------------------------------------------------------- */

/* Returns the node of a process; -1: the process is that of all nodes. */
static int node_of(const struct remote_job *j, int rank)
{
    return j->processes.per_node ? rank : -1;
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct remote_job *j = arg;
    int node = node_of(j, rank);
    AUTO(free)
    char *line = node < 0
                     ? xasprintf("%.*s", (int)len, text)
                     : xasprintf("%s: %.*s", remote_node_host(&j->nodes[node]), (int)len, text);
    last_lines_push(j->processes.output, line, strlen(line));
    log_info("%s: %s", process_name(j, node), line);
    return true;
}

/* Handles the end of a process. If there is one process per node, the first process that fails
 * decides which node is reported; while the job starts, every end is a failure. Otherwise the
 * launcher has exited when all of its processes have exited. */
static void on_ended(struct remote_job *j, int rank, int wait_status)
{
    struct remote_processes *p = &j->processes;
    if (rank >= p->started) /* the guardian has ended before this process was started */
        return;
    bool starting = remote_job_is_starting(j->state), first = p->wait_status == 0;
    if (wait_status != 0 && first)
        p->wait_status = wait_status;
    if (first && (wait_status != 0 || (starting && p->failed_node < 0)))
        p->failed_node = node_of(j, rank);
    p->running--;
    if (j->state == REMOTE_JOB_RELEASING) {
        if (p->job && p->running == 0)
            p->job->ops->kill_tree(p->job);
    } else if (p->running == 0 || starting) {
        tell_later(j);
    }
}

static void on_not_started(void *arg, int rank, int status, bool node_fault, const char *why)
{
    struct remote_job *j = arg;
    int node = node_of(j, rank);
    engine_remote_fail_start(j, node < 0 ? 0 : node, status, "%s", why);
    on_ended(j, rank, 0);
}

static void on_exited(void *arg, int rank, int wait_status, bool oom_killed, const char *error)
{
    on_ended(arg, rank, wait_status);
}

static void on_reaped(void *arg)
{
    struct remote_job *j = arg;
    engine_free(TAKE(j->processes.job));
    if (j->state == REMOTE_JOB_RELEASING) /* the limit must not fire before the next turn */
        uv_timer_stop(&j->limit_timer);
    engine_remote_check_reaped(j);
}

/* ---- the start ------------------------------------------------------------------------------ */

/* Makes the plan of the local job: only command lines. */
static int make_plan(struct remote_job *j, struct remote_launcher_opts *opts, char **env,
                     struct err *e)
{
    struct remote_processes *p = &j->processes;
    struct plan *plan = p->plan = agent_spawn_plan(p->per_node ? j->plan->node_count : 1);
    int rc = 0;
    plan->job_id = xstrdup(j->plan->job_id);
    plan->env = env;
    for (int i = 0; i < plan->world_size && rc == 0; i++) {
        opts->node = i;
        if (p->per_node)
            env_set(&plan->ranks[i].env, REMOTE_ENV_NODE, "%d", i);
        rc = j->launcher->argv(&plan->ranks[i].argv, &plan->env, opts, e);
    }
    return rc;
}

/* Returns the environment of the launcher. The agents get the address and the token from it, or
 * from stdin. */
static char **make_env(struct remote_job *j)
{
    char **env = env_merge(j->base_env, NULL, NULL);
    AUTO(free) char *addresses = remote_start_addresses(j);
    /* drover has applied these parameters; some contradict the options of mpirun */
    mca_params_remove(env);
    if (j->launcher->env_on_stdin) {
        j->processes.stdin_text = agent_spawn_env_text(addresses, j->token);
    } else {
        env_set(&env, REMOTE_ENV_CONTROL, "%s", addresses);
        env_set(&env, REMOTE_ENV_TOKEN, "%s", j->token);
    }
    env_set(&env, "DROVER_JOB_ID", "%s", j->plan->job_id);
    return env;
}

int remote_processes_start(struct remote_job *j, struct err *e)
{
    static const struct engine_events ev = {
        .not_started = on_not_started, .exited = on_exited, .line = on_line, .reaped = on_reaped};
    struct remote_processes *p = &j->processes;
    AUTO(free) char *drover = NULL;
    int rc = agent_spawn_program(&drover, e);
    if (rc < 0)
        return rc;
    struct remote_launcher_opts opts = {.plan = j->plan,
                                        .engine_args = j->spec->engine_args,
                                        .program = j->program,
                                        .drover = drover,
                                        .session_dir = session_dir_path(j->session_dir),
                                        .hostfile = j->hostfile};
    rc = make_plan(j, &opts, make_env(j), e);
    if (rc < 0)
        return rc;
    int count = p->plan->world_size, at_once = j->launcher->at_once;
    p->spec = (struct launch_spec){.stdin_null = true, .node.no_pty = true};
    p->opts = (struct engine_start_opts){
        .plan = p->plan, .spec = &p->spec, .at_once = at_once, .stdin_text = p->stdin_text};
    p->started = p->running = at_once > 0 && at_once < count ? at_once : count;
    return engine_local_start(&p->job, j->engine, &p->opts, &ev, j, e);
}

void remote_processes_agent_connected(struct remote_job *j)
{
    struct remote_processes *p = &j->processes;
    struct err e = {0};
    if (!p->job || p->started == p->plan->world_size || !remote_job_is_starting(j->state))
        return;
    p->started++;
    p->running++;
    if (engine_local_start_next(p->job, &p->opts, &e) < 0)
        engine_remote_fail_start(j, node_of(j, p->started - 1), 126, "%s", e.text);
}

void remote_processes_open(struct remote_job *j)
{
    struct remote_processes *p = &j->processes;
    p->per_node = j->launcher->per_node;
    p->failed_node = -1;
    p->output = last_lines_new(REMOTE_LAUNCHER_LINES);
    uv_timer_init(j->loop, &p->exit_timer);
    p->exit_timer.data = j;
}

void remote_processes_free(struct remote_processes *p)
{
    plan_free(p->plan);
    last_lines_free(p->output);
    free(p->stdin_text);
}
