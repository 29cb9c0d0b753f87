#include "hpo/sweep/lease.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "hpo/sweep/ending.h"
#include "hpo/sweep/metric.h"
#include "hpo/sweep/trialdir.h"

enum {
    POLITE_MS = 1000,    /* for a program that reports to end by itself when told to stop */
    UNSAID_HIGH = 20000, /* messages without acknowledgement: the trial's output is not read on */
    UNSAID_LOW = 10000   /* until there are as few as these */
};

enum state { NEW, PREPARING, RUNNING, OVER };

/* Where reports come from; only those of the best source that has been seen count. */
enum source { FROM_NOWHERE, FROM_PATTERN, FROM_LINES, FROM_CHANNEL };

struct unsaid {
    struct unsaid *next;
    struct wire_msg m;
};

struct lease {
    const struct lease_host *host;
    int64_t id;
    json_t *run;
    enum state state;
    const struct share *place;
    struct launch *job;
    struct metric *metric;
    enum source source;
    FILE *files[2]; /* stdout, stderr; NULL: could not be opened */
    bool stop, preempted;

    int64_t last_seq;
    struct unsaid *oldest, *newest;
    int unsaid_count;
    bool paused; /* the job's output */

    /* For the thread that prepares the directory: its own until it is done. */
    uv_work_t work;
    char *root, *params, *wandb;
    bool resumed;
    struct err prepare_error; /* said by prepared() */
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
    const json_t *params = json_object_get(run, "params");
    AUTO(free) char *line = json_line(params);
    const char *here = site_dir(h->site);
    l->root = here ? trialdir_path(here, number(l, "trial")) : xstrdup(text(l, "dir"));
    l->params = xasprintf("%s\n", line);
    l->wandb = wandb_params(params);
    return l;
}

static void drop_oldest(struct lease *l)
{
    struct unsaid *u = l->oldest;
    l->oldest = u->next;
    if (!l->oldest)
        l->newest = NULL;
    l->unsaid_count--;
    wire_msg_clear(&u->m);
    free(u);
}

static void close_files(struct lease *l)
{
    for (int i = 0; i < 2; i++) {
        if (l->files[i] && fclose(l->files[i]) != 0)
            log_warn("trial %d: output could not be written: %s", number(l, "trial"),
                     strerror(errno));
        l->files[i] = NULL;
    }
}

void lease_free(struct lease *l)
{
    if (!l)
        return;
    while (l->oldest)
        drop_oldest(l);
    if (l->job)
        launch_free(l->job);
    close_files(l);
    metric_free(l->metric);
    json_decref(l->run);
    free(l->root);
    free(l->params);
    free(l->wandb);
    free(l);
}

int64_t lease_id(const struct lease *l)
{
    return l->id;
}

bool lease_started(const struct lease *l)
{
    return l->state != NEW;
}

bool lease_over(const struct lease *l)
{
    return l->state == OVER;
}

/* ---- saying --------------------------------------------------------------------------------- */

/* Takes the reference to `data`. */
static void say(struct lease *l, enum wire_kind kind, json_t *data)
{
    struct unsaid *u = xzalloc(sizeof *u);
    u->m = (struct wire_msg){.kind = kind, .lease = l->id, .seq = ++l->last_seq, .data = data};
    if (l->newest)
        l->newest->next = u;
    else
        l->oldest = u;
    l->newest = u;
    l->unsaid_count++;
    l->host->say(l->host->arg, l, &u->m);
}

static void finish(struct lease *l, json_t *how)
{
    l->state = OVER;
    close_files(l);
    say(l, WIRE_DONE, how);
    l->host->over(l->host->arg, l);
}

void lease_unacknowledged(const struct lease *l, void (*fn)(void *arg, const struct wire_msg *m),
                          void *arg)
{
    for (const struct unsaid *u = l->oldest; u; u = u->next)
        fn(arg, &u->m);
}

bool lease_acknowledge(struct lease *l, int64_t seq)
{
    while (l->oldest && l->oldest->m.seq <= seq)
        drop_oldest(l);
    if (l->paused && l->unsaid_count <= UNSAID_LOW && l->state == RUNNING) {
        l->paused = false;
        launch_resume_output(l->job);
    }
    return l->state == OVER && !l->oldest;
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
    say(l, WIRE_REPORT, data);
}

