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

struct lease {
    const struct lease_host *host;
    int64_t id;
    json_t *run; /* NULL: its place is held, no more */
    enum state state;
    const struct share *place;
    struct launch *job;
    char *cgroup; /* its own; NULL: it has none */
    struct metric *metric;
    enum source source;
    struct output {
        int fd;      /* -1: not open */
        bool opened; /* or could not be */
        bool full;   /* some of it could not be written */
    } outputs[2];    /* stdout, stderr: made with their first line */
    bool stop, preempted;

    /* Of a job over several nodes, and a place that is held for one. */
    json_t *others;        /* borrowed from `run`; NULL: there are none */
    struct agents *agents; /* the job's ranks here */
    bool invited;          /* they were started: once */
    json_t *invite;        /* for those of the others; NULL: not known yet */
    json_t *how;           /* the job has ended, but not all agents */
    struct hosts *hosts;
    struct launch_part *parts;
    char **argv, **env; /* the job's */

    struct unsaid *unsaid;

    char *root, *params, *wandb;
    bool resumed;
    int64_t from; /* the lease whose checkpoint is copied; 0: there is none */
    uv_work_t work;
    struct err copy_error; /* of the thread that copies; said by copied() */
};

static const char *text(const struct lease *l, const char *key)
{
    return json_string_value(json_object_get(l->run, key));
}

static int number(const struct lease *l, const char *key)
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

struct lease *lease_new(const struct lease_host *h, int64_t id, json_t *run)
{
    struct lease *l = xzalloc(sizeof *l);
    l->host = h;
    l->id = id;
    l->run = json_incref(run);
    l->outputs[0].fd = l->outputs[1].fd = -1;
    l->others = json_object_get(run, "others");
    if (!run) {
        l->unsaid = unsaid_new(&(struct unsaid_ask){id, UNSAID_MAX, "", h->say, h->arg});
        return l;
    }
    const json_t *params = json_object_get(run, "params");
    AUTO(free) char *line = json_line(params);
    const char *here = site_dir(h->site);
    l->root = here ? trialdir_path(here, number(l, "trial")) : xstrdup(text(l, "dir"));
    AUTO(free) char *file = xasprintf("%s/%lld/unsaid", l->root, (long long)id);
    l->unsaid = unsaid_new(&(struct unsaid_ask){id, UNSAID_MAX, file, h->say, h->arg});
    l->params = xasprintf("%s\n", line);
    l->wandb = wandb_params(params);
    return l;
}

static void close_files(struct lease *l)
{
    for (int i = 0; i < 2; i++) {
        auto_fd(&l->outputs[i].fd);
        l->outputs[i].fd = -1;
    }
}

void lease_free(struct lease *l)
{
    if (!l)
        return;
    unsaid_free(l->unsaid);
    if (l->job)
        launch_free(l->job);
    agents_free(l->agents);
    hosts_free(l->hosts);
    free(l->parts);
    strv_free(l->argv);
    strv_free(l->env);
    json_decref(l->invite);
    json_decref(l->how);
    close_files(l);
    metric_free(l->metric);
    json_decref(l->run);
    free(l->cgroup);
    free(l->root);
    free(l->params);
    free(l->wandb);
    free(l);
}

int64_t lease_id(const struct lease *l)
{
    return l->id;
}

bool lease_holds(const struct lease *l)
{
    return !l->run;
}

bool lease_started(const struct lease *l)
{
    return l->state != NEW;
}

bool lease_told_to_stop(const struct lease *l)
{
    return l->stop;
}

bool lease_over(const struct lease *l)
{
    return l->state == OVER;
}

/* ---- saying --------------------------------------------------------------------------------- */

/* `how` is WIRE_DONE's data, taken over; NULL of a place that was held: it may be gone afterwards.
 */
static void finish(struct lease *l, json_t *how)
{
    l->state = OVER;
    close_files(l);
    cgroup_own_remove(l->cgroup);
    l->host->over(l->host->arg, l);
    if (how)
        unsaid_push(l->unsaid, WIRE_DONE, how);
}

static void say(const struct lease *l, enum wire_kind kind, json_t *data)
{
    const struct wire_msg m = {.kind = kind, .lease = l->id, .data = data};
    l->host->say(l->host->arg, &m);
}

static void say_held(const struct lease *l)
{
    AUTO(json)
    json_t *data = json_pack("{s:s*,s:s*}", "cpus", l->place->cpus, "gpus", l->place->gpus);
    say(l, WIRE_HELD, data);
}

void lease_say_again(const struct lease *l)
{
    if (lease_holds(l) && l->preempted)
        say(l, WIRE_DROP, NULL);
    else if (lease_holds(l) && l->state == RUNNING && !l->invited)
        say_held(l);
    else if (l->invite && l->state == RUNNING)
        say(l, WIRE_INVITE, l->invite);
}

const struct unsaid *lease_unsaid(const struct lease *l)
{
    return l->unsaid;
}

