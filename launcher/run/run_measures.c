#include "launcher/run/run_measures.h"

#include <stdio.h>

#include "common/log.h"
#include "launcher/history/baseline_run.h"
#include "launcher/history/job_report.h"
#include "launcher/history/usage_run.h"
#include "launcher/limits/job_clock.h"
#include "launcher/metrics/job_metrics.h"
#include "launcher/monitor/idle_watch.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/run/run_print.h"

struct run_measures {
    uv_loop_t *loop;
    const struct run_options *opts;
    const struct run_measures_events *events;
    void *arg;
    const struct launch *job; /* NULL: no attempt runs */
    struct job_clock *clock;
    struct baseline_run *baseline; /* NULL: no --baseline */
    struct usage_run *usage;
    struct job_report *report;   /* NULL: no --report */
    struct job_monitor *gpus;    /* of the present attempt; NULL: none */
    struct job_metrics *metrics; /* NULL: no --metrics */
    struct idle_watch *idle;     /* NULL: no attempt runs, or no --idle-timeout */
    bool started;                /* a rank of the attempt has started */
};

void run_measures_attach(struct run_measures *m, struct launch *job, int attempt)
{
    m->job = job;
    m->started = false;
    job_clock_set_gpus(m->clock, plan_hardware_gpus(launch_plan(job)));
    baseline_run_attach(m->baseline, job, &m->opts->spec);
    usage_run_attach(m->usage, job);
    m->gpus = usage_run_monitor(m->usage);
    job_metrics_attach(m->metrics, job, attempt);
    if (m->opts->idle_timeout_s > 0)
        m->idle = idle_watch_open(m->loop, job, m->gpus, m->opts->idle_timeout_s, m->events->idle,
                                  m->arg);
}

void run_measures_started(struct run_measures *m)
{
    if (m->started)
        return;
    m->started = true;
    int gpus = plan_hardware_gpus(launch_plan(m->job));
    job_clock_set_gpus(m->clock, gpus);
    if (gpus == 0 && job_limits_budget_gpu_h(&m->opts->limits) > 0)
        log_warn("--budget %s has no effect: the job uses no GPU", m->opts->limits.budget_text);
}

void run_measures_hang(struct run_measures *m)
{
    job_metrics_hang(m->metrics);
}

static void report_end(const struct run_measures *m, const struct job_end *end, int status)
{
    AUTO(strbuf) struct strbuf failure = {0};
    const struct plan *p = launch_plan(m->job);
    run_print_failure(&failure, m->opts->program, p, end);
    job_report_ended(m->report, p,
                     &(struct job_report_end){status, end->seconds, strbuf_str(&failure)});
}

void run_measures_ended(struct run_measures *m, const struct job_end *end, int status)
{
    if (m->report)
        report_end(m, end, status);
    job_clock_set_gpus(m->clock, 0);
    idle_watch_close(TAKE(m->idle));
    baseline_run_ended(m->baseline, end, status);
    m->gpus = NULL;
    usage_run_ended(m->usage, end);
    job_metrics_ended(m->metrics);
    m->job = NULL;
}

void run_measures_print_limit(const struct run_measures *m, struct strbuf *b, enum job_limit limit)
{
    const struct job_limits_usage at_end = job_clock_usage(m->clock);
    strbuf_printf(b, "%s: the job was stopped ", m->opts->program);
    job_limits_describe(b, &m->opts->limits, limit, &at_end);
    strbuf_putc(b, '\n');
}

/* ---- the end -------------------------------------------------------------------------------- */

static void finish_baseline(struct run_measures *m, struct run_monitor *monitor)
{
    AUTO(strbuf) struct strbuf text = {0};
    json_t *event = NULL;
    struct err e = {0};
    if (baseline_run_finish(m->baseline, &text, &event, &e) < 0)
        log_warn("baseline %s: not stored: %s", m->opts->baseline, e.text);
    if (event)
        run_monitor_event(monitor, "baseline", event);
    if (text.len > 0)
        fprintf(stderr, "%s: %s", m->opts->program, strbuf_str(&text));
}

void run_measures_finish(struct run_measures *m, struct run_monitor *monitor, int status)
{
    AUTO(strbuf) struct strbuf text = {0};
    json_t *event = NULL;
    struct err e = {0};
    const struct usage_run_end end = {.program = m->opts->program,
                                      .status = status,
                                      .gpu_hours = job_clock_usage(m->clock).gpu_hours,
                                      .price = m->opts->limits.price};
    if (status == 0)
        finish_baseline(m, monitor);
    if (usage_run_finish(m->usage, &end, &text, &event, &e) < 0)
        log_info("'drover ps --done' does not show this job: %s", e.text);
    if (event)
        run_monitor_event(monitor, "usage", event);
    if (text.len > 0 && !m->opts->quiet)
        fputs(strbuf_str(&text), stderr);
    if (job_report_finish(m->report, strbuf_str(&text), &e) < 0)
        log_error("%s", e.text);
}

/* ---- open and close ------------------------------------------------------------------------- */

static int open_metrics(struct run_measures *m, uv_loop_t *loop, struct console *console,
                        struct err *e)
{
    const struct run_options *opts = m->opts;
    const struct job_metrics_opts o = {
        .address = opts->metrics, .limits = &opts->limits, .clock = m->clock, .monitor = &m->gpus};
    int rc = job_metrics_open(&m->metrics, loop, &o, e);
    if (rc < 0)
        return rc;
    AUTO(free)
    char *line = xasprintf("%s: metrics at %s\n", opts->program, job_metrics_url(m->metrics));
    if (!opts->quiet)
        console_print(console, line);
    return 0;
}

int run_measures_open(struct run_measures **out, uv_loop_t *loop, const struct run_options *o,
                      struct console *console, const struct run_measures_events *events, void *arg,
                      struct err *e)
{
    struct run_measures *m = xzalloc(sizeof *m);
    m->loop = loop;
    m->opts = o;
    m->events = events;
    m->arg = arg;
    m->clock = job_clock_open(loop, &o->limits, events->limit, arg);
    if (o->baseline)
        m->baseline = baseline_run_open(o->baseline, o->baseline_update);
    m->usage = usage_run_open();
    m->report = o->report ? job_report_open(o->report) : NULL;
    *out = m; /* also after a failure: its handles must be closed */
    return o->metrics ? open_metrics(m, loop, console, e) : 0;
}

void run_measures_close(struct run_measures *m)
{
    if (!m)
        return;
    idle_watch_close(m->idle);
    job_metrics_close(m->metrics);
    job_clock_close(m->clock);
    baseline_run_close(m->baseline);
    usage_run_close(m->usage);
    job_report_close(m->report);
    free(m);
}
