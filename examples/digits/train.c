#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kit/rng.h"
#include "checkpoint.h"

enum { WAIT_MS = 60000, TERM_S = 10 };

/* The numbers that the ranks sum together with the gradient: the loss (mlp.h), the number of ranks
 * that received SIGTERM, and whether drover requests a stop. */
enum { SUM_LOSS, SUM_TERM, SUM_STOP, SUMS };

struct run {
    const struct train_config *c;
    struct drover *d;
    struct drover_comm *comm;
    const struct data *train, *test;
    struct mlp *m;
    size_t params;
    int rank, size;
    int steps;           /* number of steps per epoch */
    float *staging;      /* copy of the gradients on the host; NULL: the communicator can access the
                            gradient buffer */
    float *x;            /* this rank's part of a batch: images, … */
    int *label, *sample; /* … labels, and indices in the data set */
    int *order;          /* order of the training set in this epoch */
    struct checkpoint ckpt;
};

static volatile sig_atomic_t terminated;

/* Handles SIGTERM. The current step passes the request on to all ranks. If the step never
 * completes, because another rank has exited, SIGALRM kills this process. */
static void on_term(int sig)
{
    terminated = 1;
    alarm(TERM_S);
}

/* Prints an error and returns -1. */
static int failed(const struct run *r, const char *what)
{
    fprintf(stderr, "digits: rank %d: %s\n", r->rank, what);
    return -1;
}

static int comm_failed(const struct run *r)
{
    return failed(r, drover_error(r->d));
}

/* Sums n values of the gradient buffer over all ranks, starting at position `at`. */
static int sum_over_ranks(struct run *r, size_t at, size_t n)
{
    const struct mlp_backend *b = r->c->backend;
    if (r->size == 1)
        return 0;
    float *values = r->staging ? r->staging : b->buffer(r->m) + at;
    if (r->staging && b->get(r->m, at, values, n) < 0)
        return -1;
    if (drover_all_reduce(r->comm, values, values, n, DROVER_FLOAT, DROVER_SUM) < 0 ||
        drover_wait(r->comm, WAIT_MS) < 0)
        return comm_failed(r);
    return r->staging ? b->put(r->m, at, values, n) : 0;
}

/* Sums up to MLP_EXTRA numbers over all ranks, in the extra values of the gradient buffer. */
static int sum_numbers(struct run *r, float *values, int n)
{
    const struct mlp_backend *b = r->c->backend;
    if (b->put(r->m, r->params, values, (size_t)n) < 0 ||
        sum_over_ranks(r, r->params, (size_t)n) < 0)
        return -1;
    return b->get(r->m, r->params, values, (size_t)n);
}

/* Returns this rank's part of the samples list[0 ... n - 1], which is every size-th sample. If
 * `list` is NULL, the samples are 0 ... n - 1. The arrays are borrowed from r. */
static struct mlp_batch my_part(struct run *r, const struct data *set, const int *list, int n,
                                int epoch, int augment)
{
    struct mlp_batch b = {
        .x = r->x, .label = r->label, .sample = r->sample, .epoch = epoch, .scale = 1 / (float)n};
    for (int i = r->rank; i < n; i += r->size) {
        int sample = list ? list[i] : i;
        data_image(r->x + (size_t)b.n * DATA_PIXELS, set, sample, augment, r->c->mlp.seed, epoch);
        r->label[b.n] = set->label[sample];
        r->sample[b.n++] = sample;
    }
    return b;
}

/* Returns the learning rate of a step: a linear warm-up, then constant or a cosine decay. */
static float learning_rate(const struct train_config *c, int64_t step, int64_t total)
{
    if (step < c->warmup)
        return c->lr * (float)(step + 1) / (float)c->warmup;
    if (c->schedule == TRAIN_CONSTANT || total <= c->warmup)
        return c->lr;
    double done = (double)(step - c->warmup) / (double)(total - c->warmup);
    return c->lr * (float)(0.5 * (1 + cos(M_PI * done)));
}

/* Runs one step. Requests to stop are summed together with the gradients: all ranks get them in the
 * same step, so no rank waits for a rank that has exited. The gradient of such a step is not
 * applied. Returns an enum train_end, or -1. */
static int run_step(struct run *r, const struct mlp_batch *batch, int samples)
{
    const struct train_config *c = r->c;
    const struct mlp_backend *b = c->backend;
    float requests[] = {(float)terminated, r->rank == 0 && drover_should_stop(r->d) == DROVER_STOP};
    float sums[SUMS];
    if (b->gradient(r->m, batch) < 0)
        return failed(r, "computing the gradient failed");
    if ((requests[0] > 0 || requests[1] > 0) && b->put(r->m, r->params + SUM_TERM, requests, 2) < 0)
        return -1;
    if (sum_over_ranks(r, 0, r->params + SUMS) < 0 || b->get(r->m, r->params, sums, SUMS) < 0)
        return -1;
    if (sums[SUM_TERM] > 0 || sums[SUM_STOP] > 0) {
        alarm(0); /* this rank no longer waits for other ranks */
        return sums[SUM_TERM] > 0 ? TRAIN_TERMINATED : TRAIN_STOPPED;
    }
    int64_t total = (int64_t)r->steps * c->epochs;
    if (b->update(r->m, learning_rate(c, r->ckpt.step, total), r->ckpt.step + 1) < 0)
        return -1;
    r->ckpt.step++;
    r->ckpt.loss_sum += (double)sums[SUM_LOSS] * samples;
    return TRAIN_DONE;
}

