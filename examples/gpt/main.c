/* gpt - trains a GPT on the bytes of a text, data-parallel, and writes text with it.
 *
 *     ./gpt                                       one process
 *     drover run -np 2 ./gpt --batch=8            two ranks, the same global batch
 *     ./gpt sample --checkpoint=DIR               text from a checkpoint
 *
 * This file reads the command line and chooses the device; train.c has the training. */
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kit/loader.h"
#include "../kit/options.h"
#include "ops_load.h"
#include "train.h"

#ifndef GPT_DATA
#define GPT_DATA "paradise_lost.txt"
#endif

struct settings {
    struct train_config train;
    int device, length;
    float temperature;
    const char *prompt;
};

#define ROW OPTIONS_ROW
#define BIG (1 << 24)
static const struct options_row rows[] = {
    ROW(INT, "layers", train.model.layers, "2", 1, MODEL_LAYERS_MAX, "N", "layers"),
    ROW(INT, "channels", train.model.channels, "64", 16, 16384, "N", "a multiple of 16"),
    ROW(INT, "heads", train.model.heads, "4", 1, 1024, "N", "divides the channels"),
    ROW(INT, "context", train.model.context, "64", 8, 65536, "N", "bytes per sequence"),
    ROW(FLAG, "recompute", train.model.recompute, NULL, 0, 0, "", "keep only each layer's input"),
    ROW(CHOICE, "precision", train.model.precision, "fp32", 0, 0, "fp32 bf16", "arithmetic"),
    ROW(INT_OR_AUTO, "batch", train.batch, "16", 1, 65536, "N|auto", "sequences at once per rank"),
    ROW(INT, "batch-min", train.batch_min, "1", 1, 65536, "N", "least --batch=auto"),
    ROW(INT, "batch-max", train.batch_max, "64", 1, 65536, "N", "largest --batch=auto"),
    ROW(INT, "accumulate", train.accumulate, NULL, 1, 65536, "N", "batches per step (default: 1)"),
    ROW(INT, "global-batch", train.global_batch, NULL, 1, BIG, "N",
        "sequences per step (default: batch * accumulate * ranks)"),
    ROW(INT, "zero", train.zero, "0", 0, 1, "0|1", "1: share out the optimizer's state"),
    ROW(INT, "steps", train.steps, "100", 1, BIG, "N", "steps"),
    ROW(REAL, "lr", train.lr, "0.002", 0, 1000, "X", "largest learning rate"),
    ROW(REAL, "decay", train.decay, "0.1", 0, 100, "X", "weight decay"),
    ROW(INT, "warmup", train.warmup, "20", 0, BIG, "N", "steps with a rising rate"),
    ROW(INT, "seed", train.seed, "1", 0, INT_MAX, "N", "seed of all random numbers"),
    ROW(TEXT, "data", train.data, NULL, 0, 0, "FILE", "a text (default: Paradise Lost)"),
    ROW(INT, "log-every", train.log_every, "10", 1, BIG, "N", "steps between reports"),
    ROW(INT, "eval-every", train.eval_every, "0", 0, BIG, "N",
        "steps between validations; 0: at the end"),
    ROW(FLAG, "eval", train.evaluate, NULL, 0, 0, "", "only validate the checkpoint"),
    ROW(TEXT, "checkpoint", train.checkpoint_dir, NULL, 0, 0, "DIR",
        "checkpoint directory (default: drover's)"),
    ROW(INT, "checkpoint-every", train.checkpoint_every, "50", 1, BIG, "N",
        "steps between checkpoints"),
    ROW(FLAG, "resume", train.resume, NULL, 0, 0, "", "continue from the checkpoint, if any"),
    ROW(CHOICE, "device", device, "auto", 0, 0, "cpu cuda auto", "where to compute"),
    ROW(TEXT, "comm", train.comm, NULL, 0, 0, "NAME",
        "backend of the communicator (default: chosen)"),
    ROW(INT, "profile", train.profile, "0", 0, BIG, "N", "print the slowest operations of N steps"),
    ROW(TEXT, "dump", train.dump, NULL, 0, 0, "FILE", "write batches and gradients (one rank)"),
    ROW(FLAG, "quiet", train.quiet, NULL, 0, 0, "", "print nothing"),
    ROW(TEXT, "prompt", prompt, NULL, 0, 0, "TEXT", "gpt sample: the text to continue"),
    ROW(INT, "length", length, "256", 1, BIG, "N", "gpt sample: bytes"),
    ROW(REAL, "temperature", temperature, "0.8", 0, 100, "X", "gpt sample; 0: the likeliest"),
};
static const struct options options = {
    .program = "gpt",
    .usage = "Usage: gpt [sample] [options]\n"
             "Trains a GPT on the bytes of a text, on all ranks, or prints text from a "
             "checkpoint.\n\n",
    .rows = rows,
    .n = sizeof rows / sizeof *rows,
};

