#include "hpo/worker/trial_run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#include "common/json.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "hpo/trial/metric_parse.h"
#include "hpo/worker/run_result.h"
#include "hpo/worker/trial_dir.h"
#include "launcher/node/cgroup_delegate.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hosts.h"
#include "launcher/remote/agent_spawn.h"

enum {
    POLITE_MS = 1000, /* for a program that reports to end by itself when told to stop */
    UNSAID_MAX = 5000 /* messages that are said ahead of their acknowledgement */
};

enum state { NEW, PREPARING, RUNNING, OVER };

/* Where reports come from; only those of the best source that has been seen count. */
enum source { FROM_NOWHERE, FROM_PATTERN, FROM_LINES, FROM_CHANNEL };

struct trial_run {
    const struct trial_run_host *host;
    int64_t id;
    json_t *run; /* NULL: its place is held, no more */
    enum state state;
    const struct node_slice *place;
    struct launch *job;
    char *cgroup; /* its own; NULL: it has none */
    struct metric_parse *metric;
    enum source source;
    struct output {
        int fd;      /* -1: not open */
        bool opened; /* or could not be */
        bool full;   /* some of it could not be written */
    } outputs[2];    /* stdout, stderr: made with their first line */
    bool stop, preempted;

    /* Of a job over several nodes, and a place that is held for one. */
    json_t *others;             /* borrowed from `run`; NULL: there are none */
    struct agent_spawn *agents; /* the job's ranks here */
    bool agents_started;        /* they were started: once */
    json_t *invite;             /* for those of the others; NULL: not known yet */
    json_t *result;             /* the job has ended, but not all agents */
    struct hosts *hosts;
    struct launch_node_resources *parts;
    char **argv, **env; /* the job's */

    struct outbox *unsaid;

    char *root, *params, *wandb;
    bool resumed;
    int64_t from; /* the lease whose checkpoint is copied; 0: there is none */
    uv_work_t work;
    struct err copy_error; /* of the thread that copies; said by copied() */
};

static const char *text(const struct trial_run *l, const char *key)
{
    return json_string_value(json_object_get(l->run, key));
}

static int number(const struct trial_run *l, const char *key)
{
    return (int)json_integer_value(json_object_get(l->run, key));
}

/* What W&B's library reads as the run's configuration (YAML; JSON values are). */
static char *wandb_params(const json_t *params)
{
    struct strbuf b = {0};
    strbuf_puts(&b, "wandb_version: 1\n");
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)params, name, v) {
        AUTO(free) char *value = json_line(v);
        strbuf_printf(&b, "\n%s:\n  value: %s\n", name, value);
    }
    return strbuf_take(&b);
}

struct trial_run *trial_run_new(const struct trial_run_host *h, int64_t id, json_t *run)
{
    struct trial_run *l = xzalloc(sizeof *l);
    l->host = h;
    l->id = id;
    l->run = json_incref(run);
    l->outputs[0].fd = l->outputs[1].fd = -1;
    l->others = json_object_get(run, "peers");
    if (!run) {
        l->unsaid = outbox_new(&(struct outbox_opts){id, UNSAID_MAX, "", h->say, h->arg});
        return l;
    }
    const json_t *params = json_object_get(run, "params");
    AUTO(free) char *line = json_line(params);
    const char *here = trial_paths_dir(h->site);
    l->root = here ? trial_dir_path(here, number(l, "trial")) : xstrdup(text(l, "dir"));
    AUTO(free) char *file = xasprintf("%s/%lld/unsaid", l->root, (long long)id);
    l->unsaid = outbox_new(&(struct outbox_opts){id, UNSAID_MAX, file, h->say, h->arg});
    l->params = xasprintf("%s\n", line);
    l->wandb = wandb_params(params);
    return l;
}

static void close_files(struct trial_run *l)
{
    for (int i = 0; i < 2; i++) {
        auto_fd(&l->outputs[i].fd);
        l->outputs[i].fd = -1;
    }
}

