#include "train.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/batch_auto.h"
#include "../kit/checkpoint.h"
#include "../kit/loader.h"
#include "../kit/rng.h"
#include "../kit/schedule.h"
#include "../kit/throughput.h"
#include "optimizer.h"
#include "profile.h"

enum { EVAL_SEQUENCES = 160, TOKEN = sizeof(uint16_t) };
static const float CLIP = 1, LR_FLOOR = 0.1f;

/* The numbers that ranks sum after each step: the loss, the sum of the squares of the gradient, the
 * number of ranks that received SIGTERM, and whether drover requests a stop. */
enum { SUM_LOSS, SUM_SQUARES, SUM_TERM, SUM_STOP, SUMS };

enum train_end { TRAIN_DONE, TRAIN_STOPPED, TRAIN_TERMINATED };

struct run {
    const struct train_config *c;
    struct model m;
    struct ranks ranks;
    const struct ops_backend *ops;
    struct ops *dev;
    struct optimizer opt;
    int share, micro;     /* sequences of a step on this rank; of them at once */
    int reducing;         /* this is the last micro-batch of the step */
    uint16_t *token;      /* on the device: the step's tokens, then the targets */
    uint16_t *eval_token; /* on the device: the same for this rank's part of the validation set */
    int eval_count;
    float *sums; /* on the device */
    struct loader loader;
    const void *batch; /* the buffer with the step's tokens and targets */
    struct checkpoint *checkpoint;
    int64_t step; /* number of completed steps */
    float loss, val_loss;
    double train_s;             /* time of the steps of this run */
    double first_s;             /* … of its first step, in which libraries load their code */
    int64_t first;              /* step at which this run began */
    struct batch_limits limits; /* of --batch=auto; time at its last decision: */
    double waited_s, adapted_s;
    struct profile profile;
    FILE *dump;
};

static atomic_int terminated;

/* Handles SIGTERM. The current step passes the request on to all ranks, however long it takes: only
 * the launcher knows how long it waits before SIGKILL. */
static void on_term(int sig)
{
    terminated = 1;
}

static int put(struct run *r, void *to, const void *from, size_t bytes)
{
    return ranks_check(&r->ranks, r->ops->put(r->dev, to, from, bytes));
}

/* ---- data: what is in a batch depends only on its number ------------------------------------ */

static size_t split_of(const struct train_config *c)
{
    return c->tokens.n / 10 * 9; /* the last tenth is the validation set */
}

/* Fills a buffer with this rank's sequences, then with their targets: one token later. */
static void fill_batch(void *arg, int64_t number, void *buffer)
{
    const struct run *r = arg;
    const struct train_config *c = r->c;
    size_t T = (size_t)c->model.context, places = split_of(c) - T;
    uint16_t *token = buffer, *target = token + (size_t)r->share * T;
    for (int i = 0; i < r->share; i++, token += T, target += T) {
        int64_t sequence = number * c->global_batch + (int64_t)r->ranks.rank * r->share + i;
        uint64_t at = rng_at(rng_mix((uint64_t)c->seed), (uint64_t)sequence) % places;
        tokens_copy(token, &c->tokens, at, T);
        tokens_copy(target, &c->tokens, at + 1, T);
    }
}

/* The validation set is the same for all seeds; each rank has a part of it. */
static int open_evaluation(struct run *r)
{
    const struct train_config *c = r->c;
    int first = EVAL_SEQUENCES * r->ranks.rank / r->ranks.size;
    r->eval_count = EVAL_SEQUENCES * (r->ranks.rank + 1) / r->ranks.size - first;
    size_t T = (size_t)c->model.context, n = (size_t)r->eval_count;
    size_t split = split_of(c), places = c->tokens.n - split - T, bytes = 2 * n * T * TOKEN;
    uint16_t *token = malloc(bytes + 1);
    r->eval_token = r->ops->alloc(r->dev, bytes + 1);
    int rc = token && r->eval_token ? 0 : ranks_error(&r->ranks, "out of memory");
    for (size_t i = 0; i < n && rc == 0; i++) {
        size_t at = split + rng_at(0, (uint64_t)first + i) % places;
        tokens_copy(token + i * T, &c->tokens, at, T);
        tokens_copy(token + (n + i) * T, &c->tokens, at + 1, T);
    }
    if (rc == 0 && (rc = put(r, r->eval_token, token, bytes)) == 0)
        rc = ranks_check(&r->ranks, r->ops->wait(r->dev)); /* before `token` is freed */
    free(token);
    return rc;
}

