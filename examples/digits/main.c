/* digits - trains a multi-layer perceptron on handwritten digits, data-parallel.
 *
 *     ./digits                                    one process
 *     drover run -np 4 ./digits --lr=0.01         four ranks
 *     drover sweep examples/digits/sweep.yaml     a search over its options
 *
 * This file reads the command line and chooses the device; train.c has the training. The program
 * needs <drover.h> and BLAS. It loads the GPU implementation only if it uses a GPU. */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kit/options.h"
#include "train.h"

#ifndef DIGITS_DATA
#define DIGITS_DATA "data/digits.csv"
#endif

struct settings {
    struct train_config train;
    int device, seed;
    const char *hidden, *data;
};

#define ROW(...) OPTIONS_ROW(struct settings, __VA_ARGS__)
static const struct options_row rows[] = {
    ROW(TEXT, "hidden", hidden, "256,256", 0, 0, "N,N,...", "units of the hidden layers"),
    ROW(CHOICE, "activation", train.mlp.activation, "relu", 0, 0, "relu tanh gelu", "activation"),
    ROW(CHOICE, "optimizer", train.mlp.optimizer, "adamw", 0, 0, "sgd momentum adam adamw",
        "optimizer"),
    ROW(REAL, "lr", train.lr, "0.003", 0, 1000, "X", "learning rate"),
    ROW(REAL, "momentum", train.mlp.momentum, "0.9", 0, 0.99999, "X", "for --optimizer=momentum"),
    ROW(REAL, "weight_decay", train.mlp.weight_decay, "0.01", 0, 100, "X", "weight decay"),
    ROW(REAL, "dropout", train.mlp.dropout, "0.2", 0, 0.99, "X", "dropped share of hidden units"),
    ROW(REAL, "label_smoothing", train.mlp.label_smoothing, "0.05", 0, 0.99, "X",
        "label smoothing"),
    ROW(INT, "batch", train.batch, "64", 1, 1 << 20, "N", "samples per step, all ranks together"),
    ROW(INT, "epochs", train.epochs, "30", 1, 1000000, "N", "passes over the training set"),
    ROW(CHOICE, "schedule", train.schedule, "cosine", 0, 0, "constant cosine", "learning rates"),
    ROW(INT, "warmup", train.warmup, "20", 0, INT_MAX, "N",
        "steps in which the learning rate rises"),
    ROW(FLAG, "augment", train.augment, NULL, 0, 0, "", "shift images by up to one pixel"),
    ROW(INT, "seed", seed, "1", 0, INT_MAX, "N", "seed of all random numbers"),
    ROW(TEXT, "checkpoint", train.checkpoint_dir, NULL, 0, 0, "DIR",
        "checkpoint directory (default: drover's)"),
    ROW(INT, "checkpoint_every", train.checkpoint_every, "5", 1, INT_MAX, "N",
        "epochs between checkpoints"),
    ROW(FLAG, "resume", train.resume, NULL, 0, 0, "",
        "continue from the checkpoint, if there is one"),
    ROW(CHOICE, "device", device, "auto", 0, 0, "cpu cuda auto", "where to compute"),
    ROW(TEXT, "comm", train.comm, NULL, 0, 0, "NAME",
        "backend of the communicator (default: chosen)"),
    ROW(TEXT, "data", data, NULL, 0, 0, "FILE", "images and labels"),
    ROW(FLAG, "quiet", train.quiet, NULL, 0, 0, "", "print nothing"),
};
static const struct options options = {
    .program = "digits",
    .usage = "Usage: digits [options]\n"
             "Trains a multi-layer perceptron on 8 x 8 images of digits, on all ranks.\n\n",
    .rows = rows,
    .n = sizeof rows / sizeof *rows,
};

/* Reads "128,64", or a sweep's list "[128, 64]". */
static void parse_hidden(struct mlp_config *c, const char *value)
{
    c->layers = 0;
    c->width[0] = DATA_PIXELS;
    for (const char *p = value + strspn(value, "["); *p && *p != ']';) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || n < 1 || n > 8192 || c->layers >= MLP_LAYERS_MAX - 1)
            options_invalid(
                &options, "--hidden '%s': expected up to 7 comma-separated numbers from 1 to 8192",
                value);
        c->width[++c->layers] = (int)n;
        p = end + strspn(end, ", ");
    }
    c->width[++c->layers] = DATA_CLASSES;
}

