#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/checkpoint.h"
#include "../kit/loader.h"
#include "../kit/rng.h"

#define CHECKPOINT_FILE "digits.ckpt"

/* A wait for the other ranks has no limit: one of them may be writing to a slow disk. The launcher
 * ends the ranks if one has failed. */
#define WAIT_MS INT64_MAX

/* The numbers that the ranks sum together with the gradient: the loss (mlp.h), the number of ranks
 * that received SIGTERM, and whether drover requests a stop. */
enum { SUM_LOSS, SUM_TERM, SUM_STOP, SUMS };

/* This rank's part of a batch, and the memory of its arrays. */
struct part {
    struct mlp_batch batch;
    float *x;
    int *label, *sample;
};

struct run {
    const struct train_config *c;
    struct drover *d;
    struct drover_comm *comm;
    const struct data *train, *test;
    struct mlp *m;
    size_t params;
    int rank, size;
    int steps;      /* number of steps per epoch */
    float *staging; /* copy of the gradients on the host; NULL: the communicator can access the
                       gradient buffer */
    struct part parts[2], test_part;
    struct loader loader;        /* fills parts[] in a thread, which uses … */
    int *order, ordered;         /* … the order of the training set in the epoch `ordered` */
    struct checkpoint_head head; /* the number of completed steps; its value: the sum of the losses
                                    of the epoch's samples so far */
    float *state;                /* a copy of parameters and moments (mlp.h) */
    struct checkpoint *ckpt;     /* NULL: this rank writes no checkpoints */
};

static atomic_int terminated; /* any thread may handle the signal */

/* Handles SIGTERM. The current step passes the request on to all ranks, however long it takes: only
 * the launcher knows how long it waits before SIGKILL. */
static void on_term(int sig)
{
    terminated = 1;
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

/* Fills a part with this rank's samples of list[0 ... n - 1], which is every size-th one. If `list`
 * is NULL, the samples are 0 ... n - 1. */
static void fill_part(const struct run *r, struct part *p, const struct data *set, const int *list,
                      int n, int epoch, int augment)
{
    p->batch = (struct mlp_batch){
        .x = p->x, .label = p->label, .sample = p->sample, .epoch = epoch, .scale = 1 / (float)n};
    for (int i = r->rank; i < n; i += r->size) {
        int sample = list ? list[i] : i, at = p->batch.n++;
        data_image(p->x + (size_t)at * DATA_PIXELS, set, sample, augment, r->c->mlp.seed, epoch);
        p->label[at] = set->label[sample];
        p->sample[at] = sample;
    }
}

/* Returns the number of samples of a step, for all ranks together. The last step of an epoch may
 * have fewer. */
static int samples_of(const struct run *r, int64_t step)
{
    int left = r->train->n - (int)(step % r->steps) * r->c->batch;
    return left < r->c->batch ? left : r->c->batch;
}

/* Prepares this rank's part of a training step, for the loader. */
static void load_part(void *arg, int64_t step, void *part)
{
    struct run *r = arg;
    int epoch = (int)(step / r->steps) + 1, from = (int)(step % r->steps) * r->c->batch;
    if (epoch != r->ordered)
        data_shuffle(r->order, r->train->n, r->c->mlp.seed, epoch);
    r->ordered = epoch;
    fill_part(r, part, r->train, r->order + from, samples_of(r, step), epoch, r->c->augment);
}

/* Runs one step. Requests to stop are summed together with the gradients: all ranks get them in the
 * same step, so no rank waits for a rank that has exited. The gradient of such a step is not
 * applied. Returns an enum train_end, or -1. */
static int run_step(struct run *r, const struct mlp_batch *batch)
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
    if (sums[SUM_TERM] > 0 || sums[SUM_STOP] > 0)
        return sums[SUM_TERM] > 0 ? TRAIN_TERMINATED : TRAIN_STOPPED;
    int64_t step = r->head.step, total = (int64_t)r->steps * c->epochs;
    float lr = c->lr * (float)schedule_factor(c->schedule, step, total, c->warmup, 0);
    if (b->update(r->m, lr, step + 1) < 0)
        return -1;
    r->head.value += (double)sums[SUM_LOSS] * samples_of(r, step);
    r->head.step++;
    return TRAIN_DONE;
}

