/* place_select - selects the GPUs of a job: hard rules first, then one score. Pure: the same job
 * and GPUs give the same choice.
 *
 * The score of a set is the sum of its terms, each 0 to PLACE_TERM_MAX points, times their weights.
 * A term is a mean over the GPUs of the set, or over their pairs. Among sets of equal score the one
 * with the lowest positions wins. */
#pragma once

#include "launcher/place/place_gpu.h"
#include "launcher/place/place_job.h"

/* The hard rules, in the order in which they are checked. */
enum place_rule {
    PLACE_RULE_HIDDEN,    /* CUDA_VISIBLE_DEVICES does not show the GPU */
    PLACE_RULE_TYPE,      /* not of gpu_type */
    PLACE_RULE_EXCLUDED,  /* in excluded_devices */
    PLACE_RULE_LABELS,    /* lacks a label */
    PLACE_RULE_TOO_SMALL, /* the job does not fit under the threshold */
    PLACE_RULE_LOCKED,    /* another placed job has it */
    PLACE_RULE_USED,      /* processes use it, and the job does not share */
    PLACE_RULE_NO_MEMORY, /* shared, but too little memory is free */
    PLACE_RULE_RESERVED,  /* an earlier placement waits for it */
    PLACE_RULES
};

enum place_term {
    PLACE_TERM_PREFERRED, /* order of preferred_devices */
    PLACE_TERM_NVLINK,    /* NVLinks between the GPUs of the set */
    PLACE_TERM_LOAD,      /* idle time; of a job that shares: free memory, too */
    PLACE_TERM_GOAL,      /* cost: little memory; performance: FP16 TFLOP/s */
    PLACE_TERM_ARRANGEMENT,
    PLACE_TERMS
};

enum { PLACE_TERM_MAX = 1000 };

/* What was decided about one GPU. */
struct place_verdict {
    bool selected;
    int rule;           /* the first rule that it breaks; -1: none */
    int64_t best_score; /* of a set with this GPU that was considered; -1: none was */
};

struct place_choice {
    int gpus[PLACE_GPUS_MAX]; /* positions in the inventory, ascending */
    int count;
    int64_t score;
    int terms[PLACE_TERMS]; /* points, without the weights */
    /* What the job needs per GPU. A high end of 0 does not restrict the choice; it fits if the high
     * end does. Without a model, or if the file says `memory`, only the ends are set. */
    struct estimate need;
    struct place_verdict each[PLACE_GPUS_MAX];
};

/* Selects the GPUs of `j` among `n` (at most PLACE_GPUS_MAX). With `idle`, GPUs count as if no
 * process and no placed job used them. `out->each` is set in both cases; `out->need` is that of the
 * largest number of GPUs that was tried.
 *   -EBUSY           fewer GPUs than the job needs keep the rules; the text says what they lack
 *   -EINVAL, -ERANGE  the job's memory cannot be estimated */
int place_select(struct place_choice *out, const struct place_job *j, const struct place_gpu *gpus,
                 int n, bool idle, struct err *e);

/* The terms, and what a GPU is that breaks a rule ("in use"). */
extern const struct place_select_term {
    const char *name;
    int weight;
} place_select_terms[PLACE_TERMS];
extern const char *const place_select_rules[PLACE_RULES];

/* Computes what the job needs per GPU if it has `gpus` of them.
 *   -EINVAL, -ERANGE  as estimate_job() */
int place_select_need(struct estimate *out, const struct place_job *j, int gpus, struct err *e);

/* Returns the bytes of a GPU that the job may use. */
uint64_t place_select_usable(const struct place_job *j, uint64_t gpu_bytes);

/* Sets the hint to keys of the job file with which the job would fit on the largest of the idle
 * GPUs of `c` that are enough for it. Returns e->code. */
int place_select_advise(const struct place_choice *c, const struct place_job *j,
                        const struct place_gpu *gpus, int n, struct err *e);