/* ---- one step ------------------------------------------------------------------------------- */

/* Called after each operation. */
static void on_operation(void *arg, const char *operation)
{
    struct run *r = arg;
    profile_operation(&r->profile, operation);
    ranks_poll(&r->ranks);
    if (r->ranks.started > r->ranks.ended)
        profile_operation(&r->profile, "collectives");
}

/* Starts to reduce a bucket, while the backward pass continues with the layer below it. */
static void on_bucket(void *arg, int b)
{
    struct run *r = arg;
    const struct model_bucket *k = &r->m.bucket[b];
    if (b == 0)
        r->ops->mark(r->dev, RANKS_BACKWARD_END, 0);
    if (r->reducing)
        ranks_overlap(&r->ranks, r->opt.zero ? RANKS_SCATTER : RANKS_SUM,
                      r->m.g + k->at + k->part * (size_t)r->ranks.rank, r->m.g + k->at,
                      k->part * (size_t)r->ranks.size);
}

/* Sums r->sums over all ranks and copies them to the host. */
static int get_sums(struct run *r, float sums[SUMS])
{
    ranks_start(&r->ranks, RANKS_SUM, NULL, r->sums, SUMS, DROVER_FLOAT);
    if (ranks_wait(&r->ranks) < 0)
        return -1;
    return ranks_check(&r->ranks, r->ops->get(r->dev, sums, r->sums, SUMS * sizeof *sums));
}

/* Computes the gradient of the global batch on all ranks (with ZeRO: each rank's part), and
 * sums. */
static int gradient(struct run *r, float sums[SUMS])
{
    size_t T = (size_t)r->c->model.context, tokens = (size_t)r->share * T;
    float scale = 1 / ((float)r->c->global_batch * (float)T);
    r->ops->zero(r->dev, r->m.g, r->m.size * sizeof *r->m.g);
    r->ops->zero(r->dev, r->sums, SUMS * sizeof *r->sums);
    r->batch = loader_next(&r->loader);
    if (put(r, r->token, r->batch, 2 * tokens * TOKEN) < 0)
        return -1;
    for (int i = 0; i < r->share; i += r->micro) {
        const uint16_t *token = r->token + (size_t)i * T;
        r->reducing = i + r->micro == r->share;
        model_forward(&r->m, token, r->micro);
        model_loss(&r->m, r->sums + SUM_LOSS, token + tokens, r->micro, scale);
        model_backward(&r->m, token, r->micro);
    }
    if (ranks_wait(&r->ranks) < 0)
        return -1;
    profile_operation(&r->profile, "collectives");
    for (int b = 0; b < r->m.buckets; b++) { /* each rank sums its part, also without ZeRO */
        const struct model_bucket *k = &r->m.bucket[b];
        r->ops->squares(r->dev, r->sums + SUM_SQUARES,
                        r->m.g + k->at + k->part * (size_t)r->ranks.rank, k->part);
    }
    float requests[] = {(float)terminated,
                        r->ranks.rank == 0 && drover_should_stop(r->ranks.d) == DROVER_STOP};
    if (put(r, r->sums + SUM_TERM, requests, sizeof requests) < 0 || get_sums(r, sums) < 0)
        return -1;
    profile_operation(&r->profile, "sums");
    return 0;
}

/* Writes the step's tokens, targets, loss and gradient (README.md). */
static int dump_step(struct run *r, float loss)
{
    size_t tokens = (size_t)r->share * (size_t)r->c->model.context;
    int ok = r->ops->get(r->dev, r->opt.state, r->m.g, r->m.params * sizeof *r->opt.state) == 0 &&
             fwrite(r->batch, 2 * tokens * TOKEN, 1, r->dump) == 1 &&
             fwrite(&loss, sizeof loss, 1, r->dump) == 1 &&
             fwrite(r->opt.state, sizeof *r->opt.state, r->m.params, r->dump) == r->m.params;
    return ok ? 0 : ranks_error(&r->ranks, "--dump: cannot write the file");
}

/* Runs one step. All ranks get requests to stop in the same step, so no rank waits for a rank that
 * has exited. The gradient of such a step is not applied. Returns an enum train_end, or -1. */
