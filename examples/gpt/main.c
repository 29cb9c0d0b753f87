/* gpt - trains a GPT on the bytes of a text, data-parallel, and writes text with it.
 *
 *     ./gpt                                       one process
 *     drover run -np 2 ./gpt --batch=8            two ranks, the same global batch
 *     ./gpt sample --checkpoint=DIR               text from a checkpoint
 *
 * This file reads the command line and chooses the device; train.c has the training. */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kit/loader.h"
#include "../kit/options.h"
#include "train.h"

#ifndef GPT_DATA
#define GPT_DATA "paradise_lost.txt"
#endif

#define ROW(...) OPTIONS_ROW(struct train_config, __VA_ARGS__)
#define BIG (1 << 24)
static const struct options_row rows[] = {
    ROW(INT, "layers", model.layers, "2", 1, MODEL_LAYERS_MAX, "N", "layers"),
    ROW(INT, "channels", model.channels, "64", 16, 16384, "N", "a multiple of 16"),
    ROW(INT, "heads", model.heads, "4", 1, 1024, "N", "divides the channels"),
    ROW(INT, "context", model.context, "64", 8, 65536, "N", "bytes per sequence"),
    ROW(FLAG, "recompute", model.recompute, NULL, 0, 0, "", "keep only each layer's input"),
    ROW(CHOICE, "precision", model.precision, "fp32", 0, 0, "fp32 bf16", "arithmetic"),
    ROW(INT_OR_AUTO, "batch", batch, "16", 1, 65536, "N|auto", "sequences at once per rank"),
    ROW(INT, "batch-min", batch_min, "1", 1, 65536, "N", "least --batch=auto"),
    ROW(INT, "batch-max", batch_max, "64", 1, 65536, "N", "largest --batch=auto"),
    ROW(INT, "accumulate", accumulate, NULL, 1, 65536, "N", "batches per step (default: 1)"),
    ROW(INT, "global-batch", global_batch, NULL, 1, BIG, "N",
        "sequences per step (default: batch * accumulate * ranks)"),
    ROW(INT, "zero", zero, "0", 0, 1, "0|1", "1: share out the optimizer's state"),
    ROW(INT, "steps", steps, "100", 1, BIG, "N", "steps"),
    ROW(REAL, "lr", lr, "0.002", 0, 1000, "X", "largest learning rate"),
    ROW(REAL, "decay", decay, "0.1", 0, 100, "X", "weight decay"),
    ROW(INT, "warmup", warmup, "20", 0, BIG, "N", "steps with a rising rate"),
    ROW(INT, "seed", seed, "1", 0, INT_MAX, "N", "seed of all random numbers"),
    ROW(TEXT, "data", data, NULL, 0, 0, "FILE", "a text (default: Paradise Lost)"),
    ROW(INT, "log-every", log_every, "10", 1, BIG, "N", "steps between reports"),
    ROW(INT, "eval-every", eval_every, "0", 0, BIG, "N",
        "steps between validations; 0: at the end"),
    ROW(FLAG, "eval", evaluate, NULL, 0, 0, "", "only validate the checkpoint"),
    ROW(TEXT, "checkpoint", checkpoint_dir, NULL, 0, 0, "DIR",
        "checkpoint directory (default: drover's)"),
    ROW(INT, "checkpoint-every", checkpoint_every, "50", 1, BIG, "N", "steps between checkpoints"),
    ROW(FLAG, "resume", resume, NULL, 0, 0, "", "continue from the checkpoint, if any"),
    ROW(CHOICE, "device", device, "auto", 0, 0, "cpu cuda auto", "where to compute"),
    ROW(TEXT, "comm", comm, NULL, 0, 0, "NAME", "backend of the communicator (default: chosen)"),
    ROW(INT, "profile", profile, "0", 0, BIG, "N", "print the slowest operations of N steps"),
    ROW(TEXT, "dump", dump, NULL, 0, 0, "FILE", "write batches and gradients (one rank)"),
    ROW(FLAG, "quiet", quiet, NULL, 0, 0, "", "print nothing"),
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

/* Opens the device. Returns 0, or 1 after printing an error. */
static int open_device(struct train_config *c, const struct drover *d)
{
    enum { CPU, CUDA };
    char path[PATH_MAX + 32], why[1024];
    const struct ops_backend *b = NULL;
    path_next_to_program(path, sizeof path, "gpt_cuda.so");
    /* If there is no driver, a gigabyte of CUDA libraries is not loaded for nothing. */
    if (c->device == CUDA || (c->device != CPU && access("/dev/nvidiactl", F_OK) == 0))
        b = ops_load(path, why, sizeof why);
    if (b && b->open(&c->dev, drover_local_rank(d), c->model.precision, why, sizeof why) == 0) {
        c->backend = b;
        /* NCCL needs one GPU per rank, and all ranks of a node must make the same choice. */
        if (c->device == CUDA || b->info(c->dev)->devices >= drover_local_size(d))
            return 0;
        b->close(c->dev);
        c->dev = NULL;
    }
    c->backend = &ops_cpu;
    if (c->device != CUDA && ops_cpu.open(&c->dev, 0, c->model.precision, why, sizeof why) == 0)
        return 0;
    fprintf(stderr, "gpt: %s%s\n", c->device == CUDA ? "--device cuda: " : "", why);
    return 1;
}

/* Reads the text and completes the options. Returns 0, or 2 after printing an error. */
static int prepare(struct train_config *c, const struct drover *d)
{
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

int main(int argc, char **argv)
{
    struct train_config c = {0};
    int sampling = argc > 1 && strcmp(argv[1], "sample") == 0;
    options_parse(&options, &c, argv + sampling);
    check(&c);
    if (sampling)
        c.model.precision = OPS_FP32;
    struct drover *d = NULL;
    if (drover_init(&d) < 0) {
        fprintf(stderr, "gpt: %s\n", drover_error(NULL));
        return 1;
    }
    if (!c.checkpoint_dir)
        c.checkpoint_dir = drover_checkpoint_dir(d);
    const char *resume = getenv("DROVER_RESUME");
    c.resume |= resume && strcmp(resume, "1") == 0;
    int status = sampling ? 0 : prepare(&c, d);
    if (status == 0)
        status = open_device(&c, d);
    if (status == 0)
        status = sampling ? sample(&c) : train(&c, d);
    if (c.dev)
        c.backend->close(c.dev);
    loader_unmap(c.text, c.text_size);
    drover_close(d);
    return status;
}