void trial_run_free(struct trial_run *l)
{
    if (!l)
        return;
    outbox_free(l->unsaid);
    if (l->job)
        launch_free(l->job);
    agent_spawn_free(l->agents);
    hosts_free(l->hosts);
    free(l->parts);
    strv_free(l->argv);
    strv_free(l->env);
    json_decref(l->invite);
    json_decref(l->result);
    close_files(l);
    metric_parse_free(l->metric);
    json_decref(l->run);
    free(l->cgroup);
    free(l->root);
    free(l->params);
    free(l->wandb);
    free(l);
}

int64_t trial_run_id(const struct trial_run *l)
{
    return l->id;
}

bool trial_run_is_reservation(const struct trial_run *l)
{
    return !l->run;
}

bool trial_run_is_started(const struct trial_run *l)
{
    return l->state != NEW;
}

bool trial_run_is_stopping(const struct trial_run *l)
{
    return l->stop;
}

bool trial_run_is_done(const struct trial_run *l)
{
    return l->state == OVER;
}

/* ---- saying --------------------------------------------------------------------------------- */

/* `how` is WIRE_DONE's data, taken over; NULL of a place that was held: it may be gone afterwards.
 */
static void finish(struct trial_run *l, json_t *how)
{
    l->state = OVER;
    close_files(l);
    cgroup_delegate_remove(l->cgroup);
    l->host->over(l->host->arg, l);
    if (how)
        outbox_push(l->unsaid, WIRE_DONE, how);
}

static void say(const struct trial_run *l, enum wire_kind kind, json_t *data)
{
    const struct wire_msg m = {.kind = kind, .lease = l->id, .data = data};
    l->host->say(l->host->arg, &m);
}

static void say_held(const struct trial_run *l)
{
    AUTO(json)
    json_t *data = json_pack("{s:s*,s:s*}", "cpus", l->place->cpus, "gpus", l->place->gpus);
    say(l, WIRE_RESERVED, data);
}

void trial_run_resend(const struct trial_run *l)
{
    if (trial_run_is_reservation(l) && l->preempted)
        say(l, WIRE_REVOKE, NULL);
    else if (trial_run_is_reservation(l) && l->state == RUNNING && !l->agents_started)
        say_held(l);
    else if (l->invite && l->state == RUNNING)
        say(l, WIRE_JOIN_TICKET, l->invite);
}

const struct outbox *trial_run_outbox(const struct trial_run *l)
{
    return l->unsaid;
}

bool trial_run_acknowledge(struct trial_run *l, int64_t seq)
{
    return outbox_acknowledge(l->unsaid, seq) && l->state == OVER;
}

/* ---- the job's events ----------------------------------------------------------------------- */

/* A report of `source`; takes the reference. Worse sources than the best one seen are not listened
 * to: a program that reports on the channel may print the same as lines. */
static void report(struct trial_run *l, enum source source, json_t *data)
{
    if (!data)
        return;
    if (source < l->source) {
        json_decref(data);
        return;
    }
    l->source = source;
    outbox_push(l->unsaid, WIRE_REPORT, data);
}

/* Where it cannot be opened the trial runs on. */
static struct output *output(struct trial_run *l, enum launch_stream from)
{
    struct output *o = &l->outputs[from == LAUNCH_STDERR];
    if (o->opened)
        return o;
    o->opened = true;
    AUTO(free)
    char *path = xasprintf("%s/%lld/%s", l->root, (long long)l->id,
                           from == LAUNCH_STDERR ? "stderr" : "stdout");
    o->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (o->fd < 0)
        log_warn("trial %d: %s: %s", number(l, "trial"), path, strerror(errno));
    return o;
}