/* Runs the remaining steps of an epoch. */
static int run_epoch(struct run *r, int epoch)
{
    int n = r->train->n, batch = r->c->batch, end = TRAIN_DONE;
    data_shuffle(r->order, n, r->c->mlp.seed, epoch);
    for (int s = (int)(r->ckpt.step % r->steps); s < r->steps && end == TRAIN_DONE; s++) {
        int from = s * batch, len = n - from < batch ? n - from : batch;
        struct mlp_batch b = my_part(r, r->train, r->order + from, len, epoch, r->c->augment);
        end = run_step(r, &b, len);
    }
    return end;
}

static int save(struct run *r)
{
    char why[1024];
    if (!r->c->checkpoint_dir || r->rank != 0)
        return 0;
    if (r->c->backend->save(r->m, r->ckpt.state) < 0)
        return failed(r, "reading the state from the device failed");
    return checkpoint_write(&r->ckpt, r->c->checkpoint_dir, why, sizeof why) < 0 ? failed(r, why)
                                                                                 : 0;
}

/* Evaluates the test set, reports the metrics, and saves a checkpoint if one is due. The next step
 * checks if drover requests a stop. */
static int end_epoch(struct run *r, int epoch)
{
    const struct train_config *c = r->c;
    double test_loss = 0, loss = r->ckpt.loss_sum / r->train->n;
    int correct = 0;
    struct mlp_batch b = my_part(r, r->test, NULL, r->test->n, epoch, 0);
    if (c->backend->evaluate(r->m, &b, &test_loss, &correct) < 0)
        return failed(r, "evaluating the test set failed");
    float sums[] = {(float)test_loss, (float)correct};
    if (sum_numbers(r, sums, 2) < 0)
        return -1;
    r->ckpt.loss_sum = 0;
    double val_loss = (double)sums[0] / r->test->n, accuracy = (double)sums[1] / r->test->n;
    struct drover_metric m[] = {{"loss", loss}, {"val_loss", val_loss}, {"accuracy", accuracy}};
    if (r->rank == 0 && drover_report(r->d, epoch, m, sizeof m / sizeof *m) < 0)
        return comm_failed(r);
    if (r->rank == 0 && !c->quiet) {
        printf("epoch %3d  loss %.6f  val_loss %.6f  accuracy %.4f\n", epoch, loss, val_loss,
               accuracy);
        fflush(stdout);
    }
    if (!isfinite(loss)) /* training cannot recover, so the previous checkpoint is kept */
        return failed(r, "the loss is not finite (try: a smaller --lr)");
    int due = epoch % c->checkpoint_every == 0 || epoch == c->epochs;
    return due ? save(r) : 0;
}

/* Sets the weights to uniform random numbers, with the bounds of He et al. 2015 for relu and gelu,
 * and of Glorot and Bengio 2010 for tanh. Biases stay 0. */
static void init_weights(float *w, const struct mlp_config *c)
{
    for (int l = 0; l < c->layers; l++) {
        int n_in = c->width[l], n_out = c->width[l + 1];
        float bound = c->activation == MLP_TANH ? sqrtf(6.0f / (float)(n_in + n_out))
                                                : sqrtf(6.0f / (float)n_in);
        for (size_t i = 0; i < (size_t)n_in * (size_t)n_out; i++)
            w[mlp_at(c, l) + i] = bound * (2 * rng_unit(rng_mix(c->seed) + (uint64_t)l, i) - 1);
    }
}

/* Returns a hash of the options that must be the same in the training that wrote a checkpoint and
 * in the one that resumes it. */
static uint64_t config_hash(const struct train_config *c)
{
    struct mlp_config m = c->mlp;
    uint64_t h = CHECKPOINT_HASH_INIT;
    h = checkpoint_hash(h, &m.layers, sizeof m.layers);
    h = checkpoint_hash(h, m.width, sizeof m.width);
    h = checkpoint_hash(h, &m.activation, sizeof m.activation);
    h = checkpoint_hash(h, &m.optimizer, sizeof m.optimizer);
    float reals[] = {m.momentum, m.weight_decay, m.dropout, m.label_smoothing, c->lr};
    h = checkpoint_hash(h, reals, sizeof reals);
    h = checkpoint_hash(h, &m.seed, sizeof m.seed);
    int counts[] = {c->batch, c->warmup, (int)c->schedule, c->augment,
                    c->schedule == TRAIN_COSINE ? c->epochs : 0};
    return checkpoint_hash(h, counts, sizeof counts);
}

/* Sets the weights to random values or to those of the checkpoint, which every rank reads. Checks
 * that all ranks have found the same checkpoint, or none. */