static int run_step(struct run *r)
{
    const struct train_config *c = r->c;
    float sums[SUMS];
    double begin = throughput_now_s();
    int64_t done = r->step - r->first; /* the first step is the warm-up: libraries load code */
    profile_begin(&r->profile, done > 0 && done <= c->profile);
    if (gradient(r, sums) < 0)
        return -1;
    ranks_end_step(&r->ranks);
    if (sums[SUM_TERM] > 0 || sums[SUM_STOP] > 0)
        return sums[SUM_TERM] > 0 ? TRAIN_TERMINATED : TRAIN_STOPPED;
    r->loss = sums[SUM_LOSS];
    if (!isfinite(sums[SUM_LOSS]) || !isfinite(sums[SUM_SQUARES])) /* keeps the last checkpoint */
        return ranks_error(&r->ranks, "the loss is not finite (try: a smaller --lr)");
    if (r->dump && dump_step(r, r->loss) < 0)
        return -1;
    float norm = sqrtf(sums[SUM_SQUARES]);
    double factor = schedule_factor(SCHEDULE_COSINE, r->step, c->steps, c->warmup, LR_FLOOR);
    if (optimizer_update(&r->opt, c->lr * (float)factor, norm > CLIP ? CLIP / norm : 1,
                         r->step + 1) < 0)
        return -1;
    profile_operation(&r->profile, "adamw");
    profile_end(&r->profile);
    r->train_s += throughput_now_s() - begin;
    if (r->step++ == r->first)
        r->first_s = r->train_s;
    return TRAIN_DONE;
}

static int evaluate(struct run *r)
{
    size_t T = (size_t)r->c->model.context;
    float sums[SUMS], scale = 1 / ((float)EVAL_SEQUENCES * (float)T);
    r->ops->zero(r->dev, r->sums, SUMS * sizeof *r->sums);
    for (int i = 0; i < r->eval_count; i += r->m.batch) {
        int B = r->eval_count - i < r->m.batch ? r->eval_count - i : r->m.batch;
        const uint16_t *token = r->eval_token + (size_t)i * T;
        model_forward(&r->m, token, B);
        model_loss(&r->m, r->sums, token + (size_t)r->eval_count * T, B, scale);
    }
    if (get_sums(r, sums) < 0)
        return -1;
    r->val_loss = sums[SUM_LOSS];
    return 0;
}

/* ---- the training --------------------------------------------------------------------------- */

/* Returns the head of this training's checkpoints: the options that must be the same in the
 * training that resumes, or only those of the model. The precision, the number of ranks and the
 * batch may differ. */
static struct checkpoint_head describe(const struct run *r, bool all)
{
    const struct train_config *c = r->c;
    struct checkpoint_head h = {.step = r->step,
                                .bytes = OPTIMIZER_ARRAYS * r->m.params * sizeof *r->opt.state};
    checkpoint_add(&h, "layers", "%d", c->model.layers);
    checkpoint_add(&h, "channels", "%d", c->model.channels);
    checkpoint_add(&h, "heads", "%d", c->model.heads);
    checkpoint_add(&h, "context", "%d", c->model.context);
    checkpoint_add(&h, "vocabulary", "%d", c->model.vocabulary);
    if (!all)
        return h;
    checkpoint_add(&h, "global-batch", "%d", c->global_batch);
    checkpoint_add(&h, "steps", "%d", c->steps);
    checkpoint_add(&h, "warmup", "%d", c->warmup);
    checkpoint_add(&h, "seed", "%d", c->seed);
    checkpoint_add_real(&h, "lr", c->lr);
    checkpoint_add_real(&h, "decay", c->decay);
    checkpoint_add(&h, "tokens of data", "%zu", c->tokens.n);
    return h;
}

/* Hands the state to the checkpoint's thread on rank 0. */
static int save(struct run *r)
{
    struct checkpoint_head h = describe(r, true);
    char why[1024];
    if (optimizer_get(&r->opt) < 0)
        return -1;
    if (r->checkpoint && checkpoint_save(r->checkpoint, &h, r->opt.state, why, sizeof why) < 0)
        return ranks_error(&r->ranks, why);
    return 0;
}

/* Sets the state of rank 0 to initial weights, or to the checkpoint's. The other ranks read only
 * the checkpoint's head, if they see it. Returns 1, 0 if there is none, or -1 after printing an
 * error. */
