/* feature_metrics - implements --metrics and --metrics-file: observes the job, and serves or writes
 * its values and those of its GPUs. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "launcher/metrics/metrics_address.h"
#include "launcher/metrics/metrics_server.h"
#include "launcher/metrics/metrics_text.h"
#include "launcher/run/features/feature.h"

enum {
    RANKS_MAX = 1024,        /* ranks with values of their own: the loop writes them each second */
    FILE_INTERVAL_MS = 15000 /* as often as node_exporter is usually scraped */
};

struct metrics {
    FEATURE_STATE;
    struct metrics_server *server; /* NULL: no --metrics */
    bool file_fails;
    struct launch *job;  /* NULL: no job runs */
    char *job_id, *name; /* of the first attempt; NULL: none has begun */
    char host[sizeof((struct utsname *)NULL)->nodename];
    bool *running;   /* by rank */
    uint64_t *lines; /* by rank */
    int running_count, failures, hangs;
    double started_s, active_s; /* since 1970 */
    double exit_status;         /* NaN: the job is not over */
    bool active; /* a rank has written or reported, or its GPU has worked, since the last text */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    if (set->metrics && metrics_address_parse(&(struct listen_address){0}, set->metrics, e) < 0)
        return err_wrap(e, "--metrics");
    return set->metrics || set->metrics_file;
}

static double now_s(void)
{
    return (double)clock_ms_of(CLOCK_REALTIME) / 1000;
}

/* The program's name; that of the script if the program is an interpreter of Python. */
static char *program_name(char *const *argv)
{
    const char *name = basename(argv[0]);
    bool script = strncmp(name, "python", 6) == 0 && argv[1] && argv[1][0] != '-';
    return xstrdup(script ? basename(argv[1]) : name);
}

/* ---- values --------------------------------------------------------------------------------- */

static void add_ranks(const struct metrics *m, struct metrics_text *t)
{
    const struct plan *p = launch_plan(m->job);
    for (int i = 0; i < p->world_size && i < RANKS_MAX; i++) {
        const struct plan_rank *r = &p->ranks[i];
        char number[16];
        snprintf(number, sizeof number, "%d", p->first_rank + i);
        const struct metrics_label labels[] = {
            {"rank", number}, {"node", p->nodes[r->node].name}, {"UUID", r->gpu_uuid}};
        metrics_text_add(t, METRICS_RANK_RUNNING, m->running[i], labels, 2);
        metrics_text_add(t, METRICS_RANK_LINES, (double)m->lines[i], labels, 2);
        metrics_text_add(t, METRICS_RANK_GPU_INFO, r->gpu_uuid ? 1 : (double)NAN, labels, 3);
    }
}

static void add_job(struct metrics *m, struct metrics_text *t)
{
    const struct plan *p = m->job ? launch_plan(m->job) : NULL;
    const struct job_limits *limits = &m->run->set->budget.limits;
    const struct job_limits_usage u = job_clock_usage(m->run->clock);
    double budget_h = job_limits_budget_gpu_h(limits);
    enum job_limit limit;
    double limit_s = job_limits_next_s(limits, &u, &limit);
    const struct {
        enum metrics_name name;
        double value;
    } values[] = {
        {METRICS_JOB_START_TIME, m->started_s},
        {METRICS_JOB_LAST_ACTIVITY, m->active_s},
        {METRICS_JOB_NODES, p ? p->node_count : (double)NAN},
        {METRICS_JOB_GPUS, u.gpus},
        {METRICS_JOB_RANKS, p ? p->world_size : (double)NAN},
        {METRICS_JOB_RANKS_RUNNING, m->running_count},
        {METRICS_JOB_RANK_FAILURES, m->failures},
        {METRICS_JOB_RESTARTS, m->run->attempt},
        {METRICS_JOB_HANGS, m->hangs},
        {METRICS_JOB_EXIT_STATUS, m->exit_status},
        {METRICS_JOB_GPU_TIME, u.gpu_hours * 3600},
        {METRICS_JOB_GPU_TIME_LIMIT, budget_h > 0 ? budget_h * 3600 : (double)NAN},
        {METRICS_JOB_TIME_LIMIT, isinf(limit_s) ? (double)NAN : u.now_s + limit_s},
    };
    const struct metrics_label labels[] = {{"job_id", m->job_id}, {"program", m->name}};
    metrics_text_add(t, METRICS_JOB_INFO, 1, labels, 2);
    for (size_t i = 0; i < COUNT_OF(values); i++)
        metrics_text_add(t, values[i].name, values[i].value, labels, 1);
    if (p)
        add_ranks(m, t);
}

static void fill(void *arg, struct metrics_text *t)
{
    struct metrics *m = arg;
    AUTO(job_monitor_reading) struct job_monitor_reading gpus;
    job_monitor_latest(m->run->gpus, &gpus);
    m->active |= job_monitor_has_worked(m->run->gpus);
    if (m->active)
        m->active_s = now_s();
    m->active = false;
    if (m->job_id)
        add_job(m, t);
    for (int i = 0; i < gpus.count; i++)
        metrics_text_add_gpus(
            t, &gpus.samples[i], 1,
            gpus.nodes[i] == JOB_MONITOR_HERE ? m->host : m->run->plan->nodes[gpus.nodes[i]].name);
}

