/* cmd_estimate - `drover estimate`: says if a training fits into the memory of its GPUs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/byte_size.h"
#include "common/command.h"
#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/estimate/estimate.h"
#include "launcher/estimate/model_config.h"
#include "launcher/gpu/gpu_sampler.h"
#include "launcher/jobs/commands.h"
#include "launcher/jobs/history_command.h"
#include "launcher/jobs/history_jobs.h"

struct estimate_options {
    struct estimate_opts job;
    struct model_config_opts model;
    const char *gpu;
    bool flash, explain, json;
    char *const *command; /* after "--": the program whose earlier jobs count; NULL: none */
    double rough_bytes;   /* of --rough; 0: not given */
};

/* ---- options -------------------------------------------------------------------------------- */

static int set_precision(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return estimate_precision_parse(&o->job.precision, values[0], e) < 0
               ? err_wrap(e, "--precision")
               : 0;
}

static int set_optimizer(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return estimate_optimizer_parse(&o->job.optimizer, values[0], e) < 0
               ? err_wrap(e, "--optimizer")
               : 0;
}

static int set_recompute(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    o->job.recompute = strcmp(values[0], "block") == 0;
    if (!o->job.recompute && strcmp(values[0], "none") != 0)
        return err_set(e, -EINVAL, "--recompute %s: not 'none' or 'block'", values[0]);
    return 0;
}

/* batch x seq x hidden x 4 B x 1.5: a rule of thumb for fp32 activations of one layer. */
static int set_rough(void *into, char *const *values, struct err *e)
{
    static const char *const names[] = {"--rough BATCH", "--rough SEQ", "--rough HIDDEN"};
    struct estimate_options *o = into;
    double product = 4 * 1.5;
    for (int i = 0; i < 3; i++) {
        int n = 0;
        if (opt_int(&n, names[i], values[i], 1, MODEL_SHAPE_VOCAB_MAX, e) < 0)
            return e->code;
        product *= n;
    }
    o->rough_bytes = product;
    return 0;
}

static const struct opt options[] = {
    OPT_GROUP("Model"),
    OPT_STR(0, "params", "N", "number of parameters: 7B, 350M", struct estimate_options,
            model.params),
    OPT_STR(0, "model", "NAME", "a public model: gpt2, bert-base, llama-2-7b",
            struct estimate_options, model.name),
    OPT_INT(0, "layers", "N", "number of layers", struct estimate_options, model.shape.layers, 1,
            MODEL_SHAPE_LAYERS_MAX),
    OPT_INT(0, "hidden", "N", "hidden size", struct estimate_options, model.shape.hidden, 1,
            MODEL_SHAPE_WIDTH_MAX),
    OPT_INT(0, "heads", "N", "attention heads", struct estimate_options, model.shape.heads, 1,
            MODEL_SHAPE_WIDTH_MAX),
    OPT_INT(0, "kv-heads", "N", "heads of keys and values (default: --heads)",
            struct estimate_options, model.shape.kv_heads, 1, MODEL_SHAPE_WIDTH_MAX),
    OPT_INT(0, "intermediate", "N", "width of the MLP (default: 4 x --hidden)",
            struct estimate_options, model.shape.intermediate, 1, MODEL_SHAPE_WIDTH_MAX),
    OPT_FLAG(0, "gated", "the MLP has three matrices, as in Llama", struct estimate_options,
             model.shape.gated),
    OPT_INT(0, "vocab", "N", "size of the vocabulary", struct estimate_options, model.shape.vocab,
            1, MODEL_SHAPE_VOCAB_MAX),
    OPT_STR(0, "largest-layer", "N", "parameters of the largest layer (ZeRO 3)",
            struct estimate_options, model.largest_layer),
    OPT_GROUP("Training"),
    OPT_INT('b', "batch", "N", "sequences per rank at once (default: COMMAND's, or 1)",
            struct estimate_options, job.batch, 1, INT_MAX),
    OPT_INT(0, "seq", "N", "tokens per sequence (default: the model's, at most 2048)",
            struct estimate_options, job.seq, 1, INT_MAX),
    OPT_CALL(0, "precision", "fp32|bf16|fp16|fp8", "of products; 16 and 8 bit: mixed (bf16)",
             set_precision),
    OPT_FLAG(0, "no-master", "no fp32 copies of 16-bit weights and state", struct estimate_options,
             job.no_master),
    OPT_CALL(0, "optimizer", "sgd|momentum|adam|adamw|adam8bit|adafactor|lion", "(default: adamw)",
             set_optimizer),
    OPT_CALL(0, "recompute", "none|block", "activations in the backward pass (default: none)",
             set_recompute),
    OPT_FLAG(0, "flash", "attention keeps no scores (default)", struct estimate_options, flash),
    OPT_FLAG(0, "no-flash", "attention keeps its scores for the backward pass",
             struct estimate_options, job.full_attention),
    OPT_GROUP("Distribution"),
    OPT_INT('n', "np|ranks", "N", "GPUs of the job (default: --tp x --pp)", struct estimate_options,
            job.ranks, 1, INT_MAX),
    OPT_INT(0, "zero", "0|1|2|3", "ZeRO stage, 3 as FSDP (default: 0)", struct estimate_options,
            job.zero, 0, 3),
    OPT_INT(0, "tp", "N", "tensor-parallel ranks (default: 1)", struct estimate_options, job.tp, 1,
            INT_MAX),
    OPT_INT(0, "pp", "N", "stages of a pipeline (default: 1)", struct estimate_options, job.pp, 1,
            INT_MAX),
    OPT_FLAG(0, "offload", "optimizer state in host memory", struct estimate_options, job.offload),
    OPT_FLAG(0, "offload-params", "parameters in host memory, too (with --zero 3)",
             struct estimate_options, job.offload_params),
    OPT_GROUP("Output"),
    OPT_STR(0, "gpu", "SIZE", "compare with such a GPU: 80G (default: this machine's)",
            struct estimate_options, gpu),
    OPT_FLAG(0, "explain", "show the formula of each part", struct estimate_options, explain),
    OPT_FLAG(0, "json", "print JSON", struct estimate_options, json),
    OPT_CALL(0, "rough", "BATCH SEQ HIDDEN", "only batch x seq x hidden x 4 B x 1.5, a rough rule",
             set_rough),
    OPT_END,
};

