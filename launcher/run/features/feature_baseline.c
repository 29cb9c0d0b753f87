/* feature_baseline - implements --baseline NAME: measures a job from rank 0's reports, and compares
 * it with the stored baseline of this name.
 *
 * Reports come through the report channel (spec.node.reports), or are lines of stdout that are
 * mappings; after the first one on the channel, lines do not count. The CPU time is that of the
 * ranks on this machine, if these are all. */
#include <errno.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/io/metric_mapping.h"
#include "launcher/jobs/baseline.h"
#include "launcher/jobs/baseline_series.h"
#include "launcher/jobs/baseline_store.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/run/features/feature.h"

struct cpu_sample {
    double at_s;
    int64_t cpu_ms; /* of all ranks together */
};

struct measurement {
    FEATURE_STATE;
    struct baseline_series *series;
    bool has_channel;              /* a report has arrived on the report channel */
    struct cpu_sample first, last; /* at_s is 0 if there is no sample */
    struct job_monitor *gpus;      /* NULL: no report so far, or no GPU on this machine */
    struct baseline result;        /* its name is NULL if there is none */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    const char *name = set->baseline.name;
    if (!name && set->baseline.update)
        return err_set(e, -EINVAL, "--baseline-update needs --baseline NAME");
    if (name && baseline_check_name(name, e) < 0)
        return err_wrap(e, "--baseline");
    spec->node.reports |= name != NULL;
    return name != NULL;
}

static void forget(void *state)
{
    struct measurement *b = state;
    baseline_series_free(TAKE(b->series));
    job_monitor_close(TAKE(b->gpus));
    baseline_clear(&b->result);
    b->has_channel = false;
    b->first = b->last = (struct cpu_sample){0};
}

/* ---- during the job ------------------------------------------------------------------------- */

static struct job_monitor *sample_gpus(const struct plan *p)
{
    AUTO(strv) char **uuids = NULL;
    for (int i = 0; i < p->world_size; i++)
        if (p->ranks[i].gpu_uuid)
            strv_push(&uuids, xstrdup(p->ranks[i].gpu_uuid));
    return strv_len(uuids) ? job_monitor_open(uuids, NULL, NULL, NULL) : NULL;
}

/* Samples the ranks' CPU time at the first report, and then whenever the measured time has grown by
 * a tenth: reading /proc takes time, too. */
static void sample_cpu(struct measurement *b, double now_s)
{
    enum { SHARE = 10 };
    static const double least_s = 0.1;
    const struct plan *p = b->run->plan;
    double pause_s = (b->last.at_s - b->first.at_s) / SHARE;
    if (b->first.at_s > 0 && now_s - b->last.at_s < (pause_s > least_s ? pause_s : least_s))
        return;
    AUTO(free) struct rank_status *ranks = xcalloc((size_t)p->world_size, sizeof *ranks);
    if (!plan_is_local(p) || launch_sample_status(b->run->job, ranks) < 0)
        return;
    struct cpu_sample s = {.at_s = now_s};
    for (int i = 0; i < p->world_size; i++) {
        if (ranks[i].at.pid == 0)
            return; /* the rank has ended, and its CPU time is not known any more */
        s.cpu_ms += ranks[i].cpu_ms;
    }
    b->last = s;
    if (b->first.at_s > 0)
        return;
    b->first = s;
    b->gpus = sample_gpus(p);
}

static void add_report(struct measurement *b, const char *text, size_t len)
{
    AUTO(json) json_t *report = metric_mapping_read(text, len);
    if (!report)
        return;
    double now_s = clock_s();
    baseline_series_add(b->series, now_s, report);
    sample_cpu(b, now_s);
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct measurement *b = arg;
    if (rank != 0)
        return;
    if (!b->has_channel) { /* the program may print the same as lines */
        b->has_channel = true;
        baseline_series_free(b->series);
        b->series = baseline_series_new();
    }
    add_report(b, json, len);
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *line, size_t len)
{
    struct measurement *b = arg;
    if (rank == 0 && from == LAUNCH_STDOUT && !b->has_channel)
        add_report(b, line, len);
    return true;
}