/* Line by line, so that a person may follow. */
static void write_line(struct trial_run *l, int rank, enum launch_stream from, const char *line,
                       size_t len)
{
    struct output *o = output(l, from);
    char who[16] = "";
    if (l->host->need->ranks > 1 || l->others)
        snprintf(who, sizeof who, "[%d] ", rank);
    const struct iovec parts[] = {{who, strlen(who)}, {(char *)line, len}, {"\n", 1}};
    if (o->fd < 0 || writev(o->fd, parts, COUNT_OF(parts)) >= 0 || o->full)
        return;
    o->full = true;
    log_warn("trial %d: its output cannot be written: %s", number(l, "trial"), strerror(errno));
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *line, size_t len)
{
    struct trial_run *l = arg;
    write_line(l, rank, from, line, len);
    if (rank == 0 && from == LAUNCH_STDOUT && l->source <= FROM_LINES) {
        json_t *data = metric_parse_from_json(line, len);
        if (data)
            report(l, FROM_LINES, data);
        else
            report(l, FROM_PATTERN, metric_parse_from_pattern(l->metric, line, len));
    }
    return true;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    if (rank == 0)
        report(arg, FROM_CHANNEL, metric_parse_from_json(json, len));
}

/* Whether a job over several nodes has ended because one of them is lost, or did not bring its
 * ranks: no fault of the trial's. */
static bool is_node_fault(const struct trial_run *l, const struct job_end *end)
{
    bool met = launch_plan(l->job)->master_addr != NULL; /* known when all have come */
    return end->broken || (end->first_failed >= 0 &&
                           (end->first.lost || (!met && end->first.start_status == 126)));
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct trial_run *l = arg;
    l->result =
        run_result_json(end, l->preempted || (l->others && !l->stop && is_node_fault(l, end)));
    if (l->agents)
        agent_spawn_kill(l->agents);
    else
        finish(l, TAKE(l->result));
}

static const struct launch_events events = {
    .line = on_line, .report = on_report, .ended = on_ended};

/* ---- starting ------------------------------------------------------------------------------- */

/* Python finds drover.py, and our stand-in for W&B's module before W&B's own. They lie in
 * ../../share/drover from this program, in the build tree and when installed: below `prefix`. */
static void add_python_path(char ***env, const char *prefix, bool stand_in)
{
    const char *old = getenv("PYTHONPATH");
    AUTO(strbuf) struct strbuf b = {0};
    if (stand_in)
        strbuf_printf(&b, "%s/share/drover/trial:", prefix);
    strv_push(env, xasprintf("PYTHONPATH=%s%s/share/drover%s%s", strbuf_str(&b), prefix,
                             old && *old ? ":" : "", old ? old : ""));
}

/* A strv: the run's own variables, and what the trial is told of itself. */
static char **environment(const struct trial_run *l)
{
    const char *sweep = text(l, "sweep");
    int trial = number(l, "trial");
    char **env = NULL;
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(l->run, "env"), i, item)
        strv_push(&env, xstrdup(json_string_value(item)));
    AUTO(free) char *dir = xasprintf("%s/%lld", l->root, (long long)l->id);
    strv_push(&env, xasprintf("DROVER_SWEEP=%s", sweep));
    strv_push(&env, xasprintf("DROVER_TRIAL_ID=%d", trial));
    strv_push(&env, xasprintf("DROVER_TRIAL_DIR=%s", dir));
    strv_push(&env, xasprintf("DROVER_CKPT_DIR=%s/ckpt", dir));
    strv_push(&env, xasprintf("WANDB_SWEEP_ID=%s", sweep));
    strv_push(&env, xasprintf("WANDB_RUN_ID=%s-%06d", sweep, trial));
    strv_push(&env, xasprintf("WANDB_SWEEP_PARAM_PATH=%s/config.yaml", dir));
    if (l->place->gpus && !l->others) /* what is visible to a job is the job's (plan.h) */
        strv_push(&env, xasprintf("CUDA_VISIBLE_DEVICES=%s", l->place->gpus));
    if (l->host->prefix)
        add_python_path(&env, l->host->prefix,
                        !json_is_true(json_object_get(l->run, "wandb_real")));
    if (l->resumed)
        strv_push(&env, xstrdup("DROVER_RESUME=1"));
    return env;
}

/* The word, which may name a file in the trial's directory (W&B's ${args_json_file}): as it is
 * called on this node. To be freed. */
static char *node_local_path(const struct trial_run *l, const char *word)
{
    const char *dir = text(l, "dir"), *at = strstr(word, dir);
    if (!at || !trial_paths_dir(l->host->site) || at[strlen(dir)] != '/')
        return xstrdup(word);
    return xasprintf("%.*s%s%s", (int)(at - word), word, l->root, at + strlen(dir));
}