/* ---- earlier jobs of the program ------------------------------------------------------------ */

/* The batch is that of --batch, else of the command, else 1. */
static int estimate_command(struct estimate *s, struct estimate_opts *job, char *const *command,
                            struct err *e)
{
    if (!command) {
        job->batch = job->batch ? job->batch : 1;
        return estimate_job(s, job, e);
    }
    AUTO(free) char *wdir = getcwd(NULL, 0);
    struct history_jobs earlier = {0};
    struct history_command c;
    history_command_read(&c, command, wdir);
    if (!job->batch)
        job->batch = c.batch > 0 && c.batch <= INT_MAX ? (int)c.batch : 1;
    int rc = estimate_job(s, job, e);
    rc = rc < 0 ? rc : history_jobs_read(&earlier, &c, e);
    if (rc == 0)
        estimate_correct(s, earlier.at, earlier.count);
    history_jobs_end(&earlier);
    history_command_end(&c);
    return rc;
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

/* A GPU with which an estimate is compared. */
struct estimate_gpu {
    char name[128];        /* "GPU 0, NVIDIA H200"; "80 GiB" */
    uint64_t usable_bytes; /* what a job may use if it is alone */
    uint64_t free_bytes;   /* now, with other processes on it; as usable_bytes if unknown */
};

/* Share of a card's nominal memory that NVML reports, at least: the driver keeps the rest. */
static const double USABLE = 0.985;

static int given_gpu(struct estimate_gpu **out, size_t *count, const char *text, struct err *e)
{
    uint64_t bytes;
    if (byte_size_parse(&bytes, text, e) < 0)
        return err_wrap(e, "--gpu");
    if (bytes < UINT64_C(1) << 20)
        return err_set(e, -EINVAL, "--gpu %s: less than 1 MiB (try: %sG)", text, text);
    struct estimate_gpu *g = xzalloc(sizeof *g);
    char size[16];
    snprintf(g->name, sizeof g->name, "GPU of %s", byte_size_format(size, sizeof size, bytes));
    g->usable_bytes = g->free_bytes = (uint64_t)((double)bytes * USABLE);
    *out = g;
    *count = 1;
    return 0;
}

/* The GPUs of this machine that report their memory. */
static int local_gpus(struct estimate_gpu **out, size_t *count, struct err *e)
{
    AUTO(free) struct gpu_sample *gpus = NULL;
    int n = 0;
    if (gpu_sampler_once(&gpus, &n, GPU_LIST, GPU_DRIVER_MS, e) < 0)
        return e->code;
    struct estimate_gpu *all = xcalloc((size_t)n + 1, sizeof *all);
    for (int i = 0; i < n; i++) {
        int64_t total = gpu_sample_value(&gpus[i], GPU_FACT_MEMORY_TOTAL, 0);
        if (total == 0)
            continue;
        struct estimate_gpu *g = &all[(*count)++];
        snprintf(g->name, sizeof g->name, "GPU %d, %s", gpus[i].gpu.index, gpus[i].gpu.name);
        g->usable_bytes = (uint64_t)total;
        g->free_bytes = (uint64_t)gpu_sample_value(&gpus[i], GPU_FACT_MEMORY_FREE, 0);
    }
    *out = all;
    return 0;
}

/* Returns the index of the smallest GPU: a job fits if it fits there. */
static size_t smallest(const struct estimate_gpu *gpus, size_t count)
{
    size_t least = 0;
    for (size_t i = 1; i < count; i++)
        if (gpus[i].usable_bytes < gpus[least].usable_bytes)
            least = i;
    return least;
}

/* ---- output --------------------------------------------------------------------------------- */

static double gib(uint64_t bytes)
{
    return (double)bytes / ESTIMATE_GIB;
}

static void print_model(struct strbuf *b, const struct model_shape *m)
{
    strbuf_printf(b, "%s%s%lld parameters", m->name, m->name[0] ? ": " : "", (long long)m->params);
    if (m->kind == MODEL_PARAMS_ONLY)
        strbuf_puts(b, "; the activations are those of usual shapes for this number");
    else
        strbuf_printf(b, ", %d layers of width %d", m->layers, m->hidden);
    strbuf_putc(b, '\n');
}

static void print_options(struct strbuf *b, const struct estimate_opts *o)
{
    strbuf_printf(b, "batch %d x %d tokens per rank, %s, %s, %s attention, %s", o->batch, o->seq,
                  estimate_precision_name(o->precision), estimate_optimizer_name(o->optimizer),
                  o->full_attention ? "full" : "flash",
                  o->recompute ? "blocks recomputed" : "no recomputation");
    if (o->no_master)
        strbuf_puts(b, ", no master weights");
    if (o->ranks > 1)
        strbuf_printf(b, ", %d ranks, ZeRO %d", o->ranks, o->zero);
    if (o->tp > 1 || o->pp > 1)
        strbuf_printf(b, ", tensor x pipeline %d x %d", o->tp, o->pp);
    if (o->offload)
        strbuf_printf(b, ", %s in host memory",
                      o->offload_params ? "parameters and optimizer" : "optimizer");
    strbuf_putc(b, '\n');
}

static void print_symbols(struct strbuf *b, const struct estimate_opts *o)
{
    const struct model_shape *m = &o->model;
    strbuf_printf(b, "P: parameters of a rank, the model's %lld", (long long)m->params);
    if (o->tp * o->pp > 1)
        strbuf_printf(b, " / %d", o->tp * o->pp);
    strbuf_printf(b, "; N: %d data-parallel ranks; b: %d sequences; s: %d tokens",
                  estimate_data_ranks(o), o->batch, o->seq);
    if (m->kind != MODEL_PARAMS_ONLY)
        strbuf_printf(b, ";\nL: %d layers; h: width %d; a: %d heads; V: %d vocabulary", m->layers,
                      m->hidden, m->heads, m->vocab);
    if (o->tp > 1)
        strbuf_printf(b, "; t: %d tensor-parallel ranks", o->tp);
    strbuf_puts(b, "\n");
}

static void print_row(struct strbuf *b, const char *name, uint64_t low, uint64_t high,
                      const char *formula)
{
    strbuf_printf(b, "  %-19s %8.2f %8.2f", name, gib(low), gib(high));
    if (formula)
        strbuf_printf(b, "  %s", formula);
    strbuf_putc(b, '\n');
}

/* Appends the model, the options and the parts; with `explain` each formula, too. */
static void print_estimate(struct strbuf *b, const struct estimate *s, bool explain)
{
    uint64_t low = 0, high = 0;
    print_model(b, &s->o.model);
    print_options(b, &s->o);
    strbuf_printf(b, "\n  %-19s %8s %8s%s\n", "GiB per rank", "from", "to",
                  explain ? "  bytes" : "");
    for (int k = 0; k < ESTIMATE_PARTS; k++) {
        const struct estimate_part *p = &s->part[k];
        low += p->low_bytes;
        high += p->high_bytes;
        if (explain || p->high_bytes)
            print_row(b, estimate_part_name(k), p->low_bytes, p->high_bytes,
                      explain ? p->formula : NULL);
    }
    print_row(b, "total", low, high, NULL);
    if (s->measured.n > 0)
        print_row(b, "corrected", s->low_bytes, s->high_bytes, s->correction);
    if (s->host_bytes)
        strbuf_printf(b, "  host memory per rank: %.2f GiB\n", gib(s->host_bytes));
    if (explain) {
        strbuf_putc(b, '\n');
        print_symbols(b, &s->o);
    }
}

static void print_gpu(struct strbuf *b, const struct estimate *s, const struct estimate_gpu *g)
{
    enum estimate_verdict alone = estimate_verdict(s, g->usable_bytes);
    strbuf_printf(b, "%s (%.1f GiB usable): %s", g->name, gib(g->usable_bytes),
                  estimate_verdict_text(alone));
    if (g->free_bytes < g->usable_bytes && estimate_verdict(s, g->free_bytes) != alone)
        strbuf_printf(b, "; now: %s, %.1f GiB are free",
                      estimate_verdict_text(estimate_verdict(s, g->free_bytes)),
                      gib(g->free_bytes));
    strbuf_putc(b, '\n');
}

static json_t *model_json(const struct model_shape *m)
{
    json_t *o =
        json_pack("{s:o, s:I}", "name", json_text(m->name), "params", (json_int_t)m->params);
    if (m->kind != MODEL_PARAMS_ONLY)
        json_object_update_new(o, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "layers", m->layers,
                                            "hidden", m->hidden, "heads", m->heads, "kv_heads",
                                            m->kv_heads, "intermediate", m->intermediate, "vocab",
                                            m->vocab));
    return o;
}

