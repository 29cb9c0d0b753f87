#include "hpo/worker/trial_run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#include "common/json.h"
#include "common/log.h"
#include "common/own_process.h"
#include "common/strbuf.h"
#include "hpo/space/python_repr.h"
#include "hpo/trial/metric_parse.h"
#include "hpo/worker/run_result.h"
#include "hpo/worker/trial_dir.h"
#include "launcher/engine/engine.h"
#include "launcher/engine/launch.h"
#include "launcher/io/metric_mapping.h"
#include "launcher/jobs/registry.h"
#include "launcher/node/cgroup.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hosts.h"

enum {
    REPORT_STOP_MS = 1000, /* for a program that reports to end after the stop on its channel */
    IN_FLIGHT_MAX = 5000   /* most messages that are sent and not acknowledged */
};

/* Where reports come from. Only those of the best source seen so far count. */
enum report_source { FROM_NOWHERE, FROM_PATTERN, FROM_LINES, FROM_CHANNEL };

struct output_file {
    int fd;      /* -1: not open */
    bool opened; /* an attempt was made */
    int begun;   /* 1 + the rank whose line has no end yet; 0: none */
};

struct trial_run {
    const struct lease_context *context;
    int64_t id;
    json_t *data; /* of the WIRE_RUN */
    enum trial_run_state state;
    lease_done_fn *done;
    void *arg;
    const struct node_slice *slice; /* NULL: none yet */
    struct launch *job;             /* NULL: not started */
    char *cgroup;                   /* NULL: none */
    struct metric_parse *metric;
    enum report_source source;
    struct output_file outputs[2]; /* stdout, stderr: created with the first line */
    bool preempted;                /* it was stopped, and the trial is not at fault */
    char *node_fault;              /* this node's; NULL: none. A trial that succeeds ignores it */

    /* A job over several nodes. */
    json_t *peers;             /* borrowed from `data`; NULL: one node */
    struct agent_spawn *agent; /* of this node; NULL: none runs */
    json_t *ticket;            /* for the agents of all nodes; NULL: the job has not started */
    json_t *result;            /* while DRAINING and in `done`: the data of WIRE_DONE */
    struct hosts *hosts;
    struct launch_node_resources *parts;
    char **argv, **env; /* the job's */

    struct outbox *outbox;
    struct registry *entry; /* for `drover ps`; NULL: none */

    char *root, *dir; /* of the trial and of this lease */
    char *params, *wandb;
    bool resumed;
    int64_t copy_from; /* the lease whose checkpoint is copied; 0: none */
    uv_work_t work;
    struct err copy_error; /* of the thread that copies; read by on_copied() */
};

static const char *text(const struct trial_run *r, const char *key)
{
    return json_string_value(json_object_get(r->data, key));
}

static int number(const struct trial_run *r, const char *key)
{
    return (int)json_integer_value(json_object_get(r->data, key));
}

/* Returns the run's configuration as W&B's library reads it, in YAML. The caller frees it. Names
 * are in quotes: "null" and "yes" are names, too. */
static char *wandb_params(const json_t *params)
{
    struct strbuf b = {0};
    strbuf_puts(&b, "wandb_version: 1\n");
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)params, name, v) {
        strbuf_printf(&b, "\n\"%s\":\n  value: ", name);
        python_repr_yaml(&b, v);
        strbuf_puts(&b, "\n");
    }
    return strbuf_take(&b);
}

struct trial_run *trial_run_new(const struct lease_context *c, int64_t id, json_t *data,
                                lease_done_fn *done, void *arg)
{
    struct trial_run *r = xzalloc(sizeof *r);
    r->context = c;
    r->id = id;
    r->data = json_incref(data);
    r->done = done;
    r->arg = arg;
    r->outputs[0].fd = r->outputs[1].fd = -1;
    r->peers = json_object_get(data, "peers");
    const json_t *params = json_object_get(data, "params");
    struct strbuf b = {0};
    python_repr_yaml(&b, params);
    strbuf_puts(&b, "\n");
    r->root = c->paths && c->paths->moved ? trial_dir_path(c->paths->sweep, number(r, "trial"))
                                          : xstrdup(text(r, "dir"));
    r->dir = xasprintf("%s/%lld", r->root, (long long)id);
    AUTO(free) char *file = xasprintf("%s/outbox", r->dir);
    r->outbox =
        outbox_new(&(struct outbox_opts){c->instance, id, IN_FLIGHT_MAX, file, c->send, c->arg});
    r->params = strbuf_take(&b);
    r->wandb = wandb_params(params);
    return r;
}