bool lease_acknowledge(struct lease *l, int64_t seq)
{
    return unsaid_acknowledge(l->unsaid, seq) && l->state == OVER;
}

/* ---- the job's events ----------------------------------------------------------------------- */

/* A report of `source`; takes the reference. Worse sources than the best one seen are not listened
 * to: a program that reports on the channel may print the same as lines. */
static void report(struct lease *l, enum source source, json_t *data)
{
    if (!data)
        return;
    if (source < l->source) {
        json_decref(data);
        return;
    }
    l->source = source;
    unsaid_push(l->unsaid, WIRE_REPORT, data);
}

/* Where it cannot be opened the trial runs on. */
static struct output *output(struct lease *l, enum launch_stream from)
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
static void write_line(struct lease *l, int rank, enum launch_stream from, const char *line,
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
    struct lease *l = arg;
    write_line(l, rank, from, line, len);
    if (rank == 0 && from == LAUNCH_STDOUT && l->source <= FROM_LINES) {
        json_t *data = metric_from_json(line, len);
        if (data)
            report(l, FROM_LINES, data);
        else
            report(l, FROM_PATTERN, metric_from_pattern(l->metric, line, len));
    }
    return true;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    if (rank == 0)
        report(arg, FROM_CHANNEL, metric_from_json(json, len));
}

/* Whether a job over several nodes has ended because one of them is lost, or did not bring its
 * ranks: no fault of the trial's. */
static bool for_the_nodes(const struct lease *l, const struct job_end *end)
{
    bool met = launch_plan(l->job)->master_addr != NULL; /* known when all have come */
    return end->broken || (end->first_failed >= 0 &&
                           (end->first.lost || (!met && end->first.start_status == 126)));
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct lease *l = arg;
    l->how = ending_json(end, l->preempted || (l->others && !l->stop && for_the_nodes(l, end)));
    if (l->agents)
        agents_clear(l->agents);
    else
        finish(l, TAKE(l->how));
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
static char **environment(const struct lease *l)
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
static char *localised(const struct lease *l, const char *word)
{
    const char *dir = text(l, "dir"), *at = strstr(word, dir);
    if (!at || !site_dir(l->host->site) || at[strlen(dir)] != '/')
        return xstrdup(word);
    return xasprintf("%.*s%s%s", (int)(at - word), word, l->root, at + strlen(dir));
}

static char **arguments(const struct lease *l)
{
    char **argv = NULL;
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(l->run, "argv"), i, item)
        strv_push(&argv, localised(l, json_string_value(item)));
    return argv;
}

/* A control group with the limits that the trial asked for. */
static void fence(struct lease *l)
{
    const struct resources *need = l->host->need;
    const struct cgroup_own_limits limits = {need->memory_bytes, need->ranks * need->cpus};
    AUTO(free) char *name = xasprintf("%d-%lld", (int)getpid(), (long long)l->id);
    struct err e = {0};
    if (l->host->cgroups && cgroup_own_make(&l->cgroup, l->host->cgroups, name, &limits, &e) < 0)
        log_warn("lease %lld runs without limits: %s", (long long)l->id, e.text);
}

static void on_agents_ended(void *arg)
{
    struct lease *l = arg;
    agents_free(TAKE(l->agents));
    if (l->how || (lease_holds(l) && l->stop))
        finish(l, TAKE(l->how));
}

/* The ranks here of a job that is launched here or elsewhere, from `first` on. */
static int bring_ranks(struct lease *l, const json_t *invite, int first, struct err *e)
{
    const struct agents_ask ask = {.control = json_string_value(json_object_get(invite, "address")),
                                   .token = json_string_value(json_object_get(invite, "token")),
                                   .first_rank = first,
                                   .count = l->host->need->ranks,
                                   .cgroup = l->cgroup};
    return agents_start(&l->agents, l->host->launcher, &ask, on_agents_ended, l, e);
}

void lease_invite(struct lease *l, const json_t *invite)
{
    struct err e = {0};
    if (!lease_holds(l) || l->state != RUNNING || l->invited || l->stop)
        return;
    fence(l);
    int first = (int)json_integer_value(json_object_get(invite, "rank"));
    l->invited = bring_ranks(l, invite, first, &e) == 0;
    if (!l->invited)
        log_error("lease %lld: %s", (long long)l->id, e.text); /* its launcher will miss them */
}

/* This node, then the others, each with its part of the job. */
static void spread(struct lease *l, struct launch_spec *spec)
{
    size_t n = json_array_size(l->others);
    int ranks = l->host->need->ranks;
    l->parts = xcalloc(n + 1, sizeof *l->parts);
    l->hosts = xzalloc(sizeof *l->hosts);
    l->parts[0] = (struct launch_part){l->place->cpus, l->place->gpus};
    hosts_add(l->hosts, topo_name(launcher_topo(l->host->launcher)), ranks, 0);
    l->hosts->at[0].here = true;
    for (size_t i = 0; i < n; i++) {
        const json_t *other = json_array_get(l->others, i),
                     *place = json_object_get(other, "place");
        hosts_add(l->hosts, json_string_value(json_object_get(other, "node")), ranks, 0);
        l->parts[i + 1] = (struct launch_part){json_string_value(json_object_get(place, "cpus")),
                                               json_string_value(json_object_get(place, "gpus"))};
    }
    spec->hosts = l->hosts;
    spec->parts = l->parts;
    spec->engine = PLAN_ENGINE_HELD;
    spec->ranks = ranks * ((int)n + 1);
    spec->oversubscribe = true; /* each node has said what fits */
}