static void attach(void *state)
{
    struct measurement *b = state;
    forget(b);
    b->series = baseline_series_new();
}

/* ---- afterwards ----------------------------------------------------------------------------- */

/* Returns the share of the ranks' cores that they have used, or -1 if it is unknown. */
static double cpu_share(const struct measurement *b)
{
    const struct plan *p = b->run->plan;
    double cores = 0, seconds = b->last.at_s - b->first.at_s;
    for (int i = 0; i < p->world_size; i++)
        cores += p->ranks[i].cores;
    return seconds > 0 && cores > 0
               ? (double)(b->last.cpu_ms - b->first.cpu_ms) / 1000 / seconds / cores
               : -1;
}

/* Returns the mean utilisation of the GPUs, or -1 if it is unknown. */
static double gpu_share(struct job_monitor *gpus)
{
    AUTO(job_usage) struct job_usage *u = job_monitor_usage(gpus);
    struct job_usage_summary sum = {.utilisation = -1};
    if (u)
        job_usage_summarise(&sum, u);
    double share = sum.utilisation;
    job_usage_summary_end(&sum);
    return share;
}

/* The measurement is dropped if the job was stopped or has failed, or if rank 0 is in another part
 * of the job. */
static void ended(void *state, const struct job_end *end, int status)
{
    struct measurement *b = state;
    const struct plan *p = b->run->plan;
    if (status == 0 && !end->stopped && p->first_rank == 0) {
        struct baseline_speed speed = baseline_series_speed(b->series);
        b->result = (struct baseline){.name = xstrdup(b->run->set->baseline.name),
                                      .hardware = plan_hardware_job(p, b->run->spec),
                                      .unit = xstrdup(speed.unit),
                                      .rate = speed.rate,
                                      .step_s = speed.step_s,
                                      .cpu = cpu_share(b),
                                      .gpu = gpu_share(b->gpus),
                                      .seconds = end->seconds};
    }
    job_monitor_close(TAKE(b->gpus));
}

static int compare(struct measurement *b, struct strbuf *text, struct err *e)
{
    struct baseline_list l = {0};
    const struct baseline *stored = NULL;
    int rc = baseline_store_read(&l, b->result.name, e);
    for (size_t i = 0; i < l.count; i++)
        if (strcmp(l.at[i].hardware, b->result.hardware) == 0)
            stored = &l.at[i];
    enum baseline_fate fate = !stored                        ? BASELINE_STORED
                              : b->run->set->baseline.update ? BASELINE_REPLACED
                                                             : BASELINE_COMPARED;
    if (rc == 0 && fate != BASELINE_COMPARED)
        rc = baseline_store_put(&b->result, e);
    if (rc == 0) {
        baseline_describe(text, &b->result, stored, l.count > 0, fate);
        feature_record(b->run, "baseline", baseline_event(&b->result, stored, fate));
    }
    baseline_store_end(&l);
    return rc;
}

/* Compares and stores the measurement of the last attempt. May wait for another process that uses
 * the store. */
static void finish(void *state, int status)
{
    struct measurement *b = state;
    AUTO(strbuf) struct strbuf text = {0};
    struct err e = {0};
    if (status != 0 || !b->result.name)
        return;
    if (compare(b, &text, &e) < 0)
        log_warn("baseline %s: not stored: %s", b->result.name, e.text);
    if (text.len > 0)
        fprintf(stderr, "%s: %s", b->run->program, strbuf_str(&text));
}

#define T struct feature_settings
const struct feature feature_baseline = {
    .options = {OPT_STR(0, "baseline", "NAME", "compare the speed with that of NAME, or store it",
                        T, baseline.name),
                OPT_FLAG(0, "baseline-update", "with --baseline: replace the stored one", T,
                         baseline.update)},
    .check = check,
    .size = sizeof(struct measurement),
    .attach = attach,
    .events = {.line = on_line, .report = on_report},
    .ended = ended,
    .finish = finish,
    .close = forget,
};
