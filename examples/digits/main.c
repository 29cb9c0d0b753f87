/* digits - trains a multi-layer perceptron on handwritten digits, data-parallel.
 *
 *     ./digits                                    one process
 *     drover run -np 4 ./digits --lr=0.01         four ranks
 *     drover sweep examples/digits/sweep.yaml     a search over its options
 *
 * This file reads the command line and chooses the device; train.c has the training. The program
 * needs <drover.h> and BLAS. It loads the GPU implementation only if it uses a GPU. */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train.h"

#ifndef DIGITS_DATA
#define DIGITS_DATA "data/digits.csv"
#endif

static const char usage[] =
    "Usage: digits [options]\n"
    "Trains a multi-layer perceptron on 8 x 8 images of digits, on all ranks.\n\n"
    "  --hidden=N,N,...        units of the hidden layers (default: 256,256)\n"
    "  --activation=NAME       relu, tanh or gelu (default: relu)\n"
    "  --optimizer=NAME        sgd, momentum, adam or adamw (default: adamw)\n"
    "  --lr=X                  learning rate (default: 0.003)\n"
    "  --momentum=X            for --optimizer=momentum (default: 0.9)\n"
    "  --weight_decay=X        weight decay (default: 0.01)\n"
    "  --dropout=X             dropped share of hidden units (default: 0.2)\n"
    "  --label_smoothing=X     label smoothing (default: 0.05)\n"
    "  --batch=N               samples per step, all ranks together (default: 64)\n"
    "  --epochs=N              passes over the training set (default: 30)\n"
    "  --schedule=NAME         constant or cosine (default: cosine)\n"
    "  --warmup=N              steps in which the learning rate rises (default: 20)\n"
    "  --augment=BOOL          shift images by up to one pixel (default: false)\n"
    "  --seed=N                seed of all random numbers (default: 1)\n"
    "  --checkpoint=DIR        checkpoint directory (default: drover's)\n"
    "  --checkpoint_every=N    epochs between checkpoints (default: 5)\n"
    "  --resume                continue from the checkpoint, if there is one\n"
    "  --device=NAME           cpu, cuda, or auto (default: auto)\n"
    "  --comm=NAME             backend of the communicator (default: chosen)\n"
    "  --data=FILE             images and labels\n"
    "  --quiet                 print nothing\n"
    "Underscores in option names may be written as dashes.\n";

static _Noreturn void invalid_value(const char *name, const char *value, const char *expected)
{
    fprintf(stderr, "digits: --%s '%s': %s\n", name, value, expected);
    exit(2);
}

/* Returns the index of `value` in the NULL-terminated list of names. Exits if it is not in the
 * list. */
static int choice(const char *name, const char *value, const char *const *names)
{
    char expected[256] = "expected one of";
    for (int i = 0; names[i]; i++) {
        if (strcmp(value, names[i]) == 0)
            return i;
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), " %s", names[i]);
    }
    invalid_value(name, value, expected);
}

static float parse_float(const char *name, const char *value, double low, double high)
{
    char *end, expected[96];
    double v = strtod(value, &end);
    if (end == value || *end || !(v >= low && v <= high)) {
        snprintf(expected, sizeof expected, "expected a number from %g to %g", low, high);
        invalid_value(name, value, expected);
    }
    return (float)v;
}

/* Also accepts 64.0, since sweeps may write whole numbers this way. */
static int parse_int(const char *name, const char *value, int low, int high)
{
    char expected[96], *end;
    double v = strtod(value, &end);
    if (end == value || *end || v != floor(v) || v < low || v > high) {
        snprintf(expected, sizeof expected, "expected a whole number from %d to %d", low, high);
        invalid_value(name, value, expected);
    }
    return (int)v;
}

/* Reads "128,64", or a sweep's list "[128, 64]". */
static void parse_hidden(struct mlp_config *c, const char *value)
{
    c->layers = 0;
    c->width[0] = DATA_PIXELS;
    for (const char *p = value + strspn(value, "["); *p && *p != ']';) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || n < 1 || n > 8192 || c->layers >= MLP_LAYERS_MAX - 1)
            invalid_value("hidden", value,
                          "expected up to 7 comma-separated numbers from 1 to 8192");
        c->width[++c->layers] = (int)n;
        p = end + strspn(end, ", ");
    }
    c->width[++c->layers] = DATA_CLASSES;
}