/* Copies the state, and writes it in the background. The next call or finish_saving() reports an
 * error. */
static int save(struct run *r)
{
    char why[1024];
    if (!r->ckpt)
        return 0;
    if (r->c->backend->save(r->m, r->state) < 0)
        return failed(r, "reading the state from the device failed");
    return checkpoint_save(r->ckpt, &r->head, r->state, why, sizeof why) < 0 ? failed(r, why) : 0;
}

/* Waits until the last checkpoint is on disk. */
static int finish_saving(struct run *r)
{
    char why[1024];
    int rc = checkpoint_close(r->ckpt, why, sizeof why);
    r->ckpt = NULL;
    return rc < 0 ? failed(r, why) : 0;
}

/* Evaluates the test set, reports the metrics, and saves a checkpoint if one is due. The next step
 * checks if drover requests a stop. */
static int end_epoch(struct run *r, int epoch)
{
    const struct train_config *c = r->c;
    double test_loss = 0, loss = r->head.value / r->train->n;
    int correct = 0;
    if (c->backend->evaluate(r->m, &r->test_part.batch, &test_loss, &correct) < 0)
        return failed(r, "evaluating the test set failed");
    float sums[] = {(float)test_loss, (float)correct};
    if (sum_numbers(r, sums, 2) < 0)
        return -1;
    r->head.value = 0;
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

/* Returns the head of this training's checkpoints: the options that must be the same in the
 * training that resumes. */
static struct checkpoint_head describe(const struct run *r)
{
    const struct train_config *c = r->c;
    const struct mlp_config *m = &c->mlp;
    static const char *const activations[] = {"relu", "tanh", "gelu"};
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw"};
    static const char *const schedules[] = {"constant", "cosine"};
    struct checkpoint_head h = {.bytes = 3 * r->params * sizeof *r->state};
    char hidden[64] = "";
    for (int l = 1, n = 0; l < m->layers; l++)
        n += snprintf(hidden + n, sizeof hidden - (size_t)n, "%s%d", l > 1 ? "," : "", m->width[l]);
    checkpoint_add(&h, "hidden", "%s", hidden);
    checkpoint_add(&h, "activation", "%s", activations[m->activation]);
    checkpoint_add(&h, "optimizer", "%s", optimizers[m->optimizer]);
    checkpoint_add_real(&h, "lr", c->lr);
    checkpoint_add_real(&h, "momentum", m->momentum);
    checkpoint_add_real(&h, "weight_decay", m->weight_decay);
    checkpoint_add_real(&h, "dropout", m->dropout);
    checkpoint_add_real(&h, "label_smoothing", m->label_smoothing);
    checkpoint_add(&h, "batch", "%d", c->batch);
    checkpoint_add(&h, "warmup", "%d", c->warmup);
    checkpoint_add(&h, "schedule", "%s", schedules[c->schedule]);
    if (c->schedule == SCHEDULE_COSINE)
        checkpoint_add(&h, "epochs", "%d", c->epochs);
    checkpoint_add(&h, "augment", "%d", c->augment);
    checkpoint_add(&h, "seed", "%" PRIu64, m->seed);
    checkpoint_add(&h, "images to train", "%d", r->train->n);
    return h;
}

/* Sets the state to random weights or to the checkpoint, which every rank reads. Rank 0 prepares to
 * write. Returns 1 if there is a checkpoint, 0 if there is none, or -1. */
static int find_state(struct run *r, const char *dir)
{
    char why[1024];
    void *saved = NULL;
    r->head = describe(r);
    int found = 0;
    if (dir && r->rank == 0 && checkpoint_open(&r->ckpt, dir, CHECKPOINT_FILE, why, sizeof why) < 0)
        return failed(r, why);
    if (dir && r->c->resume)
        found = checkpoint_read(&r->head, &saved, dir, CHECKPOINT_FILE, why, sizeof why);
    if (found < 0)
        return failed(r, why);
    if (found == 0)
        init_weights(r->state, &r->c->mlp);
    else if (r->head.bytes == 3 * r->params * sizeof *r->state)
        memcpy(r->state, saved, r->head.bytes);
    else
        found = failed(r, "the checkpoint is of another network");
    free(saved);
    return found;
}

/* Finds the state and starts the loader. Checks that all ranks have found the same checkpoint, or
 * none. */
static int init_state(struct run *r)
{
    const struct train_config *c = r->c;
    int found = find_state(r, c->checkpoint_dir);
    float agreed[2] = {found < 0, (float)r->head.step};
    if (sum_numbers(r, agreed, 2) < 0 || agreed[0] > 0)
        return -1;
    if (agreed[1] != (float)r->head.step * (float)r->size)
        return failed(r,
                      "ranks found different checkpoints (try: a directory that all nodes share)");
    if (c->backend->load(r->m, r->state) < 0)
        return failed(r, "writing the weights to the device failed");
    if (found && r->rank == 0 && !c->quiet)
        printf("resumed after epoch %" PRId64 ", step %" PRId64 "\n", r->head.step / r->steps,
               r->head.step % r->steps);
    r->loader = (struct loader){.fill = load_part,
                                .arg = r,
                                .buffers = {&r->parts[0], &r->parts[1]},
                                .number = r->head.step};
    loader_start(&r->loader);
    return 0;
}

static int run_all(struct run *r)
{
    const struct train_config *c = r->c;
    int end = init_state(r);
    while (end == TRAIN_DONE && r->head.step < (int64_t)r->steps * c->epochs) {
        const struct part *p = loader_next(&r->loader);
        end = run_step(r, &p->batch);
        if (end == TRAIN_DONE && r->head.step % r->steps == 0)
            end = end_epoch(r, p->batch.epoch);
    }
    if (end < 0 || (end != TRAIN_DONE && save(r) < 0) || finish_saving(r) < 0)
        return -1;
    if (c->backend->save(r->m, r->state) < 0)
        return failed(r, "reading the state from the device failed");
    if (r->rank != 0 || c->quiet)
        return end;
    if (end != TRAIN_DONE)
        printf("stopped on request; %s\n",
               c->checkpoint_dir ? "saved" : "not saved (try: --checkpoint)");
    printf("weights %016" PRIx64 " after epoch %" PRId64 ", step %" PRId64 "\n",
           checkpoint_hash(CHECKPOINT_HASH_INIT, r->state, r->params * sizeof(float)),
           r->head.step / r->steps, r->head.step % r->steps);
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

/* Allocates the arrays of a part, as one: free its x. */
static int alloc_part(struct part *p, int samples)
{
    size_t n = (size_t)samples;
    p->x = malloc(n * (DATA_PIXELS * sizeof *p->x + 2 * sizeof *p->label));
    if (!p->x)
        return -1;
    p->label = (int *)(p->x + n * DATA_PIXELS);
    p->sample = p->label + n;
    return 0;
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
    struct mlp_config mc = c->mlp;
    mc.batch_max = (samples_max + r.size - 1) / r.size;
    r.order = malloc((size_t)train_set->n * sizeof *r.order);
    r.state = calloc(3 * r.params, sizeof *r.state);
    int ok = r.order && r.state && alloc_part(&r.parts[0], mc.batch_max) == 0 &&
             alloc_part(&r.parts[1], mc.batch_max) == 0 &&
             alloc_part(&r.test_part, mc.batch_max) == 0;
    if (ok)
        fill_part(&r, &r.test_part, test_set, NULL, test_set->n, 0, 0);
    char why[1024] = "out of memory";
    int rc = -1;
    (void)signal(SIGTERM, on_term);
    if (!ok || c->backend->open(&r.m, &mc, why, sizeof why) < 0)
        (void)failed(&r, why);
    else if (open_comm(&r) == 0)
        rc = run_all(&r);
    if (rc < 0 && r.comm)
        (void)drover_comm_abort(r.comm); /* other ranks may hang: close must not wait */
    drover_comm_close(r.comm);
    loader_stop(&r.loader);
    (void)finish_saving(&r); /* if the training has failed, which has been reported */
    c->backend->close(r.m);
    free(r.state);
    free(r.staging);
    free(r.order);
    free(r.parts[0].x);
    free(r.parts[1].x);
    free(r.test_part.x);
    return rc;
}
