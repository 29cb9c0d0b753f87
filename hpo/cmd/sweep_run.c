#include "hpo/cmd/sweep_run.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/own_process.h"
#include "common/stop_signals.h"
#include "common/strbuf.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/node_metrics.h"
#include "hpo/cmd/sweep_print.h"
#include "hpo/coordinator/progress_display.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/coordinator/worker_roster.h"
#include "hpo/reader/sweep_insight.h"
#include "hpo/reader/sweep_reader.h"
#include "hpo/spec/spec.h"
#include "hpo/store/stored_sweep.h"
#include "hpo/store/sweep_archive.h"
#include "hpo/trial/trial.h"
#include "hpo/worker/sched_batch.h"
#include "launcher/io/terminal.h"
#include "launcher/jobs/registry.h"
#include "launcher/limits/job_clock.h"
#include "launcher/metrics/metrics_server.h"
#include "launcher/node/limits.h"

enum { TABLE_MAX = 20, ZEROMQ_THREADS = 2, SERVER_START_MS = 5000 };

/* ---- metrics -------------------------------------------------------------------------------- */

/* The metrics of a running sweep, and of the GPUs of its host. */
struct sweep_metrics {
    struct metrics_server *server;
    struct node_metrics *node; /* NULL: this host runs no trials */
    const char *sweep;
    const struct spec *spec;
    struct coordinator_view view;
    double started_s; /* since 1970 */
    int64_t ended[TRIAL_STATES], reports;
};

static double best_value(const struct sweep_metrics *m)
{
    int best = scheduler_best(m->view.sched);
    return best < 0 ? (double)NAN
                    : trial_value(scheduler_view(m->view.sched).trials[best], m->spec->value_last);
}

static void add_states(const struct sweep_metrics *m, struct metrics_text *t)
{
    const struct scheduler_counts n = scheduler_counts(m->view.sched);
    const struct {
        const char *state;
        int count;
    } states[] = {{"waiting", n.waiting},    {"running", n.running}, {"stopping", n.stopping},
                  {"paused", n.paused},      {"done", n.done},       {"pruned", n.pruned},
                  {"failed", n.failed},      {"oom", n.oom},         {"invalid", n.invalid},
                  {"cancelled", n.cancelled}};
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        const struct metrics_label labels[] = {{"sweep", m->sweep}, {"state", states[i].state}};
        metrics_text_add(t, METRICS_SWEEP_TRIALS, states[i].count, labels, 2);
    }
    for (int i = 0; i < TRIAL_STATES; i++) {
        const char *state = trial_state_name((enum trial_state)i);
        const struct metrics_label labels[] = {{"sweep", m->sweep}, {"state", state}};
        if (trial_is_ended((enum trial_state)i))
            metrics_text_add(t, METRICS_SWEEP_TRIALS_ENDED, (double)m->ended[i], labels, 2);
    }
}

static void fill_metrics(void *arg, struct metrics_text *t)
{
    const struct sweep_metrics *m = arg;
    const struct worker_roster_totals workers = worker_roster_totals(m->view.workers);
    int wanted = scheduler_counts(m->view.sched).total_wanted;
    const struct {
        enum metrics_name name;
        double value;
    } values[] = {
        {METRICS_SWEEP_START_TIME, m->started_s},
        {METRICS_SWEEP_PAUSED, scheduler_is_paused(m->view.sched)},
        {METRICS_SWEEP_TRIALS_WANTED, wanted < 0 ? (double)NAN : wanted},
        {METRICS_SWEEP_BEST_VALUE, best_value(m)},
        {METRICS_SWEEP_REPORTS, (double)m->reports},
        {METRICS_SWEEP_COMMITS, (double)m->view.totals->commits},
        {METRICS_SWEEP_WORKERS, workers.workers},
        {METRICS_SWEEP_WORKERS_LOST, m->view.totals->workers_lost},
        {METRICS_SWEEP_SLOTS, workers.slots},
        {METRICS_SWEEP_GPUS, workers.gpus},
    };
    const struct metrics_label labels[] = {{"sweep", m->sweep},
                                           {"metric", m->spec->metrics[0].name},
                                           {"method", m->spec->method->name}};
    metrics_text_add(t, METRICS_SWEEP_INFO, 1, labels, COUNT_OF(labels));
    for (size_t i = 0; i < COUNT_OF(values); i++)
        metrics_text_add(t, values[i].name, values[i].value, labels, 1);
    add_states(m, t);
    node_metrics_add(m->node, t);
}

