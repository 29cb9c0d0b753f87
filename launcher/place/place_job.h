/* place_job - a job file: what a job needs of GPUs, which it prefers, and how long it waits.
 *
 * A file has the keys at its top level, or in the mappings `task`, `resource_policy` and
 * `scheduler`. docs/drover-place.md lists them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/estimate/estimate.h"
#include "launcher/jobs/history_jobs.h"

enum place_goal {
    PLACE_COST,       /* the smallest GPUs that fit */
    PLACE_PERFORMANCE /* the fastest GPUs */
};

enum place_arrangement {
    PLACE_ANYWHERE,
    PLACE_PACK,  /* on few NUMA nodes, next to GPUs that are in use */
    PLACE_SPREAD /* on many NUMA nodes, away from GPUs that are in use */
};

enum { PLACE_GPUS_MAX = 64 };

struct place_job {
    char *name;                         /* of the file, without directory and suffix */
    char *framework, *image, *gpu_type; /* NULL: not given */
    bool has_model;                     /* `model` is filled in */
    struct estimate_opts model;         /* without the batch, which depends on the number of GPUs */
    int batch;                          /* of all GPUs together; 0: not given */
    int batch_per_gpu;                  /* 0: not given */
    uint64_t memory_bytes;              /* needed per GPU, by the user; 0: not given */
    int gpus_min, gpus_max;             /* they are equal if the file has a number */
    double memory_threshold;            /* share of a GPU's memory that the job may use */
    char **preferred, **excluded;       /* GPUs, as place_gpu_is() reads them; in order */
    char **labels;                      /* every GPU must have all of them */
    bool shared;                        /* other processes may use the GPUs, too */
    bool mixed_models;                  /* the GPUs may be of different models */
    enum place_goal goal;
    enum place_arrangement arrangement;
    double timeout_s;            /* how long the job waits for GPUs */
    struct history_jobs earlier; /* jobs of the program with a peak, which the caller may add */
    char **notes;                /* about keys without effect; whole sentences */
};

/* Reads a job file. The caller frees `*out`.
 *   -EINVAL  not YAML, an unknown key (the hint is the nearest one) or an invalid value; the
 *            message starts with FILE:LINE:COLUMN, or with FILE and the key
 *   -errno   the file cannot be read */
int place_job_read(struct place_job **out, const char *path, struct err *e);
void place_job_free(struct place_job *j);
AUTO_DEFINE(place_job, struct place_job *, place_job_free)