static void close_files(struct trial_run *r)
{
    for (int i = 0; i < 2; i++) {
        auto_fd(&r->outputs[i].fd);
        r->outputs[i].fd = -1;
    }
}

void trial_run_free(struct trial_run *r)
{
    if (!r)
        return;
    outbox_free(r->outbox);
    registry_leave(r->entry);
    if (r->job)
        launch_free(r->job);
    agent_spawn_free(r->agent);
    hosts_free(r->hosts);
    free(r->parts);
    strv_free(r->argv);
    strv_free(r->env);
    json_decref(r->ticket);
    json_decref(r->result);
    close_files(r);
    metric_parse_free(r->metric);
    json_decref(r->data);
    free(r->cgroup);
    free(r->node_fault);
    free(r->root);
    free(r->dir);
    free(r->params);
    free(r->wandb);
    free(r);
}

int trial_run_trial(const struct trial_run *r)
{
    return number(r, "trial");
}

const json_t *trial_run_result(const struct trial_run *r)
{
    return r->result;
}

enum trial_run_state trial_run_state(const struct trial_run *r)
{
    return r->state;
}

const struct outbox *trial_run_outbox(const struct trial_run *r)
{
    return r->outbox;
}

bool trial_run_acknowledge(struct trial_run *r, int64_t seq)
{
    return outbox_acknowledge(r->outbox, seq) && r->state == TRIAL_RUN_DONE;
}

/* ---- states --------------------------------------------------------------------------------- */

/* Returns false if the event has no meaning in the present state. */
static bool apply(struct trial_run *r, enum trial_run_event ev)
{
    int next = states_step(&trial_run_states, r->state, ev, "trial %d: lease %lld",
                           number(r, "trial"), (long long)r->id);
    if (next >= 0)
        r->state = (enum trial_run_state)next;
    return next >= 0;
}

static void enter_stopping(struct trial_run *r, enum trial_run_event ev)
{
    if (ev == TRIAL_RUN_EV_KILL)
        launch_kill(r->job);
    else
        launch_stop(r->job, REPORT_STOP_MS);
}

/* Takes the reference to `result`, the data of WIRE_DONE. */
static void enter_draining(struct trial_run *r, json_t *result)
{
    r->result = result;
    agent_spawn_kill(r->agent);
}

/* Takes the reference like enter_draining(). The slot is free before the result is sent: the
 * coordinator may answer the result with the next trial. */
static void enter_done(struct trial_run *r, json_t *result)
{
    close_files(r);
    registry_leave(TAKE(r->entry));
    cgroup_delegate_remove(r->cgroup);
    r->result = result;
    r->done(r->arg);
    outbox_push(r->outbox, WIRE_DONE, TAKE(r->result));
}

/* `error` NULL: it was stopped before. */
static void not_started(struct trial_run *r, const char *error, bool node_fault)
{
    if (!apply(r, TRIAL_RUN_EV_NOT_STARTED))
        return;
    json_t *result = run_result_not_started(error, r->preempted);
    if (node_fault)
        run_result_blame_node(result, 0, NULL);
    enter_done(r, result);
}

/* ---- the job's events ----------------------------------------------------------------------- */

/* A report of `source`; takes the reference. Reports of a source that is worse than the best one
 * seen are dropped: a program that reports on the channel may print the same as lines. */
static void report(struct trial_run *r, enum report_source source, json_t *data)
{
    if (!data)
        return;
    if (source < r->source) {
        json_decref(data);
        return;
    }
    r->source = source;
    outbox_push(r->outbox, WIRE_REPORT, data);
}

/* Logs a fault of this node, and keeps the first. */
static void set_node_fault(struct trial_run *r, const char *what, const char *cause)
{
    if (r->node_fault)
        return;
    r->node_fault = xasprintf("%s: %s", what, cause);
    log_warn("trial %d: %s", number(r, "trial"), r->node_fault);
}

/* The file of a stream. If it cannot be opened, the trial runs without it. */
static struct output_file *output(struct trial_run *r, enum launch_stream from)
{
    struct output_file *o = &r->outputs[from == LAUNCH_STDERR];
    if (o->opened)
        return o;
    o->opened = true;
    AUTO(free)
    char *path = xasprintf("%s/%s", r->dir, from == LAUNCH_STDERR ? "stderr" : "stdout");
    o->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (o->fd < 0)
        set_node_fault(r, path, strerror(errno));
    return o;
}

