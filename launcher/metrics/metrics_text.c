#include "launcher/metrics/metrics_text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "common/number_format.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "launcher/gpu/gpu_facts.h"

#define GAUGE "gauge"
#define COUNTER "counter"

static const struct gpu_metric rows[METRICS_NAMES] = {
    [METRICS_BUILD_INFO] = {"drover_build_info", GAUGE, "Version of drover; the value is 1"},
    [METRICS_JOB_INFO] = {"drover_job_info", GAUGE, "Program of the job; the value is 1"},
    [METRICS_JOB_START_TIME] = {"drover_job_start_time_seconds", GAUGE,
                                "Start of the present attempt, since 1970"},
    [METRICS_JOB_LAST_ACTIVITY] = {"drover_job_last_activity_time_seconds", GAUGE,
                                   "Time of the last line or report of any rank, or of the last "
                                   "work of a GPU, since 1970"},
    [METRICS_JOB_NODES] = {"drover_job_nodes", GAUGE, "Nodes of the job"},
    [METRICS_JOB_GPUS] = {"drover_job_gpus", GAUGE, "GPUs that the job uses now"},
    [METRICS_JOB_RANKS] = {"drover_job_ranks", GAUGE, "Ranks of the job"},
    [METRICS_JOB_RANKS_RUNNING] = {"drover_job_ranks_running", GAUGE,
                                   "Ranks that have started and have not ended"},
    [METRICS_JOB_RANK_FAILURES] = {"drover_job_rank_failures_total", COUNTER,
                                   "Ranks that failed by themselves, in all attempts"},
    [METRICS_JOB_RESTARTS] = {"drover_job_restarts_total", COUNTER, "Restarts of the job"},
    [METRICS_JOB_HANGS] = {"drover_job_hangs_total", COUNTER,
                           "Hangs that --hang-timeout has found"},
    [METRICS_JOB_EXIT_STATUS] = {"drover_job_exit_status", GAUGE,
                                 "Exit status of the job, when it is over"},
    [METRICS_JOB_GPU_TIME] = {"drover_job_gpu_time_seconds_total", COUNTER,
                              "GPU seconds that the job has used, in all attempts"},
    [METRICS_JOB_GPU_TIME_LIMIT] = {"drover_job_gpu_time_limit_seconds", GAUGE,
                                    "Budget of the job in GPU seconds"},
    [METRICS_JOB_TIME_LIMIT] = {"drover_job_time_limit_time_seconds", GAUGE,
                                "Time at which a limit will stop the job, since 1970"},
    [METRICS_RANK_RUNNING] = {"drover_rank_running", GAUGE, "1 if the rank runs, else 0"},
    [METRICS_RANK_LINES] = {"drover_rank_output_lines_total", COUNTER,
                            "Lines of output of the rank in the present attempt"},
    [METRICS_RANK_GPU_INFO] = {"drover_rank_gpu_info", GAUGE, "GPU of the rank; the value is 1"},
    [METRICS_SWEEP_INFO] = {"drover_sweep_info", GAUGE,
                            "Metric and method of the sweep; the value is 1"},
    [METRICS_SWEEP_START_TIME] = {"drover_sweep_start_time_seconds", GAUGE,
                                  "Start of the coordinator, since 1970"},
    [METRICS_SWEEP_PAUSED] = {"drover_sweep_paused", GAUGE, "1 if a user has paused the sweep"},
    [METRICS_SWEEP_TRIALS] = {"drover_sweep_trials", GAUGE, "Trials of the sweep by state"},
    [METRICS_SWEEP_TRIALS_WANTED] = {"drover_sweep_trials_wanted", GAUGE,
                                     "Trials that the sweep will have, if it has a limit"},
    [METRICS_SWEEP_TRIALS_ENDED] = {"drover_sweep_trials_ended_total", COUNTER,
                                    "Trials that have ended under this coordinator, by state"},
    [METRICS_SWEEP_BEST_VALUE] = {"drover_sweep_best_value", GAUGE, "Best value of the metric"},
    [METRICS_SWEEP_REPORTS] = {"drover_sweep_reports_total", COUNTER,
                               "Reports that this coordinator has stored"},
    [METRICS_SWEEP_COMMITS] = {"drover_sweep_commits_total", COUNTER,
                               "Transactions with records of this coordinator"},
    [METRICS_SWEEP_WORKERS] = {"drover_sweep_workers", GAUGE, "Workers that are connected"},
    [METRICS_SWEEP_WORKERS_LOST] = {"drover_sweep_workers_lost_total", COUNTER,
                                    "Workers that this coordinator has lost"},
    [METRICS_SWEEP_SLOTS] = {"drover_sweep_slots", GAUGE, "Slots of the workers"},
    [METRICS_SWEEP_GPUS] = {"drover_sweep_gpus", GAUGE, "GPUs of the workers' nodes"},
    [METRICS_WORKER_INFO] = {"drover_worker_info", GAUGE,
                             "Sweep that the worker has joined; the value is 1"},
    [METRICS_WORKER_START_TIME] = {"drover_worker_start_time_seconds", GAUGE,
                                   "Start of the worker, since 1970"},
    [METRICS_WORKER_SLOTS] = {"drover_worker_slots", GAUGE, "Slots of the worker when it joined"},
    [METRICS_WORKER_TRIALS_RUNNING] = {"drover_worker_trials_running", GAUGE,
                                       "Trials that run on the worker"},
    [METRICS_WORKER_TRIALS_ENDED] = {"drover_worker_trials_ended_total", COUNTER,
                                     "Trial runs that have ended on the worker, by result"},
};

