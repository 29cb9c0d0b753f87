/* place_need - the memory that a job needs on each of its GPUs. Pure. */
#pragma once

#include "launcher/place/place_job.h"

struct place_need {
    bool known;                     /* false: memory does not restrict the choice */
    uint64_t low_bytes, high_bytes; /* the job fits if the high end does */
    struct estimate estimate;       /* if the job has a model and no `memory` */
    bool estimated;
};

/* Returns the sequences per GPU and step if the job has `gpus` GPUs. */
int place_need_batch(const struct place_job *j, int gpus);

/* Computes what the job needs per GPU if it has `gpus` of them.
 *   -EINVAL, -ERANGE  as estimate_job() */
int place_need_of(struct place_need *out, const struct place_job *j, int gpus, struct err *e);

/* Returns the bytes of a GPU that the job may use. */
uint64_t place_need_usable(const struct place_job *j, uint64_t gpu_bytes);

/* Sets the hint to what would fit into a GPU with this memory. Returns e->code. */
int place_need_advise(const struct place_need *n, const struct place_job *j, uint64_t gpu_bytes,
                      struct err *e);
