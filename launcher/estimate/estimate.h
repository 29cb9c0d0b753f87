/* estimate - the GPU memory that training a model needs, per rank, as a range.
 *
 * estimate_job() computes; estimate_correct() replaces the range by what earlier jobs needed;
 * estimate_advice() says what would fit. All are pure. docs/drover-estimate.md has the formulas and
 * their sources. All sizes are bytes; 1 GiB is 2^30 of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "launcher/estimate/model_shape.h"

struct history_job;

enum estimate_precision {
    ESTIMATE_FP32,
    ESTIMATE_BF16, /* mixed: fp32 master weights, unless estimate_opts.no_master */
    ESTIMATE_FP16,
    ESTIMATE_FP8,
    ESTIMATE_PRECISIONS
};

enum estimate_optimizer {
    ESTIMATE_SGD,
    ESTIMATE_MOMENTUM, /* SGD with momentum */
    ESTIMATE_ADAM,
    ESTIMATE_ADAMW,
    ESTIMATE_ADAM_8BIT,
    ESTIMATE_ADAFACTOR,
    ESTIMATE_LION,
    ESTIMATE_OPTIMIZERS
};

/* How the loss of a language model is computed. */
enum estimate_loss {
    ESTIMATE_LOSS_EAGER,   /* all logits, in 32 bit, and their gradient, as transformers does */
    ESTIMATE_LOSS_CHUNKED, /* in 8 parts, as torchtune does */
    ESTIMATE_LOSS_FUSED,   /* with the output matrix, in parts as wide as the model (Liger) */
    ESTIMATE_LOSSES
};

/* Which matrices have adapters: bits of estimate_opts.lora_targets. */
enum {
    ESTIMATE_LORA_Q = 1,
    ESTIMATE_LORA_K = 2,
    ESTIMATE_LORA_V = 4,
    ESTIMATE_LORA_O = 8,
    ESTIMATE_LORA_GATE = 16,
    ESTIMATE_LORA_UP = 32,
    ESTIMATE_LORA_DOWN = 64,
    ESTIMATE_LORA_ANY_GATE = 128, /* if there is one */
    ESTIMATE_LORA_MLP = 32 + 64 + 128,
    ESTIMATE_LORA_ALL = 1 + 2 + 4 + 8 + ESTIMATE_LORA_MLP
};

struct estimate_opts {
    struct model_shape model;
    int batch; /* sequences per rank that are computed at once (micro-batch) */
    int seq;   /* tokens per sequence; 0: the model's context, at most ESTIMATE_SEQ_MAX */
    enum estimate_precision precision;
    enum estimate_optimizer optimizer;
    int ranks;           /* of the job; 0: tp * pp */
    int tp, pp;          /* tensor and pipeline parallelism, in ranks */
    int zero;            /* stage, 0 to 3 */
    bool no_master;      /* 16-bit weights, gradients and optimizer state without fp32 copies */
    bool recompute;      /* recompute each block in the backward pass */
    bool selective;      /* recompute the attention only (arXiv:2205.05198) */
    bool full_attention; /* keeps the matrix of scores; else in the way of FlashAttention */
    bool offload;        /* optimizer state and fp32 copies are in host memory */
    bool offload_params; /* … and the parameters, with ZeRO stage 3 */
    enum estimate_loss loss;
    int accumulate;        /* micro-batches per step; 0: unknown, the high end assumes several */
    int cp, ep;            /* context and expert parallelism, in ranks; 0: 1 */
    int lora_rank;         /* 0: all parameters are trained */
    unsigned lora_targets; /* 0: all matrices of the layers */
    bool four_bit;         /* frozen weights have 4 bit (QLoRA) */
    int64_t trainable;     /* parameters that are trained; 0: all, or the adapters */
    bool fused_step;       /* the optimizer steps in the backward pass, layer by layer */
    bool paged;            /* optimizer state may move to host memory */
    uint64_t host_bytes;   /* host memory per rank that advice may use; 0: unknown */
    bool foreach;          /* the optimizer has temporaries as large as the parameters */
};

#define ESTIMATE_GIB ((double)(1 << 30))

enum { ESTIMATE_SEQ_MAX = 2048, ESTIMATE_FORMULA_MAX = 192 };

/* Returns options without a model: batch 1, bf16, adamw, one rank, no parallelism. */
struct estimate_opts estimate_opts_default(void);

/* Read the words of --precision, --loss and --recompute. -EINVAL with the nearest word as the hint
 */
int estimate_precision_parse(enum estimate_precision *out, const char *text, struct err *e);
const char *estimate_precision_name(enum estimate_precision p);
const char *estimate_optimizer_name(enum estimate_optimizer o);
int estimate_loss_parse(enum estimate_loss *out, const char *text, struct err *e);
const char *estimate_loss_name(enum estimate_loss l);
int estimate_recompute_parse(struct estimate_opts *o, const char *text, struct err *e);

/* Reads the word of --optimizer, also as Transformers' --optim has it ("paged_adamw_8bit"), into
 * `optimizer`, `paged` and `foreach`. -EINVAL as above */
int estimate_optim_parse(struct estimate_opts *o, const char *text, struct err *e);

/* Reads "q,v", "attention", "mlp", "all". -EINVAL  an unknown word */
int estimate_lora_parse(unsigned *out, const char *text, struct err *e);