static char **arguments(const struct trial_run *l)
{
    char **argv = NULL;
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(l->run, "argv"), i, item)
        strv_push(&argv, node_local_path(l, json_string_value(item)));
    return argv;
}

/* A control group with the limits that the trial asked for. */
static void make_cgroup(struct trial_run *l)
{
    const struct resources *need = l->host->need;
    const struct cgroup_delegate_limits limits = {need->memory_bytes, need->ranks * need->cpus};
    AUTO(free) char *name = xasprintf("%d-%lld", (int)getpid(), (long long)l->id);
    struct err e = {0};
    if (l->host->cgroups &&
        cgroup_delegate_make(&l->cgroup, l->host->cgroups, name, &limits, &e) < 0)
        log_warn("lease %lld runs without limits: %s", (long long)l->id, e.text);
}

static void on_agents_ended(void *arg)
{
    struct trial_run *l = arg;
    agent_spawn_free(TAKE(l->agents));
    if (l->result || (trial_run_is_reservation(l) && l->stop))
        finish(l, TAKE(l->result));
}

/* The ranks here of a job that is launched here or elsewhere, from `first` on. */
static int start_agents(struct trial_run *l, const json_t *invite, int first, struct err *e)
{
    const struct agent_spawn_opts ask = {
        .control = json_string_value(json_object_get(invite, "address")),
        .token = json_string_value(json_object_get(invite, "token")),
        .first_rank = first,
        .count = l->host->need->ranks,
        .cgroup = l->cgroup};
    return agent_spawn_start(&l->agents, l->host->launcher, &ask, on_agents_ended, l, e);
}

void trial_run_join(struct trial_run *l, const json_t *invite)
{
    struct err e = {0};
    if (!trial_run_is_reservation(l) || l->state != RUNNING || l->agents_started || l->stop)
        return;
    make_cgroup(l);
    int first = (int)json_integer_value(json_object_get(invite, "rank"));
    l->agents_started = start_agents(l, invite, first, &e) == 0;
    if (!l->agents_started)
        log_error("lease %lld: %s", (long long)l->id, e.text); /* its launcher will miss them */
}

/* This node, then the others, each with its part of the job. */
static void expand_to_nodes(struct trial_run *l, struct launch_spec *spec)
{
    size_t n = json_array_size(l->others);
    int ranks = l->host->need->ranks;
    l->parts = xcalloc(n + 1, sizeof *l->parts);
    l->hosts = xzalloc(sizeof *l->hosts);
    l->parts[0] = (struct launch_node_resources){l->place->cpus, l->place->gpus};
    hosts_add(l->hosts, topo_name(launch_context_topo(l->host->launcher)), ranks, 0);
    l->hosts->at[0].here = true;
    for (size_t i = 0; i < n; i++) {
        const json_t *other = json_array_get(l->others, i),
                     *place = json_object_get(other, "resources");
        hosts_add(l->hosts, json_string_value(json_object_get(other, "node")), ranks, 0);
        l->parts[i + 1] =
            (struct launch_node_resources){json_string_value(json_object_get(place, "cpus")),
                                           json_string_value(json_object_get(place, "gpus"))};
    }
    spec->hosts = l->hosts;
    spec->node_resources = l->parts;
    spec->engine = PLAN_ENGINE_EXTERNAL;
    spec->ranks = ranks * ((int)n + 1);
    spec->oversubscribe = true; /* each node has said what fits */
}

/* The job awaits its ranks: those of this node, and the others'. */
static void invite(struct trial_run *l)
{
    struct err e = {0};
    const char *token = NULL;
    AUTO(free) char *address = launch_join_ticket(l->job, &token);
    l->invite = json_pack("{s:s,s:s}", "address", address, "token", token);
    say(l, WIRE_JOIN_TICKET, l->invite);
    if (start_agents(l, l->invite, 0, &e) == 0)
        return;
    log_error("trial %d: %s", number(l, "trial"), e.text);
    launch_kill(l->job);
}