/* ---- the file ------------------------------------------------------------------------------- */

static int write_file(struct metrics *m)
{
    const char *path = m->run->set->metrics_file;
    if (!path)
        return 0;
    AUTO(metrics_text) struct metrics_text *t = metrics_text_new();
    fill(m, t);
    AUTO(free) char *text = metrics_text_take(t);
    int rc = file_replace(path, text, strlen(text), 0644);
    if (rc < 0 && !m->file_fails)
        log_warn("--metrics-file %s: %s", path, strerror(-rc));
    m->file_fails = rc < 0;
    return rc;
}

static void on_timer(uv_timer_t *t)
{
    (void)write_file(t->data); /* it has warned */
}

/* ---- events of the job ---------------------------------------------------------------------- */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct metrics *m = arg;
    m->lines[rank]++;
    m->active = true;
    return true;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    ((struct metrics *)arg)->active = true;
}

static void set_running(struct metrics *m, int rank, bool running)
{
    m->running_count += running - m->running[rank];
    m->running[rank] = running;
}

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    set_running(arg, rank, true);
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct metrics *m = arg;
    set_running(m, r->rank, false);
    m->failures += job_rank_status(r) != 0 && !r->told_to_stop;
}

static void forget_attempt(struct metrics *m)
{
    m->job = NULL;
    m->running_count = 0;
    free(TAKE(m->running));
    free(TAKE(m->lines));
}

static void attach(void *state)
{
    struct metrics *m = state;
    const struct plan *p = m->run->plan;
    forget_attempt(m);
    if (!m->job_id) {
        m->job_id = xstrdup(p->job_id);
        m->name = program_name(p->argv);
    }
    m->job = m->run->job;
    m->running = xcalloc((size_t)p->world_size, sizeof *m->running);
    m->lines = xcalloc((size_t)p->world_size, sizeof *m->lines);
    m->started_s = m->active_s = now_s();
    if (m->run->set->metrics_file)
        uv_timer_start(m->timer, on_timer, 0, FILE_INTERVAL_MS);
}

static void ended(void *state, const struct job_end *end, int status)
{
    forget_attempt(state);
    (void)write_file(state); /* it has warned */
}

static void on_record(void *state, const char *event, json_t *fields)
{
    struct metrics *m = state;
    if (strcmp(event, "hang") != 0)
        return;
    m->hangs++;
    (void)write_file(m); /* it has warned */
}

static void say_waits(void *arg, int limit_s)
{
    const struct metrics *m = arg;
    if (!m->run->quiet)
        fprintf(stderr, "%s: metrics are served until the next scrape, for %d s at most\n",
                m->run->program, limit_s);
}

/* Prometheus must see how a job has failed. A user who ends the job does not wait for it. */
static void finish(void *state, int status)
{
    struct metrics *m = state;
    const unsigned by_user = 1U << FEATURE_CAUSE_SIGNAL | 1U << FEATURE_CAUSE_OUTPUT;
    m->exit_status = status;
    (void)write_file(m); /* it has warned */
    if (m->server && status && !(m->run->causes & by_user))
        metrics_server_linger(m->server, say_waits);
}

/* ---- open and close ------------------------------------------------------------------------- */

static int serve(void *state, struct err *e)
{
    struct metrics *m = state;
    struct feature_run *r = m->run;
    struct utsname u = {0};
    if (uname(&u) == 0)
        memcpy(m->host, u.nodename, sizeof m->host);
    m->exit_status = (double)NAN;
    int rc = 0;
    if (r->set->metrics_file && (rc = file_replace(r->set->metrics_file, "", 0, 0644)) < 0)
        return err_set(e, -EBUSY, "--metrics-file %s: %s", r->set->metrics_file, strerror(-rc));
    if (!r->set->metrics)
        return 0;
    if (metrics_server_open(&m->server, r->set->metrics, e) < 0)
        return -EBUSY;
    metrics_server_start(m->server, r->loop, fill, m);
    if (!r->quiet)
        feature_say(r, "metrics at %s", metrics_server_url(m->server));
    return 0;
}

static void close_server(void *state)
{
    struct metrics *m = state;
    metrics_server_close(m->server);
    forget_attempt(m);
    free(m->job_id);
    free(m->name);
}

const struct feature feature_metrics = {
    .options = {OPT_STR(0, "metrics", "[ADDR:]PORT",
                        "serve /metrics for Prometheus (default: on loopback)",
                        struct feature_settings, metrics),
                OPT_STR(0, "metrics-file", "FILE",
                        "write the same to FILE, for node_exporter's textfile collector",
                        struct feature_settings, metrics_file)},
    .check = check,
    .size = sizeof(struct metrics),
    .open = serve,
    .attach = attach,
    .events = {.line = on_line,
               .report = on_report,
               .rank_started = on_rank_started,
               .rank_ended = on_rank_ended},
    .record = on_record,
    .ended = ended,
    .finish = finish,
    .close = close_server,
};