enum estimate_part_kind {
    ESTIMATE_PARAMETERS,
    ESTIMATE_GRADIENTS,
    ESTIMATE_OPTIMIZER_STATE,
    ESTIMATE_MASTER_WEIGHTS,
    ESTIMATE_ACTIVATIONS,
    ESTIMATE_ONE_LAYER, /* activations of the layer whose gradients are computed last */
    ESTIMATE_LOGITS,
    ESTIMATE_TEMPORARIES, /* of the optimizer's step */
    ESTIMATE_COLLECTIVE_BUFFERS,
    ESTIMATE_CUDA_CONTEXT,
    ESTIMATE_FRAGMENTATION,
    ESTIMATE_PARTS
};

struct estimate_part {
    uint64_t low_bytes, expected_bytes, high_bytes;
    char formula[ESTIMATE_FORMULA_MAX]; /* with the numbers inserted */
};

/* Why an earlier job does not correct an estimate. */
enum estimate_left_out {
    ESTIMATE_JOB_FAILED, /* it may have ended before its peak */
    ESTIMATE_JOB_GPUS,   /* it had another number of GPUs than the estimate has ranks */
    ESTIMATE_JOB_BATCH,  /* its batch size is unknown */
    ESTIMATE_JOB_PEAK,   /* its own peak is unknown, or larger than its GPU */
    ESTIMATE_LEFT_OUT
};

/* The line of least squares of measured peaks, bytes = a + b * batch. */
struct estimate_fit {
    int n;                    /* number of peaks */
    double a, b, mean, worst; /* worst: the largest distance of a peak */
    int first;                /* batch of the first peak */
    bool several;             /* there is more than one batch size */
};

/* What a step goes through. Parts do not exist in all of them: the estimate is the largest phase.
 */
enum estimate_phase_kind {
    ESTIMATE_FORWARD,  /* until the gradient of the loss: all activations, and the logits */
    ESTIMATE_BACKWARD, /* its end: all gradients, and the activations of one layer */
    ESTIMATE_STEP,     /* of the optimizer */
    ESTIMATE_PHASES
};

struct estimate_phase {
    uint64_t low_bytes, expected_bytes, high_bytes; /* the sum of the parts that exist */
};

struct estimate {
    uint64_t low_bytes, expected_bytes, high_bytes; /* per rank: the largest phase, or measured */
    struct estimate_part part[ESTIMATE_PARTS];
    struct estimate_phase phase[ESTIMATE_PHASES];
    uint64_t host_bytes;                   /* host memory per rank that offloading needs */
    struct estimate_opts o;                /* as used: without zeros that mean a default */
    struct estimate_fit measured;          /* what estimate_correct() used; n is 0: nothing */
    char correction[ESTIMATE_FORMULA_MAX]; /* how, if measured */
    int left_out[ESTIMATE_LEFT_OUT];       /* earlier jobs that do not count, by the reason */
};

/* Computes the estimate. `out` is unchanged on failure.
 *   -EINVAL  options exclude each other, or the model's shape is incomplete or inconsistent
 *   -ERANGE  a number is out of range */
int estimate_job(struct estimate *out, const struct estimate_opts *o, struct err *e);

const char *estimate_part_name(enum estimate_part_kind k);
const char *estimate_phase_name(enum estimate_phase_kind k);

/* Returns the number of parameters that are trained. */
double estimate_trainable(const struct estimate_opts *o);

/* Returns the number of ranks with the same part of the model, among which ZeRO divides the states:
 * also those that divide the tokens of a sequence. */
int estimate_equal_ranks(const struct estimate_opts *o);

/* Replaces the range of `s` by what `n` earlier jobs with the same program and options needed: with
 * two or more batch sizes by the line of least squares, bytes = a + b * batch; with one by scaling
 * the formula's range. Sets left_out, and without a job that counts nothing else. */
void estimate_correct(struct estimate *s, const struct history_job *peaks, size_t n);
/* Returns how many jobs do not count, and why: "2 earlier jobs do not count: 2 failed". The caller
 * frees it; NULL: none. */
char *estimate_left_out_text(const struct estimate *s);
/* Does so with the line of at least one peak. */
void estimate_apply(struct estimate *s, const struct estimate_fit *l);

enum estimate_verdict { ESTIMATE_FITS, ESTIMATE_CLOSE, ESTIMATE_DOES_NOT_FIT };

/* Compares with a GPU's usable memory: it fits if the high end does, and it does not if the low end
 * does not. */
enum estimate_verdict estimate_verdict(const struct estimate *s, uint64_t gpu_bytes);
const char *estimate_verdict_text(enum estimate_verdict v); /* "fits", "close", "does not fit" */

struct estimate_advice { /* how advice is written; zeroes: as options of drover estimate */
    bool keys;           /* as keys of a job file, "{num_gpus: 2}" */
    bool step_batch;     /* the file has the batch of all ranks together */
    int ranks_max;       /* no advice has more ranks; 0: no limit */
};

/* Returns what would fit into `gpu_bytes`, as lines without newlines, in the order of their cost; a
 * strv, which the caller frees. If the job fits already, the line is the largest batch that does.
 * NULL: none. */
char **estimate_advice(const struct estimate *s, uint64_t gpu_bytes,
                       const struct estimate_advice *form);