static void check(const struct train_config *c)
{
    if (c->model.channels % 16 || c->model.channels % c->model.heads)
        options_invalid(&options, "--channels: not a multiple of 16 and of --heads");
    if (c->batch_min > c->batch_max)
        options_invalid(&options, "--batch-min: exceeds --batch-max");
    if (c->evaluate && !c->checkpoint_dir)
        options_invalid(&options, "--eval: needs --checkpoint");
}

static void path_next_to_program(char *path, size_t size, const char *name)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(path, size, "%s/%s", dirname(self), name);
}

static int choose_device(struct settings *s, const struct drover *d)
{
    enum { CPU, CUDA };
    struct train_config *c = &s->train;
    char path[PATH_MAX + 32], why[1024] = "";
    struct ops *o = NULL;
    c->backend = &ops_cpu;
    c->device = drover_local_rank(d);
    /* If there is no driver, a gigabyte of CUDA libraries is not loaded for nothing. */
    if (s->device == CPU || (s->device != CUDA && access("/dev/nvidiactl", F_OK) < 0))
        return 0;
    path_next_to_program(path, sizeof path, "gpt_cuda.so");
    const struct ops_backend *b = ops_load(path, why, sizeof why);
    /* NCCL needs one GPU per rank, and all ranks of a node must make the same choice. */
    if (b && s->device != CUDA && b->devices() < drover_local_size(d))
        return 0;
    if (b && b->open(&o, c->device, c->model.precision, why, sizeof why) == 0)
        c->backend = b;
    else if (s->device == CUDA)
        return fprintf(stderr, "gpt: --device cuda: %s\n", why), -1;
    if (o)
        b->close(o);
    return 0;
}

/* Reads the text and completes the options. Returns 0, or 2 after printing an error. */
static int prepare(struct settings *s, const struct drover *d)
{
    struct train_config *c = &s->train;
    char next[PATH_MAX + 32], why[PATH_MAX + 128];
    const char *error = train_batch(c, drover_size(d));
    path_next_to_program(next, sizeof next, "paradise_lost.txt");
    const char *data = c->data ? c->data : access(next, R_OK) == 0 ? next : GPT_DATA;
    if (!error && c->dump && drover_size(d) > 1)
        error = "--dump: needs one rank";
    if (!error && !(c->text = loader_map(data, &c->text_size, why, sizeof why)))
        error = why;
    if (!error && c->text_size < 20 * ((size_t)c->model.context + 1)) {
        snprintf(why, sizeof why, "--data %s: %zu bytes are too few for --context %d", data,
                 c->text_size, c->model.context);
        error = why;
    }
    return error ? fprintf(stderr, "gpt: %s\n", error), 2 : 0;
}

/* Returns the exit status. If SIGTERM ended the training, it is the status that a shell reports for
 * a program that SIGTERM has killed, since the training is not complete. */
static int exit_status(int end)
{
    return end < 0 ? 1 : end == TRAIN_TERMINATED ? 128 + SIGTERM : 0;
}

int main(int argc, char **argv)
{
    struct settings s = {0};
    int sampling = argc > 1 && strcmp(argv[1], "sample") == 0;
    options_parse(&options, &s, argv + sampling);
    check(&s.train);
    struct drover *d = NULL;
    if (drover_init(&d) < 0) {
        fprintf(stderr, "gpt: %s\n", drover_error(NULL));
        return 1;
    }
    if (!s.train.checkpoint_dir)
        s.train.checkpoint_dir = drover_checkpoint_dir(d);
    const char *resume = getenv("DROVER_RESUME");
    s.train.resume |= resume && strcmp(resume, "1") == 0;
    int status = sampling ? 0 : prepare(&s, d);
    if (status == 0 && choose_device(&s, d) < 0)
        status = 1;
    else if (status == 0)
        status = sampling ? -sample(&s.train, s.prompt, s.length, s.temperature)
                          : exit_status(train(&s.train, d));
    loader_unmap(s.train.text, s.train.text_size);
    drover_close(d);
    return status;
}