/* Returns the metric; NULL: a place of the GPU's metrics that none has. */
static const struct gpu_metric *row_of(size_t name)
{
    if (name >= METRICS_BUILD_INFO)
        return &rows[name];
    for (int f = 0; f < GPU_FACTS; f++)
        if (gpu_rows[f].place == (int)name && name != METRICS_GPU)
            return &gpu_rows[f].metric;
    return NULL;
}

struct metrics_text {
    struct strbuf values[METRICS_NAMES];
};

struct metrics_text *metrics_text_new(void)
{
    return xzalloc(sizeof(struct metrics_text));
}

void metrics_text_free(struct metrics_text *t)
{
    for (size_t i = 0; t && i < METRICS_NAMES; i++)
        strbuf_free(&t->values[i]);
    free(t);
}

/* The format has escapes for these three characters, and its text is UTF-8. */
static void add_label(struct strbuf *b, const struct metrics_label *l)
{
    AUTO(strbuf) struct strbuf text = {0};
    utf8_add(&text, l->value);
    strbuf_printf(b, "%s=\"", l->name);
    for (const char *s = strbuf_str(&text); *s; s++) {
        if (*s == '\n')
            strbuf_puts(b, "\\n");
        else if (*s == '"' || *s == '\\')
            strbuf_printf(b, "\\%c", *s);
        else
            strbuf_putc(b, *s);
    }
    strbuf_putc(b, '"');
}

void metrics_text_add(struct metrics_text *t, enum metrics_name name, double value,
                      const struct metrics_label *labels, size_t count)
{
    struct strbuf *b = &t->values[name];
    size_t added = 0;
    if (isnan(value))
        return;
    strbuf_puts(b, row_of(name)->name);
    for (size_t i = 0; i < count; i++) {
        if (!labels[i].value)
            continue;
        strbuf_putc(b, added++ ? ',' : '{');
        add_label(b, &labels[i]);
    }
    strbuf_puts(b, added ? "} " : " ");
    if (isinf(value))
        strbuf_puts(b, value > 0 ? "+Inf" : "-Inf");
    else if (value == rint(value) && fabs(value) < 1e15)
        strbuf_printf(b, "%.0f", value);
    else
        number_format(b, value);
    strbuf_putc(b, '\n');
}

char *metrics_text_take(struct metrics_text *t)
{
    struct strbuf all = {0};
    for (size_t i = 0; i < METRICS_NAMES; i++) {
        const struct gpu_metric *r = row_of(i);
        if (!r || t->values[i].len == 0)
            continue;
        strbuf_printf(&all, "# HELP %s %s.\n# TYPE %s %s\n", r->name, r->help, r->name, r->type);
        strbuf_add(&all, t->values[i].data, t->values[i].len);
        strbuf_reset(&t->values[i]);
    }
    return strbuf_take(&all);
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

/* DCGM writes bus ids as NVML does: "00000000:0F:00.0" for "0000:0f:00.0". */
static void dcgm_bus_id(char *out, size_t size, const char *bus_id)
{
    int n = snprintf(out, size, "%s%s", *bus_id ? "0000" : "", bus_id);
    for (int i = 0; i < n && (size_t)i < size; i++)
        out[i] = (char)toupper((unsigned char)out[i]);
}

static void add_gpu(struct metrics_text *t, const struct gpu_sample *s, const char *host)
{
    const struct gpu *g = &s->gpu;
    char index[16], device[32], bus_id[sizeof g->bus_id + 4];
    snprintf(index, sizeof index, "%d", g->index);
    snprintf(device, sizeof device, "nvidia%d", g->index);
    dcgm_bus_id(bus_id, sizeof bus_id, g->bus_id);
    const struct metrics_label labels[] = {
        {"gpu", index},     {"UUID", g->uuid},  {"pci_bus_id", *bus_id ? bus_id : NULL},
        {"device", device}, {"Hostname", host}, {"modelName", g->name},
    };
    for (int f = 0; f < GPU_FACTS; f++) {
        const struct gpu_row *r = &gpu_rows[f];
        if (!r->place)
            continue;
        /* Prometheus wants no capitals inside of a label's name. */
        bool of_dcgm = strncmp(r->metric.name, "drover_", 7) != 0;
        double v = gpu_facts_number(s, (enum gpu_fact)f);
        metrics_text_add(t, (enum metrics_name)(METRICS_GPU + r->place),
                         of_dcgm && r->unit == GPU_MEMORY_BYTES ? floor(v / (1 << 20)) : v, labels,
                         COUNT_OF(labels) - !of_dcgm);
    }
}

void metrics_text_add_gpus(struct metrics_text *t, const struct gpu_sample *gpus, int count,
                           const char *host)
{
    for (int i = 0; i < count; i++)
        add_gpu(t, &gpus[i], host);
}