/* Line by line, so that a user can follow the file. */
static void write_line(struct trial_run *r, int rank, enum launch_stream from, const char *line,
                       size_t len)
{
    struct output_file *o = output(r, from);
    char prefix[16] = "";
    if (r->context->need->ranks > 1 || r->peers)
        snprintf(prefix, sizeof prefix, "[%d] ", rank);
    bool continues = o->begun == rank + 1; /* a long line comes in pieces */
    const struct iovec parts[] = {{"\n", o->begun && !continues},
                                  {prefix, continues ? 0 : strlen(prefix)},
                                  {(char *)line, len},
                                  {"\n", line[len] ? 1 : 0}};
    o->begun = line[len] ? 0 : rank + 1;
    ssize_t all = 0, n = 0;
    for (size_t i = 0; o->fd >= 0 && i < COUNT_OF(parts); i++)
        all += (ssize_t)parts[i].iov_len;
    if (all > 0)
        n = writev(o->fd, parts, COUNT_OF(parts));
    if (n < all) /* if the disk is full after a part, that part is written */
        set_node_fault(r, "cannot write its output", strerror(n < 0 ? errno : ENOSPC));
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *line, size_t len)
{
    struct trial_run *r = arg;
    write_line(r, rank, from, line, len);
    if (rank == 0 && from == LAUNCH_STDOUT && r->source <= FROM_LINES) {
        struct err e = {0};
        json_t *data = metric_mapping_read(line, len);
        if (data)
            report(r, FROM_LINES, data);
        else
            report(r, FROM_PATTERN, metric_parse_from_pattern(r->metric, line, len, &e));
        if (e.code)
            log_warn("trial %d: a line is not searched: %s", number(r, "trial"), e.text);
    }
    return true;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    if (rank == 0)
        report(arg, FROM_CHANNEL, metric_mapping_read(json, len));
}

/* Returns true if a job over several nodes has ended because a node is lost: the trial is not at
 * fault. */
static bool has_lost_node(const struct trial_run *r, const struct job_end *end)
{
    return r->peers && (end->broken || (end->first_failed >= 0 && end->first.lost));
}

/* Adds to the result which node is at fault for the end of a job that was not told to stop. */
static void blame_node(const struct trial_run *r, const struct job_end *end, json_t *result)
{
    if (end->first_failed >= 0 && end->first.start_node_fault)
        run_result_blame_node(result, end->first.rank / r->context->need->ranks, NULL);
    else if (end->status != 0 && r->node_fault)
        run_result_blame_node(result, 0, r->node_fault);
    else if (end->status != 0 && engine_has_ended(r->context->launcher->engine))
        run_result_blame_node(result, 0, "the guardian process was killed");
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct trial_run *r = arg;
    bool runs = r->state == TRIAL_RUN_RUNNING;
    bool preempted = r->preempted || (runs && has_lost_node(r, end));
    json_t *result = run_result_json(end, preempted);
    if (runs && !preempted)
        blame_node(r, end, result);
    AUTO(free) char *vain = metric_parse_vain(r->metric);
    if (vain && end->status == 0 && !json_object_get(result, "error"))
        json_object_set_new(result, "error", json_string(vain));
    if (!apply(r, r->agent ? TRIAL_RUN_EV_JOB_ENDED_AGENT_LEFT : TRIAL_RUN_EV_JOB_ENDED))
        json_decref(result); /* cannot be: a job ends once, while it runs */
    else if (r->state == TRIAL_RUN_DRAINING)
        enter_draining(r, result);
    else
        enter_done(r, result);
}

static const struct launch_events events = {
    .line = on_line, .report = on_report, .ended = on_ended};

/* ---- starting ------------------------------------------------------------------------------- */

/* Makes Python find drover's stand-in for W&B's module before W&B's own. */
static void add_stand_in(char ***env)
{
    AUTO(free) char *dir = NULL;
    if (own_process_share(&dir, "trial", NULL) < 0)
        return; /* without it W&B's own module is found, or none */
    const char *old = getenv("PYTHONPATH");
    strv_push(env, xasprintf("PYTHONPATH=%s%s%s", dir, old && *old ? ":" : "", old ? old : ""));
}