/* The job awaits its ranks: those of this node, and the others'. */
static void invite(struct lease *l)
{
    struct err e = {0};
    const char *token = NULL;
    AUTO(free) char *address = launch_invitation(l->job, &token);
    l->invite = json_pack("{s:s,s:s}", "address", address, "token", token);
    say(l, WIRE_INVITE, l->invite);
    if (bring_ranks(l, l->invite, 0, &e) == 0)
        return;
    log_error("trial %d: %s", number(l, "trial"), e.text);
    launch_kill(l->job);
}

static void launch(struct lease *l)
{
    fence(l);
    (void)output(l, LAUNCH_STDOUT); /* there from the start, for those who follow it */
    l->argv = arguments(l);
    l->env = environment(l);
    struct launch_spec spec = {
        .ranks = l->host->need->ranks,
        .argv = l->argv,
        .env = l->env,
        .wdir = site_wdir(l->host->site),
        .cpus_per_rank = l->host->need->cpus,
        .oversubscribe = l->place->shared,
        .bind_to = l->place->cpus ? PLAN_BIND_DEFAULT : PLAN_BIND_NONE,
        .grace_ms = number(l, "grace_ms"),
        .reports = true,
        .stdin_null = true,
    };
    if (l->others) {
        spread(l, &spec);
    } else {
        spec.cpus = l->place->cpus;
        spec.cgroup = l->cgroup;
        spec.port_held = l->place->port > 0 && !env_get(l->env, "MASTER_PORT");
        spec.master_port = spec.port_held ? l->place->port : 0;
    }
    struct err e = {0};
    if (launch_start(&l->job, l->host->launcher, &spec, &events, l, &e) < 0) {
        finish(l, ending_unstarted(e.text, l->preempted));
        return;
    }
    l->state = RUNNING;
    if (l->others)
        invite(l);
}

static struct trialdir_ask files_of(const struct lease *l)
{
    return (struct trialdir_ask){l->root, l->id, l->params, l->wandb};
}

static void copy(uv_work_t *w)
{
    struct lease *l = w->data;
    const struct trialdir_ask files = files_of(l);
    (void)trialdir_copy(&files, l->from, &l->copy_error);
}

static void copied(uv_work_t *w, int status)
{
    struct lease *l = w->data;
    if (l->stop)
        finish(l, ending_unstarted(NULL, l->preempted));
    else if (l->copy_error.code < 0)
        finish(l, ending_unstarted(l->copy_error.text, l->preempted));
    else
        launch(l);
}

void lease_start(struct lease *l, const struct share *place)
{
    l->place = place;
    if (lease_holds(l)) {
        l->state = RUNNING;
        say_held(l);
        return;
    }
    l->state = PREPARING;
    l->work.data = l;
    const struct trialdir_ask files = files_of(l);
    struct err e = {0};
    int rc = metric_new(&l->metric, json_object_get(l->run, "patterns"), &e);
    if (rc == 0)
        rc = trialdir_make(&files, &l->resumed, &l->from, &e);
    if (rc < 0)
        finish(l, ending_unstarted(e.text, l->preempted));
    else if (l->from == 0)
        launch(l);
    else if (uv_queue_work(l->host->loop, &l->work, copy, copied) < 0)
        finish(l, ending_unstarted("no thread could be started", l->preempted));
}

/* A place that is held: of a trial that has ended; `preempted`: of one that is to end in good order
 * first, as this worker needs it back. */
static void let_go(struct lease *l, bool preempted)
{
    if (preempted && !l->stop) {
        l->preempted = true;
        say(l, WIRE_DROP, NULL);
    }
    l->stop = true;
    if (!l->agents)
        finish(l, NULL);
    else if (!preempted)
        agents_clear(l->agents);
}

void lease_stop(struct lease *l, bool preempted)
{
    if (lease_holds(l)) {
        let_go(l, preempted);
        return;
    }
    if (l->stop || l->state == OVER)
        return;
    l->stop = true;
    l->preempted = preempted;
    if (l->state == NEW)
        finish(l, ending_unstarted(NULL, preempted));
    else if (l->state == RUNNING)
        launch_stop(l->job, POLITE_MS);
}

void lease_kill(struct lease *l)
{
    if (lease_holds(l)) {
        let_go(l, false);
        return;
    }
    l->stop = true;
    if (l->state == RUNNING)
        launch_kill(l->job);
}
