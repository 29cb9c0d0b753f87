/* gpt - trains a GPT on the bytes of a text, data-parallel, and writes text with it.
 *
 *     ./gpt                                       one process
 *     drover run -np 2 ./gpt --batch=8            two ranks, the same global batch
 *     ./gpt sample --checkpoint=DIR               text from a checkpoint
 *
 * This file reads the command line and chooses the device; train.c has the training. */
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kit/loader.h"
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

enum kind { INT, INT_OR_AUTO, REAL, TEXT, FLAG, CHOICE };

static const char *const precisions[] = {"fp32", "bf16", NULL};
static const char *const devices[] = {"cpu", "cuda", "auto", NULL};
static const char *const flags[] = {"false", "true", "0", "1", "False", "True", NULL};

#define AT(member) offsetof(struct settings, member)
static const struct row {
    const char *name, *value;
    enum kind kind;
    size_t at;
    double low, high;
    const char *const *names;
    const char *help;
} rows[] = {
    {"layers", "N", INT, AT(train.model.layers), 1, MODEL_LAYERS_MAX, NULL, "layers (2)"},
    {"channels", "N", INT, AT(train.model.channels), 16, 16384, NULL, "multiple of 16 (64)"},
    {"heads", "N", INT, AT(train.model.heads), 1, 1024, NULL, "divides the channels (4)"},
    {"context", "N", INT, AT(train.model.context), 8, 65536, NULL, "bytes per sequence (64)"},
    {"recompute", NULL, FLAG, AT(train.model.recompute), 0, 0, flags,
     "keep only each layer's input"},
    {"precision", "NAME", CHOICE, AT(train.model.precision), 0, 0, precisions,
     "fp32 or bf16 (fp32)"},
    {"batch", "N|auto", INT_OR_AUTO, AT(train.batch), 1, 65536, NULL,
     "sequences at once per rank (16)"},
    {"batch-min", "N", INT, AT(train.batch_min), 1, 65536, NULL, "limits of --batch=auto (1 …"},
    {"batch-max", "N", INT, AT(train.batch_max), 1, 65536, NULL, "… 64)"},
    {"accumulate", "N", INT, AT(train.accumulate), 1, 65536, NULL, "batches per step (1)"},
    {"global-batch", "N", INT, AT(train.global_batch), 1, 1 << 24, NULL,
     "sequences per step (batch * accumulate * ranks)"},
    {"zero", "0|1", INT, AT(train.zero), 0, 1, NULL, "1: share out the optimizer's state (0)"},
    {"steps", "N", INT, AT(train.steps), 1, 1 << 24, NULL, "steps (100)"},
    {"lr", "X", REAL, AT(train.lr), 0, 1000, NULL, "largest learning rate (0.002)"},
    {"decay", "X", REAL, AT(train.decay), 0, 100, NULL, "weight decay (0.1)"},
    {"warmup", "N", INT, AT(train.warmup), 0, 1 << 24, NULL, "steps with a rising rate (20)"},
    {"seed", "N", INT, AT(train.seed), 0, INT_MAX, NULL, "seed of all random numbers (1)"},
    {"data", "FILE", TEXT, AT(train.data), 0, 0, NULL, "a text (Paradise Lost)"},
    {"log-every", "N", INT, AT(train.log_every), 1, 1 << 24, NULL, "steps between reports (10)"},
    {"eval-every", "N", INT, AT(train.eval_every), 0, 1 << 24, NULL,
     "… between validations (0: at the end)"},
    {"eval", NULL, FLAG, AT(train.evaluate), 0, 0, flags, "only validate the checkpoint"},
    {"checkpoint", "DIR", TEXT, AT(train.checkpoint_dir), 0, 0, NULL,
     "checkpoint directory (drover's)"},
    {"checkpoint-every", "N", INT, AT(train.checkpoint_every), 1, 1 << 24, NULL,
     "steps between checkpoints (50)"},
    {"resume", NULL, FLAG, AT(train.resume), 0, 0, flags,
     "continue from the checkpoint, if there is one"},
    {"device", "NAME", CHOICE, AT(device), 0, 0, devices, "cpu, cuda or auto (auto)"},
    {"comm", "NAME", TEXT, AT(train.comm), 0, 0, NULL, "backend of the communicator (chosen)"},
    {"profile", "N", INT, AT(train.profile), 0, 1 << 24, NULL,
     "print the slowest operations of N steps (0)"},
    {"dump", "FILE", TEXT, AT(train.dump), 0, 0, NULL,
     "write weights, batches and gradients (one rank)"},
    {"quiet", NULL, FLAG, AT(train.quiet), 0, 0, flags, "print nothing"},
    {"prompt", "TEXT", TEXT, AT(prompt), 0, 0, NULL, "gpt sample: the text to continue"},
    {"length", "N", INT, AT(length), 1, 1 << 24, NULL, "gpt sample: bytes (256)"},
    {"temperature", "X", REAL, AT(temperature), 0, 100, NULL, "gpt sample: 0: the likeliest (0.8)"},
};
enum { ROWS = sizeof rows / sizeof *rows, HELP = ROWS };