static int find_state(struct run *r)
{
    const struct train_config *c = r->c;
    char why[1024] = "--eval: there is no checkpoint (try: --checkpoint DIR)";
    struct checkpoint_head h = describe(r, !c->evaluate);
    size_t bytes = h.bytes;
    void *state = NULL;
    int found = 0;
    if ((c->resume || c->evaluate) && c->checkpoint_dir)
        found = checkpoint_read(&h, r->ranks.rank == 0 ? &state : NULL, c->checkpoint_dir,
                                TRAIN_CHECKPOINT, why, sizeof why);
    if (found > 0 && h.bytes != bytes)
        found = (snprintf(why, sizeof why, "the checkpoint is of a model of another size"), -1);
    if (found < 0 || (found == 0 && c->evaluate))
        found = ranks_error(&r->ranks, why);
    if (found > 0 && state)
        memcpy(r->opt.state, state, bytes);
    else if (found == 0 && r->ranks.rank == 0)
        model_init(&r->m, (uint64_t)c->seed, r->opt.state);
    free(state);
    r->step = r->first = found > 0 ? h.step : 0;
    return found;
}

/* Finds the state and distributes it. Checks that all ranks have found the same checkpoint, or
 * none. */
static int init_state(struct run *r)
{
    const struct train_config *c = r->c;
    int found = find_state(r);
    float sums[SUMS] = {found < 0, (float)r->step};
    if (put(r, r->sums, sums, sizeof sums) < 0 || get_sums(r, sums) < 0 || sums[0] > 0)
        return -1;
    if (sums[1] != (float)r->step * (float)r->ranks.size)
        return ranks_error(&r->ranks, "ranks found different checkpoints (try: a directory that "
                                      "all nodes share)");
    if (found > 0 && r->ranks.rank == 0 && !c->quiet)
        printf("resumed after step %" PRId64 "\n", r->step);
    if (r->dump && fwrite(r->opt.state, sizeof *r->opt.state, r->m.params, r->dump) != r->m.params)
        return ranks_error(&r->ranks, "--dump: cannot write the file");
    return optimizer_put(&r->opt);
}

static bool fits(void *arg, int batch)
{
    struct run *r = arg;
    size_t used, total;
    if (model_reserve(&r->m, batch) < 0)
        return false;
    r->ops->memory(r->dev, &used, &total);
    return used < total / 10 * 9;
}

/* Chooses how many sequences are computed at once. */
static int choose_batch(struct run *r)
{
    const struct train_config *c = r->c;
    int max = c->batch_max < r->share ? c->batch_max : r->share;
    r->limits = (struct batch_limits){.min = c->batch_min, .max = max, .share = r->share};
    if (c->batch ? !fits(r, r->micro = c->batch)
                 : (r->micro = batch_auto_largest(&r->limits, fits, r)) == 0)
        return ranks_error(&r->ranks, "out of memory for activations (try: a smaller --batch or "
                                      "--batch-min, or --recompute)");
    r->limits.max = r->micro;
    const char *attention = r->ops->info(r->dev)->attention;
    if (r->ranks.rank == 0 && !c->quiet && attention[0])
        printf("attention by %s\n", attention);
    return 0;
}

/* Changes the micro-batch by what the last steps used. The global batch stays the same. */
static int adapt_batch(struct run *r)
{
    size_t used, total;
    double waited = r->ranks.waited_s + r->loader.waited_s;
    r->ops->memory(r->dev, &used, &total);
    struct batch_usage u = {
        .utilisation = 1 - (waited - r->waited_s) / (r->train_s - r->adapted_s),
        .memory = (double)used / (double)total,
    };
    r->waited_s = waited;
    r->adapted_s = r->train_s;
    int next = batch_auto_next(r->micro, &u, &r->limits);
    if (next == r->micro)
        return 0;
    r->micro = next;
    return model_reserve(&r->m, next) < 0 ? ranks_error(&r->ranks, "out of memory") : 0;
}

static int due(const struct run *r, int every)
{
    return (every > 0 && r->step % every == 0) || r->step == r->c->steps;
}

