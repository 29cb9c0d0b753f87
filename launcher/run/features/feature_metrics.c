/* feature_metrics - implements --metrics: observes the job, and serves its values and those of its
 * GPUs. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/clock.h"
#include "launcher/metrics/metrics_address.h"
#include "launcher/metrics/metrics_server.h"
#include "launcher/metrics/metrics_text.h"
#include "launcher/run/features/feature.h"

enum { RANKS_MAX = 1024 }; /* ranks with values of their own: the loop writes them each second */

struct metrics {
    FEATURE_STATE;
    struct metrics_server *server;
    struct launch *job;  /* NULL: no job runs */
    char *job_id, *name; /* of the first attempt; NULL: none has begun */
    char host[sizeof((struct utsname *)NULL)->nodename];
    bool *running;   /* by rank */
    uint64_t *lines; /* by rank */
    int running_count, failures, hangs;
    double started_s, active_s; /* since 1970 */
    bool active;                /* a rank has written or reported since the last text */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    if (set->metrics && metrics_address_parse(&(struct listen_address){0}, set->metrics, e) < 0)
        return err_wrap(e, "--metrics");
    return set->metrics != NULL;
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
    if (m->active)
        m->active_s = now_s();
    m->active = false;
    if (m->job_id)
        add_job(m, t);
    metrics_text_add_gpus(t, gpus.samples, gpus.count, m->host);
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
}

static void ended(void *state, const struct job_end *end, int status)
{
    forget_attempt(state);
}

static void on_record(void *state, const char *event, json_t *fields)
{
    ((struct metrics *)state)->hangs += strcmp(event, "hang") == 0;
}

/* ---- open and close ------------------------------------------------------------------------- */

static int serve(void *state, struct err *e)
{
    struct metrics *m = state;
    struct feature_run *r = m->run;
    struct utsname u = {0};
    if (uname(&u) == 0)
        memcpy(m->host, u.nodename, sizeof m->host);
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
                        struct feature_settings, metrics)},
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
    .close = close_server,
};