static void launch(struct trial_run *l)
{
    make_cgroup(l);
    (void)output(l, LAUNCH_STDOUT); /* there from the start, for those who follow it */
    l->argv = arguments(l);
    l->env = environment(l);
    struct launch_spec spec = {
        .ranks = l->host->need->ranks,
        .argv = l->argv,
        .env = l->env,
        .wdir = trial_paths_wdir(l->host->site),
        .cpus_per_rank = l->host->need->cpus,
        .oversubscribe = l->place->shared,
        .bind_to = l->place->cpus ? PLAN_BIND_DEFAULT : PLAN_BIND_NONE,
        .grace_ms = number(l, "grace_ms"),
        .reports = true,
        .stdin_null = true,
    };
    if (l->others) {
        expand_to_nodes(l, &spec);
    } else {
        spec.cpus = l->place->cpus;
        spec.cgroup = l->cgroup;
        spec.port_held = l->place->port > 0 && !env_get(l->env, "MASTER_PORT");
        spec.master_port = spec.port_held ? l->place->port : 0;
    }
    struct err e = {0};
    if (launch_start(&l->job, l->host->launcher, &spec, &events, l, &e) < 0) {
        finish(l, run_result_not_started(e.text, l->preempted));
        return;
    }
    l->state = RUNNING;
    if (l->others)
        invite(l);
}

static struct trial_dir_opts files_of(const struct trial_run *l)
{
    return (struct trial_dir_opts){l->root, l->id, l->params, l->wandb};
}

static void copy(uv_work_t *w)
{
    struct trial_run *l = w->data;
    const struct trial_dir_opts files = files_of(l);
    (void)trial_dir_copy(&files, l->from, &l->copy_error);
}

static void copied(uv_work_t *w, int status)
{
    struct trial_run *l = w->data;
    if (l->stop)
        finish(l, run_result_not_started(NULL, l->preempted));
    else if (l->copy_error.code < 0)
        finish(l, run_result_not_started(l->copy_error.text, l->preempted));
    else
        launch(l);
}

void trial_run_start(struct trial_run *l, const struct node_slice *place)
{
    l->place = place;
    if (trial_run_is_reservation(l)) {
        l->state = RUNNING;
        say_held(l);
        return;
    }
    l->state = PREPARING;
    l->work.data = l;
    const struct trial_dir_opts files = files_of(l);
    struct err e = {0};
    int rc = metric_parse_new(&l->metric, json_object_get(l->run, "patterns"), &e);
    if (rc == 0)
        rc = trial_dir_make(&files, &l->resumed, &l->from, &e);
    if (rc < 0)
        finish(l, run_result_not_started(e.text, l->preempted));
    else if (l->from == 0)
        launch(l);
    else if (uv_queue_work(l->host->loop, &l->work, copy, copied) < 0)
        finish(l, run_result_not_started("no thread could be started", l->preempted));
}

/* A place that is held: of a trial that has ended; `preempted`: of one that is to end in good order
 * first, as this worker needs it back. */
static void release_reservation(struct trial_run *l, bool preempted)
{
    if (preempted && !l->stop) {
        l->preempted = true;
        say(l, WIRE_REVOKE, NULL);
    }
    l->stop = true;
    if (!l->agents)
        finish(l, NULL);
    else if (!preempted)
        agent_spawn_kill(l->agents);
}

void trial_run_stop(struct trial_run *l, bool preempted)
{
    if (trial_run_is_reservation(l)) {
        release_reservation(l, preempted);
        return;
    }
    if (l->stop || l->state == OVER)
        return;
    l->stop = true;
    l->preempted = preempted;
    if (l->state == NEW)
        finish(l, run_result_not_started(NULL, preempted));
    else if (l->state == RUNNING)
        launch_stop(l->job, POLITE_MS);
}

void trial_run_kill(struct trial_run *l)
{
    if (trial_run_is_reservation(l)) {
        release_reservation(l, false);
        return;
    }
    l->stop = true;
    if (l->state == RUNNING)
        launch_kill(l->job);
}