static int init_state(struct run *r)
{
    char why[1024];
    const struct train_config *c = r->c;
    r->ckpt = (struct checkpoint){.config = config_hash(c),
                                  .count = 3 * r->params,
                                  .state = calloc(3 * r->params, sizeof(float))};
    if (!r->ckpt.state)
        return failed(r, "out of memory");
    int found = c->resume && c->checkpoint_dir
                    ? checkpoint_read(&r->ckpt, c->checkpoint_dir, why, sizeof why)
                    : 0;
    if (found < 0)
        (void)failed(r, why);
    if (found == 0)
        init_weights(r->ckpt.state, &c->mlp);
    float agreed[2] = {found < 0, (float)r->ckpt.step};
    if (sum_numbers(r, agreed, 2) < 0 || agreed[0] > 0)
        return -1;
    if (agreed[1] != (float)r->ckpt.step * (float)r->size)
        return failed(r,
                      "ranks found different checkpoints (try: a directory that all nodes share)");
    if (c->backend->load(r->m, r->ckpt.state) < 0)
        return failed(r, "writing the weights to the device failed");
    if (found && r->rank == 0 && !c->quiet)
        printf("resumed after epoch %" PRId64 ", step %" PRId64 "\n", r->ckpt.step / r->steps,
               r->ckpt.step % r->steps);
    return 0;
}

static int run_all(struct run *r)
{
    const struct train_config *c = r->c;
    int end = init_state(r);
    int64_t epoch;
    while (end == TRAIN_DONE && (epoch = r->ckpt.step / r->steps) < c->epochs) {
        end = run_epoch(r, (int)epoch + 1);
        if (end == TRAIN_DONE)
            end = end_epoch(r, (int)epoch + 1);
    }
    if (end < 0 || (end != TRAIN_DONE && save(r) < 0))
        return -1;
    if (c->backend->save(r->m, r->ckpt.state) < 0)
        return failed(r, "reading the state from the device failed");
    if (r->rank != 0 || c->quiet)
        return end;
    if (end != TRAIN_DONE)
        printf("stopped on request; %s\n",
               c->checkpoint_dir ? "saved" : "not saved (try: --checkpoint)");
    printf("weights %016" PRIx64 " after epoch %" PRId64 ", step %" PRId64 "\n",
           checkpoint_hash(CHECKPOINT_HASH_INIT, r->ckpt.state, r->params * sizeof(float)),
           r->ckpt.step / r->steps, r->ckpt.step % r->steps);
    return end;
}

static int open_comm(struct run *r)
{
    void *stream = r->c->backend->stream(r->m);
    struct drover_comm_opts o = {.backend = r->c->comm, .stream = stream, .device = -1};
    if (r->size == 1)
        return 0;
    int rc = drover_comm_open(&r->comm, r->d, &o);
    /* If there is no NCCL, which is then missing on all ranks, use MPI and copy gradients through
     * host memory. */
    if (stream && !o.backend && (rc == -ENOENT || rc == -ELIBBAD)) {
        o.backend = "mpi";
        rc = drover_comm_open(&r->comm, r->d, &o);
    }
    if (rc < 0)
        return comm_failed(r);
    if (!stream || strcmp(drover_comm_backend(r->comm), "nccl") == 0)
        return 0;
    r->staging = malloc((r->params + MLP_EXTRA) * sizeof *r->staging);
    return r->staging ? 0 : failed(r, "out of memory");
}

int train(const struct train_config *c, struct drover *d, const struct data *train_set,
          const struct data *test_set)
{
    struct run r = {.c = c,
                    .d = d,
                    .train = train_set,
                    .test = test_set,
                    .params = mlp_params(&c->mlp),
                    .steps = (train_set->n + c->batch - 1) / c->batch,
                    .rank = drover_rank(d),
                    .size = drover_size(d)};
    int samples_max = c->batch > test_set->n ? c->batch : test_set->n;
    size_t part = (size_t)(samples_max + r.size - 1) / (size_t)r.size;
    struct mlp_config mc = c->mlp;
    mc.batch_max = (int)part;
    r.x = malloc(part * DATA_PIXELS * sizeof *r.x);
    r.label = malloc(part * sizeof *r.label);
    r.sample = malloc(part * sizeof *r.sample);
    r.order = malloc((size_t)train_set->n * sizeof *r.order);
    char why[1024] = "out of memory";
    int rc = -1;
    (void)signal(SIGTERM, on_term);
    if (!r.x || !r.label || !r.sample || !r.order ||
        c->backend->open(&r.m, &mc, why, sizeof why) < 0)
        (void)failed(&r, why);
    else if (open_comm(&r) == 0)
        rc = run_all(&r);
    if (rc < 0 && r.comm)
        (void)drover_comm_abort(r.comm); /* other ranks may hang: close must not wait */
    drover_comm_close(r.comm);
    c->backend->close(r.m);
    free(r.ckpt.state);
    free(r.staging);
    free(r.x);
    free(r.label);
    free(r.sample);
    free(r.order);
    return rc;
}
