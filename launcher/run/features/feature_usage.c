/* feature_usage - what a job uses: samples the GPUs of its ranks during its attempts, and then
 * reports and stores the figures.
 *
 * A job without GPUs is not measured. Of a job over several nodes, agents sample the GPUs of the
 * other machines. */
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/jobs/history_command.h"
#include "launcher/jobs/history_jobs.h"
#include "launcher/jobs/usage_report.h"
#include "launcher/node/cpu_list.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/run/features/feature.h"
#include "launcher/watch/failed_gpu.h"

enum { LEAST_S = 5 }; /* a shorter job has too few samples, and is not reported */

struct measured {
    FEATURE_STATE;
    struct job_usage *usage; /* of the attempts that have ended; NULL: none with GPUs */
    char **uuids;            /* the GPUs in all attempts … */
    char **nodes;            /* … the node of each … */
    int *ranks;              /* … and its first rank */
    struct history_command command;
    char *job_id;
    int gpus; /* of the last attempt */
    double seconds;
    int64_t begin_ms;
};

/* ---- attempts ------------------------------------------------------------------------------- */

/* Returns the GPUs of this attempt's ranks on this machine, each one once. */
static char **gpus_here(const struct plan *p)
{
    char **uuids = NULL;
    for (int i = 0; i < p->world_size; i++) {
        const char *uuid = p->ranks[i].gpu_uuid;
        if (uuid && p->nodes[p->ranks[i].node].here && strv_find(uuids, uuid) < 0)
            strv_push(&uuids, xstrdup(uuid));
    }
    return uuids;
}

/* Adds the attempt's GPUs to those of earlier ones. */
static void note_gpus(struct measured *u, const struct plan *p)
{
    for (int i = 0; i < p->world_size; i++) {
        const char *uuid = p->ranks[i].gpu_uuid;
        if (!uuid || strv_find(u->uuids, uuid) >= 0)
            continue;
        size_t n = strv_len(u->uuids);
        strv_push(&u->uuids, xstrdup(uuid));
        strv_push(&u->nodes, xstrdup(p->nodes[p->ranks[i].node].name));
        u->ranks = xgrow(u->ranks, n, sizeof *u->ranks);
        u->ranks[n] = p->first_rank + i;
    }
}

/* Returns the CPUs of this machine's ranks, or NULL if one of them is not bound. */
static char *cpus_of(const struct plan *p)
{
    AUTO(bitmap) hwloc_bitmap_t all = hwloc_bitmap_alloc(), one = hwloc_bitmap_alloc();
    char *text = NULL;
    bool bound = true;
    for (int i = 0; i < p->world_size && bound; i++) {
        if (!p->nodes[p->ranks[i].node].here)
            continue;
        bound = p->ranks[i].cpus && hwloc_bitmap_list_sscanf(one, p->ranks[i].cpus) == 0;
        hwloc_bitmap_or(all, all, one);
    }
    if (bound && hwloc_bitmap_list_asprintf(&text, all) < 0)
        text = NULL;
    return text;
}

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    spec->sample_gpus = true;
    return 1;
}

static void attach(void *state)
{
    struct measured *u = state;
    const struct plan *p = u->run->plan;
    AUTO(strv) char **uuids = gpus_here(p);
    AUTO(free) char *cpus = cpus_of(p);
    job_monitor_close(TAKE(u->run->gpus));
    if (u->begin_ms == 0) {
        AUTO(free) char *here = get_current_dir_name();
        u->begin_ms = clock_ms_of(CLOCK_REALTIME);
        u->job_id = xstrdup(p->job_id);
        history_command_read(&u->command, p->argv, p->wdir ? p->wdir : here);
    }
    if (uuids || !plan_is_local(p))
        u->run->gpus = job_monitor_open(uuids, cpus, u->job_id, u->usage);
}

static void on_node_gpus(void *arg, int node, const char *text, size_t len)
{
    const struct measured *u = arg;
    struct err e = {0};
    if (u->run->gpus && job_monitor_import(u->run->gpus, node, text, len, &e) < 0)
        log_warn("node %s: %s (dropped)", u->run->plan->nodes[node].name, e.text);
}

/* Adds what the GPU of a rank has done to the failure report and the event `ended`. */
static void report_failed(struct feature_run *r, int rank, const struct job_usage *usage)
{
    const struct plan_rank *p = &r->plan->ranks[rank];
    struct job_usage_summary s;
    time_t now = time(NULL);
    struct tm local;
    job_usage_summarise(&s, usage);
    struct failed_gpu f = {.index = p->gpu,
                           .epoch_s = (double)clock_ms_of(CLOCK_REALTIME) / 1000 - clock_s(),
                           .zone_s = localtime_r(&now, &local) ? local.tm_gmtoff : 0};
    for (int i = 0; i < s.count && !f.gpu; i++)
        if (p->gpu_uuid && strcmp(s.gpus[i].uuid, p->gpu_uuid) == 0)
            f.gpu = &s.gpus[i];
    if (f.gpu) {
        failed_gpu_write(&r->failure, &f);
        r->failed_gpu = failed_gpu_json(&f);
    }
    job_usage_summary_end(&s);
}