static json_t *options_json(const struct estimate_opts *o)
{
    return json_pack("{s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b}", "batch",
                     o->batch, "seq", o->seq, "precision", estimate_precision_name(o->precision),
                     "optimizer", estimate_optimizer_name(o->optimizer), "ranks", o->ranks, "zero",
                     o->zero, "tp", o->tp, "pp", o->pp, "flash", !o->full_attention, "recompute",
                     o->recompute, "master", !o->no_master, "offload", o->offload, "offload_params",
                     o->offload_params);
}

/* Returns the object of --json: docs/drover-estimate.md. */
static json_t *estimate_json(const struct estimate *s, const struct estimate_gpu *gpus,
                             size_t count, char *const *advice)
{
    json_t *parts = json_array(), *list = json_array(), *lines = json_array();
    for (int k = 0; k < ESTIMATE_PARTS; k++)
        json_array_append_new(
            parts, json_pack("{s:s, s:I, s:I, s:s}", "name", estimate_part_name(k), "low_bytes",
                             (json_int_t)s->part[k].low_bytes, "high_bytes",
                             (json_int_t)s->part[k].high_bytes, "formula", s->part[k].formula));
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:s}", "name", json_text(gpus[i].name), "usable_bytes",
                            (json_int_t)gpus[i].usable_bytes, "free_bytes",
                            (json_int_t)gpus[i].free_bytes, "verdict",
                            estimate_verdict_text(estimate_verdict(s, gpus[i].usable_bytes))));
    for (size_t i = 0; i < strv_len(advice); i++)
        json_array_append_new(lines, json_text(advice[i]));
    return json_pack("{s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:i, s:s, s:o, s:o}", "v", 1, "model",
                     model_json(&s->o.model), "options", options_json(&s->o), "parts", parts,
                     "low_bytes", (json_int_t)s->low_bytes, "high_bytes", (json_int_t)s->high_bytes,
                     "host_bytes", (json_int_t)s->host_bytes, "measured", s->measured.n,
                     "correction", s->correction, "gpus", list, "advice", lines);
}

