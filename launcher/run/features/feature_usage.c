/* feature_usage - what a job uses: samples the GPUs of this machine's ranks during its attempts,
 * and then reports and stores the figures.
 *
 * A job without GPUs is not measured. Of a job over several nodes, only the GPUs of this machine
 * are sampled; the report says so. */
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

enum { LEAST_S = 5 }; /* a shorter job has too few samples, and is not reported */

struct measured {
    FEATURE_STATE;
    struct job_usage *usage; /* of the attempts that have ended; NULL: none with GPUs */
    char **uuids;            /* GPUs of this machine, in all attempts … */
    int *ranks;              /* … and the first rank of each */
    struct history_command command;
    char *job_id, *node; /* node: this machine, if the job has GPUs on other ones, too */
    int gpus;            /* of the last attempt, on all nodes */
    double seconds;
    int64_t begin_ms;
};

/* ---- attempts ------------------------------------------------------------------------------- */

/* Returns the index of a GPU in a strv, or -1. */
static int find(char *const *uuids, const char *uuid)
{
    for (int i = 0; uuids && uuids[i]; i++)
        if (strcmp(uuids[i], uuid) == 0)
            return i;
    return -1;
}

/* Returns the GPUs of this attempt's ranks on this machine, each one once, and adds them to those
 * of earlier attempts. */
static char **gpus_of(struct measured *u, const struct plan *p)
{
    char **uuids = NULL;
    for (int i = 0; i < p->world_size; i++) {
        const char *uuid = p->ranks[i].gpu_uuid;
        if (!uuid || !p->nodes[p->ranks[i].node].here || find(uuids, uuid) >= 0)
            continue;
        strv_push(&uuids, xstrdup(uuid));
        if (find(u->uuids, uuid) >= 0)
            continue;
        size_t n = strv_len(u->uuids);
        strv_push(&u->uuids, xstrdup(uuid));
        u->ranks = xrealloc(u->ranks, n + 1, sizeof *u->ranks);
        u->ranks[n] = p->first_rank + i;
    }
    return uuids;
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

static void attach(void *state)
{
    struct measured *u = state;
    const struct plan *p = u->run->plan;
    AUTO(strv) char **uuids = gpus_of(u, p);
    AUTO(free) char *cpus = cpus_of(p);
    job_monitor_close(TAKE(u->run->gpus));
    if (u->begin_ms == 0) {
        AUTO(free) char *here = get_current_dir_name();
        u->begin_ms = clock_ms_of(CLOCK_REALTIME);
        u->job_id = xstrdup(p->job_id);
        history_command_read(&u->command, p->argv, p->wdir ? p->wdir : here);
    }
    if (uuids)
        u->run->gpus = job_monitor_open(uuids, cpus, u->usage);
}

/* Sets the number of GPUs on all nodes. The plan has those of other nodes only since these have
 * connected. */
static void count_gpus(struct measured *u, const struct plan *p)
{
    bool elsewhere = false;
    u->gpus = plan_hardware_gpus(p);
    free(TAKE(u->node));
    for (int i = 0; i < p->world_size; i++)
        elsewhere |= p->ranks[i].gpu >= 0 && !p->nodes[p->ranks[i].node].here;
    for (int i = 0; elsewhere && i < p->node_count; i++)
        if (p->nodes[i].here)
            u->node = xstrdup(p->nodes[i].name);
}

static void ended(void *state, const struct job_end *end, int status)
{
    struct measured *u = state;
    struct job_usage *usage = job_monitor_usage(u->run->gpus);
    if (usage) {
        job_usage_free(u->usage);
        u->usage = usage;
    }
    job_monitor_close(TAKE(u->run->gpus));
    count_gpus(u, u->run->plan);
    u->seconds += end->seconds;
}

/* ---- afterwards ----------------------------------------------------------------------------- */

static char *peaks_json(const struct job_usage_summary *s, const int *ranks)
{
    AUTO(json) json_t *o = json_object();
    for (int i = 0; i < s->count; i++) {
        AUTO(free) char *rank = xasprintf("%d", ranks[i]);
        if (s->gpus[i].peak_bytes >= 0)
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
        u->usage = job_usage_new(); /* all ranks are on other nodes */
    struct job_usage_summary s;
    job_usage_summarise(&s, u->usage);
    AUTO(free) int *ranks = xcalloc((size_t)s.count, sizeof *ranks);
    for (int i = 0; i < s.count; i++)
        ranks[i] = u->ranks[find(u->uuids, s.gpus[i].uuid)];
    const struct usage_facts f = {.gpus = u->gpus,
                                  .node = u->node,
                                  .ranks = ranks,
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
    free(u->ranks);
    free(u->job_id);
    free(u->node);
}

const struct feature feature_usage = {.size = sizeof(struct measured),
                                      .attach = attach,
                                      .ended = ended,
                                      .finish = finish,
                                      .close = close_usage};