/* A record was stored, of a trial or (-1) of the sweep. `m` may be NULL. */
static void sweep_metrics_stored(struct sweep_metrics *m, const struct scheduler *s,
                                 enum scheduler_record_kind kind, int trial)
{
    if (!m)
        return;
    m->reports += kind == SCHEDULER_REC_REPORT;
    if (kind == SCHEDULER_REC_ENDED)
        m->ended[scheduler_view(s).trials[trial]->state]++;
}

/* Call it before coordinator_close(). */
static void sweep_metrics_close(struct sweep_metrics *m)
{
    metrics_server_close(m->server);
    node_metrics_close(m->node);
    free(m);
}
AUTO_DEFINE(sweep_metrics, struct sweep_metrics *, sweep_metrics_close)

/* Listens; errors are those of metrics_server_open(). `runs_trials`: this host has a worker, whose
 * GPUs are sampled. */
static int sweep_metrics_open(struct sweep_metrics **out, const char *address, bool runs_trials,
                              struct err *e)
{
    AUTO(sweep_metrics) struct sweep_metrics *m = xzalloc(sizeof *m);
    int rc = metrics_server_open(&m->server, address, e);
    if (rc == 0 && runs_trials)
        rc = node_metrics_open(&m->node, NULL, e);
    if (rc < 0)
        return rc;
    *out = TAKE(m);
    return 0;
}

/* Starts to write values on the coordinator's loop. Borrows the name and the spec. `m` may be
 * NULL. */
static void sweep_metrics_start(struct sweep_metrics *m, const char *sweep, const struct spec *spec,
                                const struct coordinator_view *view)
{
    if (!m)
        return;
    m->sweep = sweep;
    m->spec = spec;
    m->view = *view;
    m->started_s = (double)clock_ms_of(CLOCK_REALTIME) / 1000;
    metrics_server_start(m->server, view->loop, fill_metrics, m);
}

/* ---- progress ------------------------------------------------------------------------------- */

/* What follows the coordinator's events. */
struct observers {
    struct coordinator *coord;
    struct progress_display *display;
    struct sweep_metrics *metrics; /* NULL: no --metrics */
    const struct resources *need;  /* of a trial */
    const struct job_limits *limits;
    struct job_clock *clock; /* NULL: the sweep has ended */
    bool warned;             /* that the budget has no effect */
    bool limited;            /* `limit` is reached */
    enum job_limit limit;
};

/* The trials use the GPUs that they need, and at most those that the workers have. */
static void count_gpus(struct observers *all, const struct scheduler *s)
{
    const struct scheduler_counts n = scheduler_counts(s);
    int trials = n.running + n.stopping;
    int have = worker_roster_totals(coordinator_view(all->coord).workers).gpus;
    double per_node = all->need->gpus > 0 ? all->need->gpus : all->need->ranks;
    job_clock_set_gpus(all->clock, fmin(trials * all->need->nodes * per_node, have));
    if (trials == 0 || have > 0 || all->warned)
        return;
    all->warned = true;
    AUTO(free)
    char *text = xasprintf("drover sweep: --budget %s has no effect: no worker has a GPU",
                           all->limits->budget_text);
    progress_display_print(all->display, text);
}

static void on_stored(void *arg, const struct scheduler *s, enum scheduler_record_kind kind,
                      int trial)
{
    const struct observers *all = arg;
    progress_display_stored(all->display, s, kind, trial);
    sweep_metrics_stored(all->metrics, s, kind, trial);
}