/* Reports the step, evaluates, and saves a checkpoint, each if it is due. */
static int end_step(struct run *r)
{
    const struct train_config *c = r->c;
    int evaluated = due(r, c->eval_every);
    if (evaluated && evaluate(r) < 0)
        return -1;
    if (r->ranks.rank == 0 && (evaluated || due(r, c->log_every))) {
        struct drover_metric m[] = {{"loss", (double)r->loss}, {"val_loss", (double)r->val_loss}};
        if (drover_report(r->ranks.d, r->step, m, evaluated ? 2 : 1) < 0)
            return ranks_error(&r->ranks, drover_error(r->ranks.d));
        if (!c->quiet) {
            printf("step %5" PRId64 "  loss %.6f", r->step, (double)r->loss);
            printf(evaluated ? "  val_loss %.6f\n" : "\n", (double)r->val_loss);
            fflush(stdout);
        }
    }
    if (c->checkpoint_dir && due(r, c->checkpoint_every) && save(r) < 0)
        return -1;
    return !c->batch && r->step % BATCH_AUTO_EVERY == 0 ? adapt_batch(r) : 0;
}

static void print_results(struct run *r, int end)
{
    const struct train_config *c = r->c;
    const struct model_config *m = &c->model;
    const char *source = "";
    size_t used, total;
    double peak = throughput_peak_cpu_core(&source), time = r->train_s > 0 ? r->train_s : 1;
    if (c->backend != &ops_cpu)
        peak = throughput_peak(r->ops->info(r->dev)->name, m->precision == OPS_BF16, &source);
    int64_t matrices = (int64_t)m->channels * (12LL * m->layers * m->channels + m->vocabulary);
    int64_t steps = r->step - r->first, later = steps > 1; /* without the first step */
    double rate =
        (double)(steps - later) * c->global_batch * m->context / (later ? time - r->first_s : time);
    double flops = rate * throughput_flops_per_token(matrices, m->layers, m->channels, m->context);
    char mfu[32] = "unknown";
    if (peak > 0)
        snprintf(mfu, sizeof mfu, "%.1f %%", 100 * flops / (peak * r->ranks.size));
    profile_print(&r->profile);
    if (steps > 0)
        printf("loss %.6f\nthroughput %.0f tokens/s, MFU %s (%s), %d sequence%s at once\n"
               "waiting %.1f %% for data, %.1f %% for collectives; %.1f %% of the communication is "
               "hidden\n",
               (double)r->loss, rate, mfu, source, r->micro, r->micro == 1 ? "" : "s",
               100 * r->loader.waited_s / time, 100 * r->ranks.waited_s / time,
               r->ranks.busy_ms > 0 ? 100 * r->ranks.hidden_ms / r->ranks.busy_ms : 0);
    if (end == TRAIN_DONE)
        printf("val_loss %.6f\n", (double)r->val_loss);
    r->ops->memory(r->dev, &used, &total);
    printf("memory %zu bytes of activations, %zu bytes of optimizer state, %zu bytes of the device "
           "in use\n"
           "parameters %zu bytes, gradients %zu bytes\n",
           r->m.act_bytes, optimizer_bytes(&r->opt), used, r->m.size * r->m.element,
           r->m.size * sizeof *r->m.g);
    if (end != TRAIN_DONE)
        printf("stopped on request; %s\n",
               c->checkpoint_dir ? "saved" : "not saved (try: --checkpoint)");
    printf("weights %016" PRIx64 " after step %" PRId64 "\n",
           checkpoint_hash(CHECKPOINT_HASH_INIT, r->opt.state, r->m.params * sizeof *r->opt.state),
           r->step);
}

static int run_all(struct run *r)
{
    const struct train_config *c = r->c;
    int end = TRAIN_DONE;
    char why[1024];
    if (init_state(r) < 0 || choose_batch(r) < 0)
        return -1;
    if ((c->evaluate || r->step >= c->steps) && evaluate(r) < 0)
        return -1;
    r->loader.number = r->step;
    loader_start(&r->loader);
    while (end == TRAIN_DONE && r->step < c->steps && !c->evaluate) {
        end = run_step(r);
        if (end == TRAIN_DONE && end_step(r) < 0)
            end = -1;
    }
    if (end < 0 || (end != TRAIN_DONE && c->checkpoint_dir ? save(r) : optimizer_get(&r->opt)) < 0)
        return -1;
    struct checkpoint *written = r->checkpoint;
    r->checkpoint = NULL;
    if (checkpoint_close(written, why, sizeof why) < 0)
        return ranks_error(&r->ranks, why);
    if (r->ranks.rank == 0 && !c->quiet)
        print_results(r, end);
    return end;
}