static void print_text(const struct estimate_options *o, const struct estimate *s,
                       const struct estimate_gpu *gpus, size_t count, char *const *advice)
{
    AUTO(strbuf) struct strbuf b = {0};
    print_estimate(&b, s, o->explain);
    if (o->command && s->measured.n == 0)
        strbuf_puts(&b, "  no peak of this program with these options was measured yet\n");
    strbuf_putc(&b, '\n');
    for (size_t i = 0; i < count; i++)
        print_gpu(&b, s, &gpus[i]);
    if (count == 0)
        strbuf_puts(&b, "no GPU on this machine to compare with (try: --gpu 80G)\n");
    bool fits =
        count && estimate_verdict(s, gpus[smallest(gpus, count)].usable_bytes) == ESTIMATE_FITS;
    if (strv_len(advice) && !fits)
        strbuf_puts(&b, "what would fit, cheapest first:\n");
    for (size_t i = 0; i < strv_len(advice); i++)
        strbuf_printf(&b, "  %s\n", advice[i]);
    if (count && !fits && !strv_len(advice))
        strbuf_puts(&b, "no ZeRO stage, batch or number of ranks makes it fit (try: --tp, --pp)\n");
    fputs(strbuf_str(&b), stdout);
}

static int estimate(const struct estimate_options *o, struct err *e)
{
    struct estimate_opts job = o->job;
    struct estimate s;
    AUTO(free) struct estimate_gpu *gpus = NULL;
    size_t count = 0;
    int rc = model_config_find(&job.model, &o->model, e);
    rc = rc < 0 ? rc : estimate_command(&s, &job, o->command, e);
    rc = rc < 0 ? rc : o->gpu ? given_gpu(&gpus, &count, o->gpu, e) : local_gpus(&gpus, &count, e);
    if (rc < 0)
        return rc;
    AUTO(strv)
    char **advice = count ? estimate_advice(&s, gpus[smallest(gpus, count)].usable_bytes) : NULL;
    if (!o->json) {
        print_text(o, &s, gpus, count, advice);
        return 0;
    }
    AUTO(json) json_t *all = estimate_json(&s, gpus, count, advice);
    AUTO(free) char *line = json_line(all);
    puts(line);
    return 0;
}