static void write_line(struct lease *l, int rank, enum launch_stream from, const char *line,
                       size_t len)
{
    FILE *f = l->files[from == LAUNCH_STDERR];
    if (!f)
        return;
    if (number(l, "ranks") > 1)
        fprintf(f, "[%d] ", rank);
    fwrite(line, 1, len, f);
    putc('\n', f);
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
    l->paused = l->unsaid_count >= UNSAID_HIGH;
    return !l->paused;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    if (rank == 0)
        report(arg, FROM_CHANNEL, metric_from_json(json, len));
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct lease *l = arg;
    finish(l, ending_json(end, l->preempted));
}

static const struct launch_events events = {
    .line = on_line, .report = on_report, .ended = on_ended};

/* ---- starting ------------------------------------------------------------------------------- */

/* Line by line, so that a person may follow; where it cannot be opened the trial runs on. */
static FILE *open_output(const struct lease *l, const char *name)
{
    AUTO(free) char *path = xasprintf("%s/%lld/%s", l->root, (long long)l->id, name);
    FILE *f = fopen(path, "ae");
    if (!f)
        log_warn("trial %d: %s: %s", number(l, "trial"), path, strerror(errno));
    else
        setvbuf(f, NULL, _IOLBF, 1 << 16);
    return f;
}

/* Python finds drover.py, and our stand-in for W&B's module before W&B's own. They lie in
 * ../../share/drover from this program, in the build tree and when installed. */
static void add_python_path(char ***env, bool stand_in)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    for (int up = 0; up < 3 && n > 0; up++)
        n = (const char *)memrchr(self, '/', (size_t)n) - self;
    if (n <= 0)
        return;
    self[n] = 0;
    const char *old = getenv("PYTHONPATH");
    AUTO(strbuf) struct strbuf b = {0};
    if (stand_in)
        strbuf_printf(&b, "%s/share/drover/trial:", self);
    strv_push(env, xasprintf("PYTHONPATH=%s%s/share/drover%s%s", strbuf_str(&b), self,
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
    add_python_path(&env, !json_is_true(json_object_get(l->run, "wandb_real")));
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

static void launch(struct lease *l)
{
    l->files[0] = open_output(l, "stdout");
    l->files[1] = open_output(l, "stderr");
    AUTO(strv) char **argv = arguments(l);
    AUTO(strv) char **env = environment(l);
    AUTO(free)
    char *gpus = l->place->gpus ? share_first_gpus(l->place->gpus, number(l, "gpus")) : NULL;
    struct launch_spec spec = {
        .ranks = number(l, "ranks"),
        .argv = argv,
        .env = env,
        .wdir = site_wdir(l->host->site),
        .cpus = l->place->cpus,
        .cpus_per_rank = number(l, "cpus"),
        .gpus = gpus,
        .oversubscribe = l->place->shared,
        .bind_to = l->place->cpus ? PLAN_BIND_DEFAULT : PLAN_BIND_NONE,
        .grace_ms = number(l, "grace_ms"),
        .reports = true,
        .stdin_null = true,
    };
    struct err e = {0};
    if (launch_start(&l->job, l->host->launcher, &spec, &events, l, &e) < 0) {
        finish(l, ending_unstarted(e.text, l->preempted));
        return;
    }
    l->state = RUNNING;
}

static void prepare(uv_work_t *w)
{
    struct lease *l = w->data;
    struct trialdir_ask ask = {l->root, l->id, l->params, l->wandb};
    if (metric_new(&l->metric, json_object_get(l->run, "patterns"), &l->prepare_error) < 0)
        return;
    (void)trialdir_prepare(&ask, &l->resumed, &l->prepare_error);
}

static void prepared(uv_work_t *w, int status)
{
    struct lease *l = w->data;
    if (l->stop)
        finish(l, ending_unstarted(NULL, l->preempted));
    else if (l->prepare_error.code < 0)
        finish(l, ending_unstarted(l->prepare_error.text, l->preempted));
    else
        launch(l);
}

void lease_start(struct lease *l, const struct share *place)
{
    l->place = place;
    l->state = PREPARING;
    l->work.data = l;
    if (uv_queue_work(l->host->loop, &l->work, prepare, prepared) < 0)
        finish(l, ending_unstarted("no thread could be started", l->preempted));
}

void lease_stop(struct lease *l, bool preempted)
{
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
    l->stop = true;
    if (l->state == RUNNING)
        launch_kill(l->job);
}