static void print_usage(void)
{
    printf(
        "Usage: gpt [sample] [options]\n"
        "Trains a GPT on the bytes of a text, on all ranks, or prints text from a checkpoint.\n\n");
    for (const struct row *o = rows; o < rows + ROWS; o++) {
        char left[40];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? "=" : "",
                 o->value ? o->value : "");
        printf("  %-22s %s\n", left, o->help);
    }
}

static _Noreturn void invalid(const char *format, const char *name, const char *value)
{
    fputs("gpt: ", stderr);
    fprintf(stderr, format, name, value);
    fputs("\n  try: gpt --help\n", stderr);
    exit(2);
}

static int choice(const struct row *o, const char *value)
{
    char format[128] = "--%s '%s': expected one of";
    for (int i = 0; o->names[i]; i++) {
        if (strcmp(value, o->names[i]) == 0)
            return i;
        snprintf(format + strlen(format), sizeof format - strlen(format), " %s", o->names[i]);
    }
    invalid(format, o->name, value);
}

/* Whole numbers may be written as 64.0, as sweeps do. */
static void set(struct settings *s, const struct row *o, const char *value)
{
    void *to = (char *)s + o->at;
    char *end, format[128];
    if (o->kind == TEXT)
        *(const char **)to = value;
    else if (o->kind == FLAG)
        *(int *)to = value ? choice(o, value) & 1 : 1;
    else if (o->kind == CHOICE)
        *(int *)to = choice(o, value);
    else if (o->kind == INT_OR_AUTO && strcmp(value, "auto") == 0)
        *(int *)to = 0;
    else {
        double v = strtod(value, &end);
        if (end == value || *end || !(v >= o->low && v <= o->high) ||
            (o->kind != REAL && v != floor(v))) {
            snprintf(format, sizeof format, "--%%s '%%s': expected a %snumber from %g to %.0f",
                     o->kind == REAL ? "" : "whole ", o->low, o->high);
            invalid(format, o->name, value);
        }
        if (o->kind == REAL)
            *(float *)to = (float)v;
        else
            *(int *)to = (int)v;
    }
}

static void parse(struct settings *s, int argc, char **argv)
{
    struct option options[ROWS + 2] = {[HELP] = {"help", no_argument, NULL, HELP}};
    for (int i = 0; i < ROWS; i++)
        options[i] = (struct option){
            rows[i].name, rows[i].kind == FLAG ? optional_argument : required_argument, NULL, i};
    for (int i = 1; i < argc; i++) /* --eval_every becomes --eval-every */
        for (char *p = argv[i]; strncmp(argv[i], "--", 2) == 0 && *p && *p != '='; p++)
            *p = *p == '_' ? '-' : *p;
    int id;
    while ((id = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (id == '?')
            invalid("unknown option '%s'", argv[optind - 1], "");
        if (id == ':')
            invalid("%s needs a value", argv[optind - 1], "");
        if (id == HELP) {
            print_usage();
            exit(0);
        }
        set(s, &rows[id], optarg);
    }
    if (optind < argc)
        invalid("unexpected argument '%s'", argv[optind], "");
    const struct model_config *m = &s->train.model;
    if (m->channels % 16 || m->channels % m->heads)
        invalid("--channels: not a multiple of 16 and of --heads", "", "");
    if (s->train.batch_min > s->train.batch_max)
        invalid("--batch-min: exceeds --batch-max", "", "");
    if (s->train.evaluate && !s->train.checkpoint_dir)
        invalid("--eval: needs --checkpoint", "", "");
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
    struct settings s = {
        .train = {.model = {.layers = 2, .channels = 64, .heads = 4, .context = 64},
                  .batch = 16,
                  .batch_min = 1,
                  .batch_max = 64,
                  .steps = 100,
                  .warmup = 20,
                  .seed = 1,
                  .log_every = 10,
                  .checkpoint_every = 50,
                  .lr = 0.002f,
                  .decay = 0.1f},
        .device = 2,
        .length = 256,
        .temperature = 0.8f,
        .prompt = "\n",
    };
    int sampling = argc > 1 && strcmp(argv[1], "sample") == 0;
    parse(&s, argc - sampling, argv + sampling);
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