static void print_rough(const struct estimate_options *o)
{
    printf("%.2f GiB: batch x seq x hidden x 4 B x 1.5\n"
           "This is a rough rule without layers, parameters and optimizer. It can be wrong by more "
           "than 10 times.\n",
           o->rough_bytes / (double)(1 << 30));
}

static int run(char **words, void *into, struct err *e)
{
    struct estimate_options *o = into;
    if (o->command && !o->command[0])
        return err_set(e, -EINVAL, "the command after '--' is missing");
    if (o->flash && o->job.full_attention)
        return err_set(e, -EINVAL, "--flash and --no-flash exclude each other");
    o->job.offload |= o->job.offload_params;
    o->model.files = words;
    if (o->rough_bytes > 0) {
        print_rough(o);
        return 0;
    }
    int rc = estimate(o, e);
    return rc == -EIO ? EXIT_STATUS_FAILED : rc < 0 ? EXIT_STATUS_USAGE : 0;
}

int cmd_estimate(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover estimate",
                 "[options] [config.json | FILE.safetensors ... | DIRECTORY] [-- COMMAND]",
                 "Estimates the GPU memory per rank that training a transformer needs, as a range, "
                 "and says if it fits and what would fit. The model is given by options, by a "
                 "Hugging Face config.json, or by safetensors files. With the COMMAND of earlier "
                 "jobs of drover run, their measured peaks correct the estimate.",
                 "drover estimate --params 7B -np 8 --zero 2 --gpu 80G\n"
                 "drover estimate config.json --batch 8 --seq 2048 --explain\n"
                 "drover estimate config.json -- python train.py --batch-size 16"},
        .options = options,
        .words_max = COMMAND_WORDS_ANY,
        COMMAND_PROGRAM(struct estimate_options, command),
        .run = run};
    struct estimate_options o = {.job = estimate_opts_default()};
    o.job.batch = 0; /* not given */
    return command_run(&command, &o, argc, argv);
}
