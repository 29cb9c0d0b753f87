/* metrics_text - the text that --metrics serves, in the exposition format of Prometheus 0.0.4.
 *
 * Pure. metrics_text.c has one row per metric: its name, type and description; gpu_facts.c has
 * those of GPUs, with dcgm-exporter's names and units, so that dashboards for it work. All other
 * names begin with "drover_" and have base units. */
#pragma once

#include "common/mem.h"
#include "launcher/gpu/gpu_sample.h"

enum metrics_name {
    METRICS_GPU, /* plus the place of a value of GPUs: the row in gpu_facts.c */
    METRICS_BUILD_INFO = METRICS_GPU + GPU_FACTS + 1,
    METRICS_JOB_INFO,
    METRICS_JOB_START_TIME,
    METRICS_JOB_LAST_ACTIVITY,
    METRICS_JOB_NODES,
    METRICS_JOB_GPUS,
    METRICS_JOB_RANKS,
    METRICS_JOB_RANKS_RUNNING,
    METRICS_JOB_RANK_FAILURES,
    METRICS_JOB_RESTARTS,
    METRICS_JOB_HANGS,
    METRICS_JOB_EXIT_STATUS,
    METRICS_JOB_GPU_TIME,
    METRICS_JOB_GPU_TIME_LIMIT,
    METRICS_JOB_TIME_LIMIT,
    METRICS_RANK_RUNNING,
    METRICS_RANK_LINES,
    METRICS_RANK_GPU_INFO,
    METRICS_SWEEP_INFO,
    METRICS_SWEEP_START_TIME,
    METRICS_SWEEP_PAUSED,
    METRICS_SWEEP_TRIALS,
    METRICS_SWEEP_TRIALS_WANTED,
    METRICS_SWEEP_TRIALS_ENDED,
    METRICS_SWEEP_BEST_VALUE,
    METRICS_SWEEP_REPORTS,
    METRICS_SWEEP_COMMITS,
    METRICS_SWEEP_WORKERS,
    METRICS_SWEEP_WORKERS_LOST,
    METRICS_SWEEP_SLOTS,
    METRICS_SWEEP_GPUS,
    METRICS_WORKER_INFO,
    METRICS_WORKER_START_TIME,
    METRICS_WORKER_SLOTS,
    METRICS_WORKER_TRIALS_RUNNING,
    METRICS_WORKER_TRIALS_ENDED,
    METRICS_NAMES
};

struct metrics_label {
    const char *name, *value; /* a label without a value is left out */
};

struct metrics_text;
struct metrics_text *metrics_text_new(void);
void metrics_text_free(struct metrics_text *t);
AUTO_DEFINE(metrics_text, struct metrics_text *, metrics_text_free)

/* Adds one value of a metric. A value that is NaN is left out: it is not available. `labels` has
 * `count` entries, and their values are any text. */
void metrics_text_add(struct metrics_text *t, enum metrics_name name, double value,
                      const struct metrics_label *labels, size_t count);

/* Adds the values of `count` GPUs of the machine `host`, with the labels of dcgm-exporter. An
 * unknown value is left out. */
void metrics_text_add_gpus(struct metrics_text *t, const struct gpu_sample *gpus, int count,
                           const char *host);

/* Returns the text, which the caller frees, and forgets the values. Its metrics are in the order of
 * the names; a metric without a value does not occur. */
char *metrics_text_take(struct metrics_text *t);
