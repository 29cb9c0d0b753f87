/* gpt - trains a GPT on the bytes of a text, or on tokens, data-parallel, and writes text with it.
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
    ROW(INT, "context", model.context, "64", 8, 65536, "N", "tokens per sequence"),
    ROW(FLAG, "recompute", model.recompute, NULL, 0, 0, "", "keep only each layer's input"),
    ROW(CHOICE, "precision", model.precision, "fp32", 0, 0, "fp32 bf16", "arithmetic"),
    ROW(CHOICE, "deterministic", model.deterministic, "on", 0, 0, "off on",
        "same bits on each run, on a GPU, too"),
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
    ROW(TEXT, "tokens", token_file, NULL, 0, 0, "FILE",
        "instead of a text: tokens of 16 bits (nanoGPT, llm.c)"),
    ROW(INT, "vocabulary", model.vocabulary, NULL, 2, 65536, "N",
        "number of different --tokens (default: 50257)"),
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
    ROW(INT, "profile", profile, "0", 0, BIG, "N",
        "print the slowest operations of N steps, after the first"),
    ROW(TEXT, "dump", dump, NULL, 0, 0, "FILE", "write batches and gradients (one rank)"),
    ROW(FLAG, "quiet", quiet, NULL, 0, 0, "", "print nothing"),
    ROW(TEXT, "prompt", prompt, NULL, 0, 0, "TEXT", "gpt sample: the text to continue"),
    ROW(INT, "length", length, "256", 1, BIG, "N", "gpt sample: tokens"),
    ROW(REAL, "temperature", temperature, "0.8", 0, 100, "X", "gpt sample; 0: the likeliest"),
};
static const struct options options = {
    .program = "gpt",
    .usage =
        "Usage: gpt [sample] [options]\n"
        "Trains a GPT on the bytes of a text, or on tokens, on all ranks, or prints text from a "
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
    if (c->data && c->token_file)
        options_invalid(&options, "--data: excludes --tokens");
    if (c->model.vocabulary && !c->token_file)
        options_invalid(&options, "--vocabulary: needs --tokens, since a text has 256 bytes");
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

/* Returns the path of the default text: next to the program, in data/ there, or where the build has
 * made it. If there is none, returns `next`, the first of these. */
static const char *default_text(char next[PATH_MAX + 32])
{
    path_next_to_program(next, PATH_MAX + 32, "data/paradise_lost.txt");
    if (access(next, R_OK) == 0)
        return next;
    path_next_to_program(next, PATH_MAX + 32, "paradise_lost.txt");
    return access(next, R_OK) == 0 || access(GPT_DATA, R_OK) < 0 ? next : GPT_DATA;
}

/* Reads the text and completes the options. Returns 0, or 2 after printing an error. */
static int prepare(struct train_config *c, const struct drover *d)
{
    char next[PATH_MAX + 32], why[PATH_MAX + 512];
    const char *error = train_batch(c, drover_size(d)), *hint = "";
    const char *data = c->token_file ? c->token_file : c->data ? c->data : default_text(next);
    if (!error && c->dump && drover_size(d) > 1)
        error = "--dump: needs one rank";
    if (!error && tokens_open(&c->tokens, data, c->token_file ? 2 : 1, c->model.vocabulary, why,
                              sizeof why) < 0) {
        error = why;
        hint = data == next ? " (try: gunzip -k data/paradise_lost.txt.gz next to the program, or "
                              "--data=FILE for any text)"
                            : "";
    }
    if (!error && c->tokens.n < 20 * ((size_t)c->model.context + 1)) {
        snprintf(why, sizeof why, "'%s': %zu tokens are too few for --context %d", data,
                 c->tokens.n, c->model.context);
        error = why;
    }
    return error ? fprintf(stderr, "gpt: %s%s\n", error, hint), 2 : 0;
}

int main(int argc, char **argv)
{
    struct train_config c = {0};
    int sampling = argc > 1 && strcmp(argv[1], "sample") == 0;
    options_parse(&options, &c, argv + sampling);
    check(&c);
    if (!c.model.vocabulary)
        c.model.vocabulary = c.token_file ? 50257 : 256; /* GPT-2's, or all bytes */
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
    tokens_close(&c.tokens);
    drover_close(d);
    return status;
}