/* Writes the path of a file in the folder of this program. */
static void path_next_to_program(char *path, size_t size, const char *name)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(path, size, "%s/%s", dirname(self), name);
}

/* Loads the GPU implementation. It needs cuBLAS, which drover also finds in folders that the loader
 * does not search. Returns NULL on failure, with the error in `why`. */
static const struct mlp_backend *load_cuda(char *why, size_t why_size)
{
    char path[PATH_MAX + 32], missing[64], error[900];
    path_next_to_program(path, sizeof path, "mlp_cuda.so");
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    snprintf(error, sizeof error, "%s", lib ? "no " MLP_CUDA_SYMBOL : dlerror());
    if (!lib && sscanf(error, "%63[^:/]: cannot open", missing) == 1) {
        if (drover_cuda_library(missing))
            lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        else
            snprintf(error, sizeof error, "%s", drover_error(NULL));
    }
    const struct mlp_backend *b = lib ? dlsym(lib, MLP_CUDA_SYMBOL) : NULL;
    if (!b)
        snprintf(why, why_size, "built without CUDA, or not found: %s", error);
    return b;
}

/* Returns 1 if a small network can be opened on the device, otherwise 0 with the error in `why`. */
static int device_works(const struct mlp_backend *b, int device, char *why, size_t why_size)
{
    struct mlp_config c = {.layers = 1, .width = {1, 1}, .batch_max = 1, .device = device};
    struct mlp *m = NULL;
    if (b->open(&m, &c, why, why_size) < 0)
        return 0;
    b->close(m);
    return 1;
}

static int choose_device(struct train_config *c, int requested, const struct drover *d)
{
    char why[1024] = "";
    enum { CPU, CUDA, AUTO };
    c->backend = &mlp_cpu;
    c->mlp.device = drover_local_rank(d);
    /* If there is no driver, a gigabyte of CUDA libraries is not loaded for nothing. */
    if (requested == CPU || (requested == AUTO && access("/dev/nvidiactl", F_OK) < 0))
        return 0;
    const struct mlp_backend *b = load_cuda(why, sizeof why);
    /* NCCL needs one GPU per rank, and all ranks of a node must make the same choice. */
    if (b && requested == AUTO && b->devices() < drover_local_size(d))
        return 0;
    if (b && device_works(b, c->mlp.device, why, sizeof why))
        c->backend = b;
    else if (requested == CUDA)
        return fprintf(stderr, "digits: --device cuda: %s\n", why), -1;
    return 0;
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
    options_parse(&options, &s, argv);
    parse_hidden(&s.train.mlp, s.hidden);
    s.train.mlp.seed = (uint64_t)s.seed;
    char data[PATH_MAX + 32];
    path_next_to_program(data, sizeof data, "data/digits.csv");
    if (!s.data)
        s.data = access(data, R_OK) == 0 ? data : DIGITS_DATA;
    struct drover *d = NULL;
    if (drover_init(&d) < 0) {
        fprintf(stderr, "digits: %s\n", drover_error(NULL));
        return 1;
    }
    if (!s.train.checkpoint_dir)
        s.train.checkpoint_dir = drover_checkpoint_dir(d);
    const char *resume = getenv("DROVER_RESUME");
    s.train.resume |= resume && strcmp(resume, "1") == 0;
    struct data train_set = {0}, test_set = {0};
    char why[1024];
    int status = 1;
    if (data_read(&train_set, &test_set, s.data, why, sizeof why) < 0) {
        fprintf(stderr, "digits: %s\n", why);
        status = 2;
    } else if (choose_device(&s.train, s.device, d) == 0) {
        status = exit_status(train(&s.train, d, &train_set, &test_set));
    }
    data_free(&train_set);
    data_free(&test_set);
    drover_close(d);
    return status;
}