/* Returns a strv: the variables of the sweep file, and those that describe the trial. */
static char **environment(const struct trial_run *r)
{
    const char *sweep = text(r, "sweep");
    int trial = number(r, "trial");
    char **env = NULL;
    size_t i;
    json_t *item;
    if (!getenv("PYTHONUNBUFFERED")) /* early stopping sees a line when it is printed */
        strv_push(&env, xstrdup("PYTHONUNBUFFERED=1"));
    strv_push(&env, xstrdup("TERM=dumb")); /* stdout is a pty, whose output goes to a file */
    json_array_foreach (json_object_get(r->data, "env"), i, item)
        strv_push(&env, xstrdup(json_string_value(item)));
    strv_push(&env, xasprintf("DROVER_SWEEP=%s", sweep));
    strv_push(&env, xasprintf("DROVER_TRIAL_ID=%d", trial));
    strv_push(&env, xasprintf("DROVER_TRIAL_DIR=%s", r->dir));
    strv_push(&env, xasprintf("DROVER_CKPT_DIR=%s/ckpt", r->dir));
    strv_push(&env, xasprintf("WANDB_SWEEP_ID=%s", sweep));
    strv_push(&env, xasprintf("WANDB_RUN_ID=%s-%06d", sweep, trial));
    strv_push(&env, xasprintf("WANDB_SWEEP_PARAM_PATH=%s/config.yaml", r->dir));
    if (r->slice->gpus && !r->peers) /* over several nodes the plan assigns GPUs */
        strv_push(&env, xasprintf("CUDA_VISIBLE_DEVICES=%s", r->slice->gpus));
    if (!json_is_true(json_object_get(r->data, "wandb_real")))
        add_stand_in(&env);
    if (r->resumed)
        strv_push(&env, xstrdup("DROVER_RESUME=1"));
    return env;
}

/* Returns a copy of an argument in which this node's path of the trial directory replaces the
 * coordinator's. For example, W&B's ${args_json_file} is a file in this directory. The caller frees
 * the copy. */
static char *node_local_path(const struct trial_run *r, const char *word)
{
    const char *dir = text(r, "dir"), *at = strstr(word, dir);
    if (!at || !r->context->paths->moved || at[strlen(dir)] != '/')
        return xstrdup(word);
    return xasprintf("%.*s%s%s", (int)(at - word), word, r->root, at + strlen(dir));
}

static char **arguments(const struct trial_run *r)
{
    char **argv = NULL;
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(r->data, "argv"), i, item)
        strv_push(&argv, node_local_path(r, json_string_value(item)));
    return argv;
}

static void on_agent_ended(void *arg)
{
    struct trial_run *r = arg;
    agent_spawn_free(TAKE(r->agent));
    if (apply(r, TRIAL_RUN_EV_AGENT_ENDED) && r->state == TRIAL_RUN_DONE)
        enter_done(r, TAKE(r->result));
}

/* The hosts of the job: this node, then the peers, each with the resources of its slot. */
static void expand_to_nodes(struct trial_run *r, struct launch_spec *spec)
{
    size_t n = json_array_size(r->peers);
    int ranks = r->context->need->ranks;
    r->parts = xcalloc(n + 1, sizeof *r->parts);
    r->hosts = xzalloc(sizeof *r->hosts);
    r->parts[0] = (struct launch_node_resources){r->slice->cpus, r->slice->gpus};
    hosts_add(r->hosts, topo_name(r->context->launcher->topo), ranks, 0);
    r->hosts->at[0].here = true;
    for (size_t i = 0; i < n; i++) {
        const json_t *peer = json_array_get(r->peers, i),
                     *slot = json_object_get(peer, "resources");
        hosts_add(r->hosts, json_string_value(json_object_get(peer, "node")), ranks, 0);
        r->parts[i + 1] =
            (struct launch_node_resources){json_string_value(json_object_get(slot, "cpus")),
                                           json_string_value(json_object_get(slot, "gpus"))};
    }
    spec->hosts = r->hosts;
    spec->node_resources = r->parts;
    spec->engine = "external";
    spec->ranks = ranks * ((int)n + 1);
    spec->oversubscribe = true; /* each worker has checked what fits on its node */
}

/* The job awaits the agents of this node and of the others: each needs the ticket. */
static void open_join(struct trial_run *r)
{
    struct err e = {0};
    const char *token = NULL;
    AUTO(free) char *address = launch_join_ticket(r->job, &token);
    r->ticket = json_pack("{s:s,s:s}", "address", address, "token", token);
    lease_context_send(r->context, WIRE_JOIN_TICKET, r->id, r->ticket);
    const struct agent_spawn_opts agent = lease_context_agent(r->ticket, r->cgroup);
    if (agent_spawn_start(&r->agent, r->context->launcher, &agent, on_agent_ended, r, &e) == 0)
        return;
    set_node_fault(r, "cannot start its agent", e.text);
    launch_kill(r->job); /* the state follows when the job has ended */
}