/* ---- resources ------------------------------------------------------------------------------ */

/* Gets memory for the optimizer's state, the batches and the sums. */
static int reserve(struct run *r)
{
    size_t batch = 2 * (size_t)r->share * (size_t)r->c->model.context * TOKEN;
    r->token = r->ops->alloc(r->dev, batch);
    r->sums = r->ops->alloc(r->dev, SUMS * sizeof(float));
    r->loader = (struct loader){.fill = fill_batch, .arg = r};
    for (int i = 0; i < 2; i++)
        r->loader.buffers[i] = r->ops->alloc_host(r->dev, batch);
    if (optimizer_open(&r->opt) < 0 || !r->token || !r->sums || !r->loader.buffers[0] ||
        !r->loader.buffers[1])
        return ranks_error(&r->ranks, "out of memory");
    return open_evaluation(r);
}

static int open_all(struct run *r)
{
    const struct train_config *c = r->c;
    char why[1024];
    if (model_open(&r->m, r->ranks.size) < 0)
        return ranks_error(&r->ranks, "out of memory for the parameters");
    if (ranks_open(&r->ranks, c->comm, r->m.size * sizeof(float)) < 0 || reserve(r) < 0)
        return -1;
    if (c->dump && !(r->dump = fopen(c->dump, "we")))
        return ranks_error(&r->ranks, "--dump: cannot write the file");
    if (c->checkpoint_dir && !c->evaluate && r->ranks.rank == 0 &&
        checkpoint_open(&r->checkpoint, c->checkpoint_dir, TRAIN_CHECKPOINT, why, sizeof why) < 0)
        return ranks_error(&r->ranks, why);
    return 0;
}

static void close_all(struct run *r, bool failed)
{
    char why[1024];
    loader_stop(&r->loader);
    if (checkpoint_close(r->checkpoint, why, sizeof why) < 0)
        (void)ranks_error(&r->ranks, why);
    ranks_close(&r->ranks, failed);
    if (r->dump)
        fclose(r->dump);
    optimizer_close(&r->opt);
    model_close(&r->m);
    void *blocks[] = {r->token, r->eval_token, r->sums};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        r->ops->release(r->dev, blocks[i]);
    for (int i = 0; i < 2; i++)
        r->ops->release_host(r->dev, r->loader.buffers[i]);
}

int train(const struct train_config *c, struct drover *d)
{
    const struct ops_backend *ops = c->backend;
    struct ops *dev = c->dev;
    struct run r = {.c = c, .ops = ops, .dev = dev, .profile = {.ops = ops, .dev = dev}};
    r.ranks = (struct ranks){
        .d = d, .ops = ops, .dev = dev, .rank = drover_rank(d), .size = drover_size(d)};
    r.m = (struct model){
        .c = c->model, .ops = ops, .dev = dev, .done = on_operation, .ready = on_bucket, .arg = &r};
    r.opt = (struct optimizer){
        .m = &r.m, .ranks = &r.ranks, .decay = c->decay, .zero = c->zero && r.ranks.size > 1};
    r.share = c->global_batch / r.ranks.size;
    (void)signal(SIGTERM, on_term);
    int end = open_all(&r) < 0 ? -1 : run_all(&r);
    close_all(&r, end < 0);
    return end < 0 ? 1 : end == TRAIN_TERMINATED ? 128 + SIGTERM : 0;
}

const char *train_batch(struct train_config *c, int ranks)
{
    static char why[200];
    int each = (c->batch ? c->batch : 1) * ranks;
    if (!c->batch && c->accumulate)
        return "--accumulate: --batch=auto chooses it (try: --global-batch)";
    if (!c->global_batch)
        c->global_batch = c->batch ? each * (c->accumulate ? c->accumulate : 1) : 16 * ranks;
    if (c->global_batch % each == 0 && (!c->accumulate || c->global_batch == each * c->accumulate))
        return NULL;
    snprintf(why, sizeof why,
             c->accumulate ? "--global-batch %d: not --batch * --accumulate * %d rank%s"
                           : "--global-batch %d: not a multiple of --batch * %d rank%s",
             c->global_batch, ranks, ranks == 1 ? "" : "s");
    return why;
}
