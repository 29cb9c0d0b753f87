/* history_jobs - the finished jobs with GPUs, in history_db's file. At most HISTORY_DB_ROWS_MAX are
 * kept: those that ended last. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "launcher/jobs/history_command.h"

struct history_job {                  /* in all figures, -1: unknown */
    int64_t begin_ms, end_ms;         /* since 1970 */
    char *job, *program;              /* its id, and history_command.program */
    char *hash;                       /* history_command.hash */
    int64_t batch;                    /* history_command.batch */
    char *gpu;                        /* model: "NVIDIA H100 80GB HBM3" */
    int gpus;                         /* of the whole job */
    int status;                       /* exit status of `drover run` */
    double utilisation;               /* mean of the GPUs, 0 to 1 */
    int64_t peak_bytes, memory_bytes; /* of the fullest GPU: the job's peak, and its size */
    int peak_of_all;                  /* 1: it is that of all processes on the GPU */
    char *peaks; /* JSON: the job's peak of each sampled rank, {"0": BYTES, …} */
    double energy_j;
    double cost;
};

struct history_jobs {
    struct history_job *at;
    size_t count;
};

/* Reads the jobs, newest first; with `of`, the last 100 of this program with these options. The
 * list is empty if none is stored. The caller calls history_jobs_end() in every case. Errors are
 * those of history_db_read(). */
int history_jobs_read(struct history_jobs *out, const struct history_command *of, struct err *e);
void history_jobs_end(struct history_jobs *l);

/* Stores a job. Errors are those of history_db_read(); nothing is stored then. */
int history_jobs_put(const struct history_job *j, struct err *e);

/* Returns a job as JSON, without the figures that are unknown (new reference). */
json_t *history_jobs_json(const struct history_job *j);