static void on_changed(void *arg, const struct scheduler *s)
{
    struct observers *all = arg;
    progress_display_changed(all->display);
    if (all->clock && job_limits_budget_gpu_h(all->limits) > 0)
        count_gpus(all, s);
}

static void on_interrupted(void *arg, bool again)
{
    AUTO(free)
    char *stopping = xasprintf("drover sweep: stopping: running trials return to the queue%s",
                               stop_signals_from_keys() ? "; press Ctrl-C again to kill them" : "");
    progress_display_print(((struct observers *)arg)->display,
                           again ? "drover sweep: killing the running trials" : stopping);
}

static void on_notice(void *arg, const char *text)
{
    AUTO(free) char *line = xasprintf("drover sweep: %s", text);
    progress_display_print(((struct observers *)arg)->display, line);
}

static void on_limit(void *arg, enum job_limit limit)
{
    struct observers *all = arg;
    all->limited = true;
    all->limit = limit;
    AUTO(strbuf) struct strbuf reason = {0};
    /* Without times: it cannot be late yet. */
    const struct job_limits_usage now = {.gpu_hours = job_clock_usage(all->clock).gpu_hours};
    strbuf_puts(&reason, "it was stopped ");
    job_limits_describe(&reason, all->limits, limit, &now);
    coordinator_interrupt(all->coord, strbuf_str(&reason));
}

static const struct coordinator_events events = {
    .stored = on_stored, .changed = on_changed, .interrupted = on_interrupted, .notice = on_notice};

void sweep_run_print_notices(char **texts, const struct sweep_options *o)
{
    for (; texts && *texts && !o->quiet; texts++)
        fprintf(stderr, "drover sweep: %s\n", *texts);
}

/* ---- result --------------------------------------------------------------------------------- */

static void print_result(const struct sweep_reader *v, const struct run_message_opts *m, bool json)
{
    if (json) {
        sweep_reader_print_json(v, stdout);
        return;
    }
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *pareto = sweep_reader_pareto(v);
    AUTO(json) json_t *trials = sweep_reader_top(v, pareto, TABLE_MAX);
    struct scheduler_counts counts = sweep_reader_counts(v);
    int best = sweep_reader_recommended(v);
    AUTO(free) char *infeasible = sweep_insight_infeasible(v->columns);
    progress_text_table(&b, trials, v->spec, pareto, v->dir->path, TABLE_MAX);
    strbuf_putc(&b, '\n');
    progress_text_counts(&b, &counts);
    strbuf_putc(&b, '\n');
    if (best >= 0)
        sweep_print_best(&b, m, v->columns, (size_t)best);
    else if (infeasible)
        strbuf_printf(&b, "best: none, since %s\n", infeasible);
    fputs(strbuf_str(&b), stdout);
}

/* A sweep without a metric has a result if a trial is done. */
static bool has_result(const struct sweep_reader *v)
{
    return v->spec->metrics[0].name ? sweep_columns_best(v->columns) >= 0
                                    : v->columns->states[TRIAL_DONE] > 0;
}

/* After a sweep that was stopped, or has trials that would run again once the program is mended. */
static void print_how_to_continue(const struct sweep_reader *v, bool stopped,
                                  const struct sweep_options *o)
{
    const struct scheduler_counts n = sweep_reader_counts(v);
    AUTO(free) char *resume = sweep_dir_command("drover sweep resume", o->root, v->dir->name);
    AUTO(free)
    char *retry = sweep_dir_command("drover sweep retry --failed", o->root, v->dir->name);
    if (stopped)
        fprintf(stderr, "drover sweep: stopped; continue with: %s\n", resume);
    else if (n.failed + n.oom + n.invalid > 0 && !o->quiet)
        fprintf(stderr, "drover sweep: to run again what failed: %s && %s\n", retry, resume);
}

/* Prints what is stored, as `sweep show` would. `stopped` is the exit status of a sweep that was
 * stopped; 0: it was not. */
