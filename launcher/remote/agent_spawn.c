#include "launcher/remote/agent_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/own_process.h"
#include "launcher/engine/engine.h"
#include "launcher/plan/env.h"
#include "launcher/remote/remote_launcher.h"

enum { LINE_BYTES_MAX = 65536 };

struct agent_spawn {
    struct plan *plan;
    struct engine_job *job;
    bool killed;
    void (*ended)(void *arg);
    void *arg;
};

int agent_spawn_program(char **out, struct err *e)
{
    AUTO(free) char *path = NULL;
    int rc = own_process_sibling(&path, "drover", e);
    if (rc < 0)
        return rc;
    if (access(path, X_OK) < 0) {
        err_set(e, -errno, "%s: %s", path, strerror(errno));
        return err_hint(e, "reinstall drover: `make install` installs it in bin");
    }
    *out = TAKE(path);
    return 0;
}

struct plan *agent_spawn_plan(int count)
{
    struct plan *p = xzalloc(sizeof *p);
    p->engine = PLAN_ENGINE_LOCAL;
    p->world_size = count;
    p->ranks = xcalloc((size_t)count, sizeof *p->ranks);
    for (int i = 0; i < count; i++)
        p->ranks[i] = (struct plan_rank){.rank = i, .gpu = -1};
    return p;
}

static void on_not_started(void *arg, int rank, int status, bool node_fault, const char *why)
{
    /* The launcher reports its ranks when the start limit is reached */
    log_warn("cannot start an agent: %s", why);
    agent_spawn_kill(arg);
}

static void on_exited(void *arg, int rank, int wait_status, bool oom_killed, const char *error)
{
    agent_spawn_kill(arg); /* the processes that it may have left */
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    /* A line of the agent itself; lines of its ranks go to the launcher */
    log_warn("%.*s", (int)len, text);
    return true;
}

static void on_reaped(void *arg)
{
    struct agent_spawn *a = arg;
    a->ended(a->arg);
}

int agent_spawn_start(struct agent_spawn **out, struct launch_context *l,
                      const struct agent_spawn_opts *opts, void (*ended)(void *arg), void *arg,
                      struct err *e)
{
    static const struct engine_events ev = {
        .not_started = on_not_started, .exited = on_exited, .line = on_line, .reaped = on_reaped};
    AUTO(free) char *drover = NULL;
    int rc = agent_spawn_program(&drover, e);
    if (rc < 0)
        return rc;
    AUTO(agent_spawn) struct agent_spawn *a = xzalloc(sizeof *a);
    a->ended = ended;
    a->arg = arg;
    struct plan *p = a->plan = agent_spawn_plan(1);
    strv_push(&p->argv, TAKE(drover));
    strv_push(&p->argv, xstrdup(REMOTE_AGENT_COMMAND));
    env_set(&p->env, REMOTE_ENV_NODE, "%d", opts->node);
    env_set(&p->env, REMOTE_ENV_CONTROL, "%s", opts->control);
    env_set(&p->env, REMOTE_ENV_TOKEN, "%s", opts->token);
    AUTO(strv) char **env = remote_launcher_strip_env(l->env);
    struct launch_spec spec = {.stdin_null = true, .node.no_pty = true, .cgroup = opts->cgroup};
    struct engine_start_opts start = {.plan = p, .spec = &spec, .base_env = env};
    rc = engine_local_start(&a->job, l->engine, &start, &ev, a, e);
    if (rc < 0)
        return rc;
    *out = TAKE(a);
    return 0;
}

void agent_spawn_kill(struct agent_spawn *a)
{
    if (!a->killed)
        a->job->ops->kill_tree(a->job);
    a->killed = true;
}

void agent_spawn_free(struct agent_spawn *a)
{
    if (!a)
        return;
    engine_free(a->job);
    plan_free(a->plan);
    free(a);
}

/* ---- variables through stdin ----------------------------------------------------------------- */

char *agent_spawn_env_text(const char *control, const char *token)
{
    return xasprintf("%s=%s\n%s=%s\n\n", REMOTE_ENV_CONTROL, control, REMOTE_ENV_TOKEN, token);
}

/* Returns false if `line` is none of the variables. */
static bool set_variable(char *line)
{
    static const char *const names[] = {REMOTE_ENV_CONTROL, REMOTE_ENV_TOKEN};
    char *equals = strchr(line, '=');
    if (!equals)
        return false;
    *equals = '\0';
    equals[1 + strcspn(equals + 1, "\n")] = '\0';
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(line, names[i]) == 0)
            return setenv(line, equals + 1, 1) == 0;
    return false;
}

int agent_spawn_read_env(int fd, struct err *e)
{
    AUTO(file) FILE *f = fdopen(dup(fd), "r");
    AUTO(free) char *line = xcalloc(LINE_BYTES_MAX, 1);
    bool known = false, complete = false;
    do {
        complete = f && fgets(line, LINE_BYTES_MAX, f) && strcmp(line, "\n") == 0;
    } while (!complete && (known = set_variable(line)));
    if (!known || !complete) {
        err_set(e, -EBADMSG, "the launcher's address and token did not arrive on stdin");
        return err_hint(e, "look for a command that reads stdin in the start-up files of the login "
                           "shell, such as ~/.bashrc");
    }
    AUTO(fd) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, fd) < 0)
        return err_set(e, -errno, "/dev/null: %s", strerror(errno));
    return 0;
}