static int parse_bool(const char *name, const char *value)
{
    static const char *const names[] = {"false", "true", "0", "1", "False", "True", NULL};
    return value ? choice(name, value, names) & 1 : 1;
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

static int choose_device(struct train_config *c, const char *device, const struct drover *d)
{
    static const char *const names[] = {"cpu", "cuda", "auto", NULL};
    char why[1024] = "";
    enum { CPU, CUDA, AUTO };
    int requested = choice("device", device, names);
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

enum option_id {
    HIDDEN = 256,
    ACTIVATION,
    OPTIMIZER,
    LR,
    MOMENTUM,
    WEIGHT_DECAY,
    DROPOUT,
    LABEL_SMOOTHING,
    BATCH,
    EPOCHS,
    SCHEDULE,
    WARMUP,
    AUGMENT,
    SEED,
    CHECKPOINT,
    CHECKPOINT_EVERY,
    RESUME,
    DEVICE,
    COMM,
    DATA,
    QUIET,
    HELP
};

static const struct option options[] = {
    {"hidden", required_argument, NULL, HIDDEN},
    {"activation", required_argument, NULL, ACTIVATION},
    {"optimizer", required_argument, NULL, OPTIMIZER},
    {"lr", required_argument, NULL, LR},
    {"momentum", required_argument, NULL, MOMENTUM},
    {"weight_decay", required_argument, NULL, WEIGHT_DECAY},
    {"dropout", required_argument, NULL, DROPOUT},
    {"label_smoothing", required_argument, NULL, LABEL_SMOOTHING},
    {"batch", required_argument, NULL, BATCH},
    {"epochs", required_argument, NULL, EPOCHS},
    {"schedule", required_argument, NULL, SCHEDULE},
    {"warmup", required_argument, NULL, WARMUP},
    {"augment", optional_argument, NULL, AUGMENT},
    {"seed", required_argument, NULL, SEED},
    {"checkpoint", required_argument, NULL, CHECKPOINT},
    {"checkpoint_every", required_argument, NULL, CHECKPOINT_EVERY},
    {"resume", optional_argument, NULL, RESUME},
    {"device", required_argument, NULL, DEVICE},
    {"comm", required_argument, NULL, COMM},
    {"data", required_argument, NULL, DATA},
    {"quiet", optional_argument, NULL, QUIET},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

struct settings {
    struct train_config train;
    const char *data, *device;
};

static void set_model(struct settings *s, int id, const char *name, const char *value)
{
    static const char *const activations[] = {"relu", "tanh", "gelu", NULL};
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw", NULL};
    struct mlp_config *m = &s->train.mlp;
    if (id == HIDDEN)
        parse_hidden(m, value);
    else if (id == ACTIVATION)
        m->activation = (enum mlp_activation)choice(name, value, activations);
    else if (id == OPTIMIZER)
        m->optimizer = (enum mlp_optimizer)choice(name, value, optimizers);
    else if (id == MOMENTUM)
        m->momentum = parse_float(name, value, 0, 0.99999);
    else if (id == WEIGHT_DECAY)
        m->weight_decay = parse_float(name, value, 0, 100);
    else if (id == DROPOUT)
        m->dropout = parse_float(name, value, 0, 0.99);
    else if (id == LABEL_SMOOTHING)
        m->label_smoothing = parse_float(name, value, 0, 0.99);
    else if (id == SEED)
        m->seed = (uint64_t)parse_int(name, value, 0, INT_MAX);
}

static void set_option(struct settings *s, int id, const char *name, const char *value)
{
    static const char *const schedules[] = {"constant", "cosine", NULL};
    struct train_config *t = &s->train;
    if (id == LR)
        t->lr = parse_float(name, value, 0, 1000);
    else if (id == BATCH)
        t->batch = parse_int(name, value, 1, 1 << 20);
    else if (id == EPOCHS)
        t->epochs = parse_int(name, value, 1, 1000000);
    else if (id == SCHEDULE)
        t->schedule = (enum schedule)choice(name, value, schedules);
    else if (id == WARMUP)
        t->warmup = parse_int(name, value, 0, INT_MAX);
    else if (id == AUGMENT)
        t->augment = parse_bool(name, value);
    else if (id == CHECKPOINT)
        t->checkpoint_dir = value;
    else if (id == CHECKPOINT_EVERY)
        t->checkpoint_every = parse_int(name, value, 1, INT_MAX);
    else if (id == RESUME)
        t->resume = parse_bool(name, value);
    else if (id == DEVICE)
        s->device = value;
    else if (id == COMM)
        t->comm = value;
    else if (id == DATA)
        s->data = value;
    else if (id == QUIET)
        t->quiet = parse_bool(name, value);
    else
        set_model(s, id, name, value);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the number of letters to insert, delete or change that turns a into b (Levenshtein
 * distance). */
static size_t distance(const char *a, const char *b)
{
    enum { LETTERS = 31 };
    size_t row[LETTERS + 1], n = smaller(strlen(b), LETTERS);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(change, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[n];
}

/* Reports an unknown option, suggests the nearest one, and exits. */
static _Noreturn void unknown_option(const char *word)
{
    char name[64];
    snprintf(name, sizeof name, "%s", word + strspn(word, "-"));
    name[strcspn(name, "=")] = '\0';
    const struct option *best = options;
    for (const struct option *o = options; o->name; o++)
        if (distance(name, o->name) < distance(name, best->name))
            best = o;
    fprintf(stderr, "digits: unknown option '--%s'\n  try: --%s\n", name, best->name);
    exit(2);
}

static void parse(struct settings *s, int argc, char **argv)
{
    int index = 0, id;
    for (int i = 1; i < argc; i++) /* --weight-decay becomes --weight_decay */
        for (char *p = argv[i] + (strncmp(argv[i], "--", 2) == 0 ? 2 : strlen(argv[i]));
             *p && *p != '='; p++)
            *p = *p == '-' ? '_' : *p;
    while ((id = getopt_long(argc, argv, ":", options, &index)) != -1) {
        if (id == HELP) {
            fputs(usage, stdout);
            exit(0);
        }
        if (id == '?')
            unknown_option(argv[optind - 1]);
        if (id == ':') {
            fprintf(stderr, "digits: %s needs a value\n  try: digits --help\n", argv[optind - 1]);
            exit(2);
        }
        set_option(s, id, options[index].name, optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "digits: unexpected argument '%s'\n  try: digits --help\n", argv[optind]);
        exit(2);
    }
}

/* Returns the exit status. If SIGTERM ended the training, it is the status that a shell reports for
 * a program that SIGTERM has killed, since the training is not complete. */
static int exit_status(int end)
{
    return end < 0 ? 1 : end == TRAIN_TERMINATED ? 128 + SIGTERM : 0;
}

int main(int argc, char **argv)
{
    struct settings s = {
        .train = {.mlp = {.optimizer = MLP_ADAMW,
                          .momentum = 0.9f,
                          .weight_decay = 0.01f,
                          .dropout = 0.2f,
                          .label_smoothing = 0.05f,
                          .seed = 1},
                  .batch = 64,
                  .epochs = 30,
                  .warmup = 20,
                  .lr = 0.003f,
                  .schedule = SCHEDULE_COSINE,
                  .checkpoint_every = 5},
        .data = DIGITS_DATA,
        .device = "auto",
    };
    char data[PATH_MAX + 32];
    path_next_to_program(data, sizeof data, "data/digits.csv");
    if (access(data, R_OK) == 0)
        s.data = data;
    parse_hidden(&s.train.mlp, "256,256");
    parse(&s, argc, argv);
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
    if (data_read(&train_set, &test_set, s.data, why, sizeof why) < 0)
        fprintf(stderr, "digits: %s\n", why);
    else if (choose_device(&s.train, s.device, d) == 0)
        status = exit_status(train(&s.train, d, &train_set, &test_set));
    data_free(&train_set);
    data_free(&test_set);
    drover_close(d);
    return status;
}