static int finish(const struct run_message_opts *m, const struct sweep_options *o, int stopped,
                  struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    if (sweep_reader_open(&v, o->root, m->sweep, e) < 0)
        return EXIT_STATUS_FAILED;
    print_result(v, m, o->json);
    print_how_to_continue(v, stopped, o);
    return stopped ? stopped : has_result(v) ? 0 : EXIT_STATUS_FAILED;
}

/* ---- the dashboard -------------------------------------------------------------------------- */

/* Starts `drover serve` for the sweep and returns its stdin (-1: it did not start): the server ends
 * when this process closes it or dies. Its other files are not this process's, so nothing that it
 * does affects the sweep. Prints the address. */
static int start_server(const struct sweep_dir *dir)
{
    AUTO(free) char *program = NULL;
    if (own_process_sibling(&program, "drover-serve", NULL) < 0)
        return -1;
    char *argv[] = {program, (char *)"serve", dir->path, (char *)"--until-eof", NULL};
    struct child c = {.in = -1, .out = -1};
    int rc = child_start(&c,
                         &(struct child_opts){.argv = argv,
                                              .in = CHILD_PIPE,
                                              .out = CHILD_PIPE,
                                              .messages = CHILD_OUT,
                                              .group = true}, /* Ctrl-C is for the sweep */
                         NULL);
    struct pollfd p = {c.out, POLLIN, 0};
    char line[1024] = "";
    ssize_t n =
        rc == 0 && poll(&p, 1, SERVER_START_MS) > 0 ? read(c.out, line, sizeof line - 1) : 0;
    line[n > 0 ? strcspn(line, "\n") : 0] = 0;
    auto_fd(&c.out);
    fprintf(stderr, "%s\n", *line ? line : "drover sweep: --serve: 'drover serve' did not start");
    return c.in;
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Prints which limit has stopped the sweep. Returns the exit status. */
static int print_limit(const struct observers *all, const struct sweep_options *o)
{
    AUTO(strbuf) struct strbuf b = {0};
    const struct job_limits_usage at_end = job_clock_usage(all->clock);
    job_limits_describe(&b, all->limits, all->limit, &at_end);
    if (!o->quiet)
        fprintf(stderr, "drover sweep: the sweep was stopped %s\n", strbuf_str(&b));
    return JOB_LIMITS_STATUS;
}

/* Returns 0 or an error. `*status` is then the exit status; after 0 it is that of a sweep that was
 * stopped, or 0. Closes `*metrics` (NULL: no --metrics), unless nothing was started. */
static int coordinate(const struct coordinator_opts *c, const struct sweep_options *o,
                      struct sweep_metrics **metrics, int *status, struct err *e)
{
    AUTO(coordinator) struct coordinator *coord = NULL;
    *status = EXIT_STATUS_USAGE;
    sched_batch_begin(); /* before ZeroMQ's thread starts, which inherits the policy */
    int rc = coordinator_open(&coord, c, e);
    if (rc < 0)
        return rc;
    *status = EXIT_STATUS_FAILED;
    const struct coordinator_view view = coordinator_view(coord);
    if (view.endpoint && !o->quiet)
        fprintf(stderr, "drover sweep: workers may join at %s%s\n", view.endpoint,
                o->listen && !o->plain ? ": drover worker --key worker.key" : "");
    if (*metrics && !o->quiet)
        fprintf(stderr, "drover sweep: metrics at %s\n", metrics_server_url((*metrics)->server));
    AUTO(registry) struct registry *entry = NULL;
    if (registry_enter_sweep(&entry, c->dir->name, c->dir->path, e) < 0) {
        log_info("'drover ps' does not show this sweep: %s", e->text);
        *e = (struct err){0};
    }
    AUTO(free) char *resume = sweep_dir_command("drover sweep resume", c->dir->root, c->dir->name);
    const struct progress_display_opts shown = {.name = c->dir->name,
                                                .resume = resume,
                                                .dir = c->dir->path,
                                                .instance = c->dir->instance,
                                                .spec = c->spec,
                                                .quiet = o->quiet,
                                                .colour = terminal_coloured(STDERR_FILENO)};
    struct observers all = {.coord = coord,
                            .display = progress_display_open(&shown, &view),
                            .metrics = *metrics,
                            .need = &c->spec->need,
                            .limits = &o->limits};
    all.clock = job_clock_open(view.loop, &o->limits, on_limit, &all);
    sweep_metrics_start(*metrics, c->dir->name, c->spec, &view);
    rc = coordinator_run(coord, &events, &all, e);
    progress_display_stop(all.display);
    if (rc >= 0)
        *status = all.limited && rc > 0 ? print_limit(&all, o) : rc > 0 ? 128 + rc : 0;
    all.metrics = NULL;
    job_clock_close(TAKE(all.clock));
    if (*metrics) /* their handles are on the coordinator's loop */
        sweep_metrics_close(TAKE(*metrics));
    AUTO(free) char *reason = rc == 0 ? xstrdup(coordinator_end_reason(coord)) : NULL;
    AUTO(free) char *unused = rc == 0 ? scheduler_unused_stopper(view.sched) : NULL;
    coordinator_close(TAKE(coord)); /* it may still print to the display */
    progress_display_close(all.display);
    if (unused && !o->quiet)
        fprintf(stderr, "drover sweep: %s\n", unused);
    if (reason && !o->quiet)
        fprintf(stderr, "drover sweep: the sweep has ended: %s\n", reason);
    return rc < 0 ? rc : 0;
}

/* Renames the sweep of this name, if it exists. */
static int archive(const struct sweep_dir_opts *d, const struct sweep_options *o, struct err *e)
{
    AUTO(sweep_archive) struct sweep_archive *a = NULL;
    AUTO(free) char *name = NULL;
    int rc = sweep_archive_lock(&a, d->root, d->name, e);
    if (rc == -ENOENT) {
        *e = (struct err){0};
        return 0;
    }
    if (rc == 0)
        rc = sweep_archive_rename(&name, a, e);
    if (rc == 0 && !o->quiet)
        fprintf(stderr, "drover sweep: the earlier sweep '%s' is now '%s'\n", d->name, name);
    return rc;
}

int sweep_run(struct coordinator_opts *c, struct spec *spec, const struct sweep_dir_opts *d,
              char **notices, const struct sweep_options *o, struct err *e)
{
    AUTO(strv) char **worker_args = strv_copy(o->worker_args);
    AUTO(guardian) struct guardian *guardian = NULL;
    AUTO(sweep_dir) struct sweep_dir *dir = NULL;
    AUTO(sweep_metrics) struct sweep_metrics *metrics = NULL;
    /* Before any thread starts, and before the sweep's lock is taken, which it would inherit. */
    if (c->remote_workers.hosts && guardian_start(&guardian, e) < 0)
        return EXIT_STATUS_FAILED;
    c->remote_workers.guardian = guardian;
    if (o->no_preflight)
        strv_push(&worker_args, xstrdup("--no-preflight"));
    c->remote_workers.args = c->worker_args = worker_args;
    if (o->metrics && sweep_metrics_open(&metrics, o->metrics, c->slots > 0, e) < 0)
        return EXIT_STATUS_FAILED;
    if ((o->restart && archive(d, o, e) < 0) || sweep_dir_open(&dir, d, e) < 0)
        return EXIT_STATUS_USAGE;
    stored_sweep_apply(spec, dir);
    if (dir->fresh || !d->prior) /* otherwise the observations of its start are used */
        sweep_run_print_notices(notices, o);
    c->dir = dir;
    AUTO(free) char *path = xstrdup(dir->path); /* needed after the sweep is closed */
    c->run_message.dir = path;
    int status = EXIT_STATUS_FAILED, rc = limits_require_threads(ZEROMQ_THREADS, "the sweep", e);
    if (rc < 0)
        return status;
    AUTO(fd) int server = o->serve ? start_server(dir) : -1; /* before a thread starts */
    rc = coordinate(c, o, &metrics, &status, e);
    if (rc < 0) {
        limits_explain(e, "");
        return status;
    }
    sweep_dir_close(TAKE(dir)); /* releases the lock */
    return finish(&c->run_message, o, status, e);
}