static void enter_running(struct trial_run *r)
{
    struct err e = {0};
    if (registry_enter_trial(&r->entry, text(r, "sweep"), number(r, "trial"),
                             r->context->need->ranks, r->argv, r->dir, &e) < 0)
        log_info("trial %d: 'drover ps' does not show it: %s", number(r, "trial"), e.text);
    if (r->peers)
        open_join(r);
}

static void launch(struct trial_run *r)
{
    const struct resources *need = r->context->need;
    r->cgroup = lease_context_make_cgroup(r->context, r->id);
    (void)output(r, LAUNCH_STDOUT); /* from the start, for users who follow the file */
    r->argv = arguments(r);
    r->env = environment(r);
    struct launch_spec spec = {
        .ranks = need->ranks,
        .argv = r->argv,
        .env = r->env,
        .wdir = r->context->paths->wdir,
        .cpus_per_rank = need->cpus,
        .oversubscribe = r->slice->shared,
        .bind_to = r->slice->cpus ? PLAN_BIND_DEFAULT : PLAN_BIND_NONE,
        .grace_ms = number(r, "grace_ms"),
        .node.reports = true,
        .no_traces = true,
        .stdin_null = true,
    };
    if (r->peers) {
        expand_to_nodes(r, &spec);
    } else {
        spec.cpus = r->slice->cpus;
        spec.cgroup = r->cgroup;
        spec.port_held = r->slice->port > 0 && !env_get(r->env, "MASTER_PORT");
        spec.node.master_port = spec.port_held ? r->slice->port : 0;
    }
    struct err e = {0};
    if (launch_start(&r->job, r->context->launcher, &spec, &events, r, &e) < 0)
        not_started(r, e.text, true);
    else if (apply(r, TRIAL_RUN_EV_LAUNCHED))
        enter_running(r);
}

static struct trial_dir_opts dir_opts(const struct trial_run *r)
{
    return (struct trial_dir_opts){r->root, r->id, r->params, r->wandb};
}

static void copy_checkpoint(uv_work_t *w)
{
    struct trial_run *r = w->data;
    const struct trial_dir_opts opts = dir_opts(r);
    (void)trial_dir_copy(&opts, r->copy_from, &r->copy_error);
}

static void on_copied(uv_work_t *w, int status)
{
    struct trial_run *r = w->data;
    int rc = r->copy_error.code;
    if (r->state == TRIAL_RUN_PREPARING_STOPPED)
        not_started(r, NULL, false);
    else if (rc < 0) /* the trial has made files that cannot be read on any node, or too deep */
        not_started(r, r->copy_error.text, rc != -EACCES && rc != -ELOOP);
    else
        launch(r);
}

static void enter_preparing(struct trial_run *r)
{
    r->work.data = r;
    if (uv_queue_work(r->context->loop, &r->work, copy_checkpoint, on_copied) < 0)
        not_started(r, "cannot start a thread to copy the checkpoint", true);
}

void trial_run_start(struct trial_run *r, const struct node_slice *slice)
{
    r->slice = slice;
    const struct trial_dir_opts opts = dir_opts(r);
    struct err e = {0};
    if (metric_parse_new(&r->metric, json_object_get(r->data, "patterns"), &e) < 0)
        not_started(r, e.text, false);
    else if (trial_dir_make(&opts, &r->resumed, &r->copy_from, &e) < 0)
        not_started(r, e.text, true);
    else if (r->copy_from == 0)
        launch(r);
    else if (apply(r, TRIAL_RUN_EV_COPY))
        enter_preparing(r);
}

/* ---- stopping ------------------------------------------------------------------------------- */

void trial_run_stop(struct trial_run *r, bool preempted)
{
    if (!apply(r, TRIAL_RUN_EV_STOP))
        return;
    r->preempted = preempted;
    if (r->state == TRIAL_RUN_DONE)
        enter_done(r, run_result_not_started(NULL, preempted));
    else if (r->state == TRIAL_RUN_STOPPING)
        enter_stopping(r, TRIAL_RUN_EV_STOP);
}

void trial_run_kill(struct trial_run *r)
{
    if (apply(r, TRIAL_RUN_EV_KILL) && r->state == TRIAL_RUN_STOPPING)
        enter_stopping(r, TRIAL_RUN_EV_KILL);
}

void trial_run_resend(const struct trial_run *r)
{
    if (r->ticket && r->state != TRIAL_RUN_DONE)
        lease_context_send(r->context, WIRE_JOIN_TICKET, r->id, r->ticket);
}