/* The plan has the GPUs of other nodes only since these have connected. */
static void ended(void *state, const struct job_end *end, int status)
{
    struct measured *u = state;
    json_decref(TAKE(u->run->failed_gpu));
    if (end->first_failed >= 0)
        job_monitor_refresh(u->run->gpus, JOB_MONITOR_REFRESH_MS);
    struct job_usage *usage = job_monitor_usage(u->run->gpus);
    if (usage) {
        job_usage_free(u->usage);
        u->usage = usage;
        if (end->first_failed >= 0)
            report_failed(u->run, end->first_failed, usage);
    }
    job_monitor_close(TAKE(u->run->gpus));
    u->gpus = plan_hardware_gpus(u->run->plan);
    note_gpus(u, u->run->plan);
    u->seconds += end->seconds;
}

/* ---- afterwards ----------------------------------------------------------------------------- */

static char *peaks_json(const struct job_usage_summary *s, const int *ranks)
{
    AUTO(json) json_t *o = json_object();
    for (int i = 0; i < s->count; i++) {
        AUTO(free) char *rank = xasprintf("%d", ranks[i]);
        if (s->gpus[i].peak_bytes >= 0 && !s->gpus[i].peak_of_all)
            json_object_set_new(o, rank, json_integer(s->gpus[i].peak_bytes));
    }
    return json_line(o);
}

static int store(const struct measured *u, int status, const struct job_usage_summary *s,
                 const struct usage_facts *f, struct err *e)
{
    const struct job_usage_gpu *fullest = s->fullest >= 0 ? &s->gpus[s->fullest] : NULL;
    AUTO(free) char *peaks = peaks_json(s, f->ranks);
    struct history_job j = {
        .begin_ms = u->begin_ms,
        .end_ms = clock_ms_of(CLOCK_REALTIME),
        .job = u->job_id,
        .program = u->command.program,
        .hash = (char *)u->command.hash,
        .batch = u->command.batch,
        .gpu = (char *)(s->count > 0 ? s->gpus[0].name : ""),
        .gpus = u->gpus,
        .status = status,
        .utilisation = s->utilisation,
        .peak_bytes = fullest ? fullest->peak_bytes : JOB_USAGE_UNKNOWN,
        .peak_of_all = fullest && fullest->peak_of_all,
        .memory_bytes = fullest ? fullest->total_bytes : JOB_USAGE_UNKNOWN,
        .peaks = peaks,
        .energy_j = s->energy_j,
        .cost = usage_report_cost(f),
    };
    return history_jobs_put(&j, e);
}

/* Reports and stores the job. May wait for another process that uses the store. */
static void finish(void *state, int status)
{
    struct measured *u = state;
    struct feature_run *r = u->run;
    struct err e = {0};
    if (u->gpus == 0 || u->seconds < LEAST_S)
        return;
    if (!u->usage)
        u->usage = job_usage_new(); /* no thread could be started */
    struct job_usage_summary s;
    job_usage_summarise(&s, u->usage);
    AUTO(free) int *ranks = xcalloc((size_t)s.count, sizeof *ranks);
    AUTO(free) const char **nodes = xcalloc((size_t)s.count, sizeof *nodes);
    for (int i = 0; i < s.count; i++) {
        int k = strv_find(u->uuids, s.gpus[i].uuid);
        ranks[i] = k < 0 ? -1 : u->ranks[k]; /* an agent may send what was not asked for */
        nodes[i] = k < 0 ? NULL : u->nodes[k];
    }
    const struct usage_facts f = {.gpus = u->gpus,
                                  .ranks = ranks,
                                  .nodes = nodes,
                                  .gpu_hours = job_clock_usage(r->clock).gpu_hours,
                                  .price = r->set->budget.limits.price};
    usage_report_print(&r->usage, r->program, &s, &f);
    if (store(u, status, &s, &f, &e) < 0)
        log_info("'drover ps --done' does not show this job: %s", e.text);
    feature_record(r, "usage", usage_report_event(&s, &f));
    if (!r->quiet)
        fputs(strbuf_str(&r->usage), stderr);
    job_usage_summary_end(&s);
}

static void close_usage(void *state)
{
    struct measured *u = state;
    job_monitor_close(u->run->gpus);
    job_usage_free(u->usage);
    history_command_end(&u->command);
    strv_free(u->uuids);
    strv_free(u->nodes);
    free(u->ranks);
    free(u->job_id);
}

const struct feature feature_usage = {.check = check,
                                      .size = sizeof(struct measured),
                                      .attach = attach,
                                      .events = {.node_gpus = on_node_gpus},
                                      .ended = ended,
                                      .finish = finish,
                                      .close = close_usage};
