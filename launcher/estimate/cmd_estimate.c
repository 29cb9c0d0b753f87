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
#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/estimate/estimate.h"
#include "launcher/estimate/gpu_names.h"
#include "launcher/estimate/model_config.h"
#include "launcher/gpu/gpu_sampler.h"
#include "launcher/jobs/commands.h"
#include "launcher/jobs/history_command.h"
#include "launcher/jobs/history_jobs.h"

struct estimate_options {
    struct estimate_opts job;
    struct model_config_opts model;
    const char *gpu, *host_memory;
    bool explain, json;
    char *const *command; /* after "--": the program whose earlier jobs count; NULL: none */
    double rough_bytes;   /* of --rough; 0: not given */
};

/* ---- options -------------------------------------------------------------------------------- */

static int set_precision(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return estimate_precision_parse(&o->job.precision, values[0], e);
}

static int set_optimizer(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return estimate_optim_parse(&o->job, values[0], e);
}

static int set_recompute(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return estimate_recompute_parse(&o->job, values[0], e);
}

/* The later one of --flash and --no-flash counts, as with every other option. */
static int set_flash(void *into, char *const *values, struct err *e)
{
    (void)values, (void)e;
    ((struct estimate_options *)into)->job.full_attention = false;
    return 0;
}

static int set_loss(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return estimate_loss_parse(&o->job.loss, values[0], e);
}

static int set_targets(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return estimate_lora_parse(&o->job.lora_targets, values[0], e);
}

static int set_trainable(void *into, char *const *values, struct err *e)
{
    struct estimate_options *o = into;
    return model_shape_parse_params(&o->job.trainable, values[0], e);
}

/* batch x seq x hidden x 4 B x 1.5: a rule of thumb for fp32 activations of one layer. */
static int set_rough(void *into, char *const *values, struct err *e)
{
    static const char *const names[] = {"BATCH", "SEQ", "HIDDEN"};
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
    OPT_LAST_COUNTS,
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
    OPT_CALL(0, "optimizer", "sgd|momentum|adam|adamw|adam8bit|adafactor|lion",
             "or as Transformers: paged_adamw_8bit (default: adamw)", set_optimizer),
    OPT_CALL(0, "loss", "eager|chunked|fused", "how the loss is computed (default: eager)",
             set_loss),
    OPT_INT(0, "accumulate", "N", "micro-batches per step (default: unknown)",
            struct estimate_options, job.accumulate, 1, 1 << 20),
    OPT_FLAG(0, "step-in-backward", "the optimizer steps in the backward pass",
             struct estimate_options, job.fused_step),
    OPT_CALL(0, "recompute", "none|selective|block",
             "activations in the backward pass (default: none)", set_recompute),
    OPT_CALL(0, "flash", NULL, "attention keeps no scores (default)", set_flash),
    OPT_FLAG(0, "no-flash", "attention keeps its scores for the backward pass",
             struct estimate_options, job.full_attention),
    OPT_GROUP("Fine-tuning"),
    OPT_INT(0, "lora", "RANK", "train adapters of this rank; the model is frozen",
            struct estimate_options, job.lora_rank, 1, 1 << 14),
    OPT_CALL(0, "lora-targets", "LIST", "q,k,v,o,gate,up,down, attention, mlp (default: all)",
             set_targets),
    OPT_FLAG(0, "qlora", "frozen weights in 4 bit (default rank: 16)", struct estimate_options,
             job.four_bit),
    OPT_CALL(0, "trainable", "N", "parameters that are trained; the others are frozen",
             set_trainable),
    OPT_GROUP("Distribution"),
    OPT_INT('n', "np|ranks", "N", "GPUs of the job (default: --tp x --pp)", struct estimate_options,
            job.ranks, 1, INT_MAX),
    OPT_INT(0, "zero", "0|1|2|3", "ZeRO stage, 3 as FSDP (default: 0)", struct estimate_options,
            job.zero, 0, 3),
    OPT_INT(0, "tp", "N", "tensor-parallel ranks (default: 1)", struct estimate_options, job.tp, 1,
            INT_MAX),
    OPT_INT(0, "pp", "N", "stages of a pipeline (default: 1)", struct estimate_options, job.pp, 1,
            INT_MAX),
    OPT_INT(0, "cp", "N", "context-parallel ranks (default: 1)", struct estimate_options, job.cp, 1,
            1 << 10),
    OPT_INT(0, "ep", "N", "expert-parallel ranks (default: 1)", struct estimate_options, job.ep, 1,
            1 << 10),
    OPT_FLAG(0, "offload", "optimizer state in host memory", struct estimate_options, job.offload),
    OPT_FLAG(0, "offload-params", "parameters in host memory, too (with --zero 3)",
             struct estimate_options, job.offload_params),
    OPT_GROUP("Output"),
    OPT_STR(0, "gpu", "GPU", "compare with 80G, H100, 8xH100 (default: this machine's)",
            struct estimate_options, gpu),
    OPT_STR(0, "host-memory", "SIZE", "of a node; advice does not exceed it",
            struct estimate_options, host_memory),
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

/* Reads a size or a name, perhaps with a number: "80G", "H100", "8xH100". `ranks`: that number, if
 * the user gave none. */
static int given_gpu(struct estimate_gpu **out, size_t *count, const char *text, int *ranks,
                     struct err *e)
{
    uint64_t bytes;
    int number = 0;
    char size[16];
    const char *name = gpu_names_find(text, &bytes, &number);
    if (!name && (byte_size_parse(&bytes, text, e) < 0 || bytes == 0)) {
        const char *near = gpu_names_near(text);
        err_set(e, -EINVAL, "--gpu: '%s' is neither a size nor a known GPU", text);
        return err_hint(e, "--gpu 80G, or a name: --gpu %s", near ? near : "H100");
    }
    if (bytes < UINT64_C(1) << 20)
        return err_set(e, -EINVAL, "--gpu %s: less than 1 MiB (try: %sG)", text, text);
    struct estimate_gpu *g = xzalloc(sizeof *g);
    byte_size_format(size, sizeof size, bytes);
    snprintf(g->name, sizeof g->name, "%s%s", name ? "" : "GPU of ", name ? name : size);
    g->usable_bytes = g->free_bytes = (uint64_t)((double)bytes * (name ? 1 : USABLE));
    *ranks = *ranks ? *ranks : number;
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

/* Host memory for each rank of a node: of --host-memory, or of this machine if its GPUs are
 * compared; 0: unknown. A node has `per_node` ranks at most. */
static int host_share(uint64_t *out, const struct estimate_options *o, int per_node, struct err *e)
{
    uint64_t bytes =
        o->gpu ? 0 : (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (o->host_memory && byte_size_parse(&bytes, o->host_memory, e) < 0)
        return err_wrap(e, "--host-memory");
    *out = bytes / (uint64_t)(per_node > 0 ? per_node : 1);
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

/* Writes a number with three digits and its power of 1000: "8.03B"; "7B", if it is just that. */
static void print_count(struct strbuf *b, int64_t n)
{
    static const char units[] = {' ', 'K', 'M', 'B', 'T'};
    double value = (double)n;
    int unit = 0;
    for (; value >= 999.5 && unit < 4; unit++)
        value /= 1000;
    strbuf_printf(b, "%.3g", value);
    if (unit > 0)
        strbuf_putc(b, units[unit]);
}

static void print_model(struct strbuf *b, const struct model_shape *m)
{
    strbuf_printf(b, "%s%s%s", m->name, m->name[0] ? ": " : "", m->approximate ? "about " : "");
    print_count(b, m->params);
    strbuf_printf(b, " parameter%s", plural_s(m->params));
    if (m->stored_bytes > 0)
        strbuf_printf(b, " stored in %.3g bits%s", 8 * m->stored_bytes,
                      m->stored_layers ? " in the layers" : "");
    if (m->kind == MODEL_PARAMS_ONLY)
        strbuf_puts(b, "; the activations are those of usual shapes for this number");
    else
        strbuf_printf(b, ", %d layer%s of width %d", m->layers, plural_s(m->layers), m->hidden);
    if (m->experts)
        strbuf_printf(b, ", %d of %d experts per token", m->experts_per_token, m->experts);
    strbuf_putc(b, '\n');
}

static void print_options(struct strbuf *b, const struct estimate_opts *o)
{
    strbuf_printf(b, "batch %d x %d token%s per rank, %s, %s, %s attention, %s", o->batch, o->seq,
                  plural_s(o->seq), estimate_precision_name(o->precision),
                  estimate_optimizer_name(o->optimizer), o->full_attention ? "full" : "flash",
                  o->recompute   ? "blocks recomputed"
                  : o->selective ? "attention recomputed"
                                 : "no recomputation");
    if (o->loss != ESTIMATE_LOSS_EAGER)
        strbuf_printf(b, ", %s loss", estimate_loss_name(o->loss));
    if (o->lora_rank)
        strbuf_printf(b, ", %s of rank %d", o->four_bit ? "QLoRA" : "LoRA", o->lora_rank);
    if (o->accumulate)
        strbuf_printf(b, ", %d micro-batch%s", o->accumulate, o->accumulate == 1 ? "" : "es");
    if (o->no_master)
        strbuf_puts(b, ", no master weights");
    if (o->ranks > 1)
        strbuf_printf(b, ", %d ranks, ZeRO %d", o->ranks, o->zero);
    if (o->tp > 1 || o->pp > 1)
        strbuf_printf(b, ", tensor x pipeline %d x %d", o->tp, o->pp);
    if (o->cp > 1 || o->ep > 1)
        strbuf_printf(b, ", context and experts %d and %d", o->cp, o->ep);
    if (o->offload)
        strbuf_printf(b, ", %s in host memory",
                      o->offload_params ? "parameters and optimizer" : "optimizer");
    strbuf_putc(b, '\n');
}

static void print_symbols(struct strbuf *b, const struct estimate_opts *o)
{
    const struct model_shape *m = &o->model;
    int ranks = estimate_equal_ranks(o);
    char share[16] = "";
    if (o->tp * o->pp > 1)
        snprintf(share, sizeof share, " / %d", o->tp * o->pp);
    strbuf_printf(b, "P: parameters of a rank, the model's %lld%s", (long long)m->params, share);
    if (o->lora_rank || o->trainable)
        strbuf_printf(b, "; T: those that are trained, %.0f%s", estimate_trainable(o), share);
    strbuf_printf(b, "; N: %d rank%s with the same part; b: %d sequence%s; s: %d token%s", ranks,
                  plural_s(ranks), o->batch, plural_s(o->batch), o->seq, plural_s(o->seq));
    if (m->kind != MODEL_PARAMS_ONLY)
        strbuf_printf(b, ";\nL: %d layer%s; h: width %d; a: %d head%s; V: %d vocabulary", m->layers,
                      plural_s(m->layers), m->hidden, m->heads, plural_s(m->heads), m->vocab);
    if (o->tp > 1)
        strbuf_printf(b, "; t: %d tensor-parallel ranks", o->tp);
    strbuf_puts(b, "\n");
}

static void print_row(struct strbuf *b, const char *name, uint64_t low, uint64_t expected,
                      uint64_t high, const char *formula)
{
    strbuf_printf(b, "  %-19s %8.2f %8.2f %8.2f", name, gib(low), gib(expected), gib(high));
    if (formula)
        strbuf_printf(b, "  %s", formula);
    strbuf_putc(b, '\n');
}

/* Appends the phases and the largest of them. */
static void print_total(struct strbuf *b, const struct estimate *s)
{
    uint64_t most[3] = {0};
    for (int k = 0; k < ESTIMATE_PHASES; k++) {
        const struct estimate_phase *p = &s->phase[k];
        const uint64_t ends[3] = {p->low_bytes, p->expected_bytes, p->high_bytes};
        for (int i = 0; i < 3; i++)
            most[i] = ends[i] > most[i] ? ends[i] : most[i];
        print_row(b, estimate_phase_name(k), ends[0], ends[1], ends[2], NULL);
    }
    print_row(b, "total", most[0], most[1], most[2], NULL);
    if (s->measured.n > 0)
        print_row(b, "corrected", s->low_bytes, s->expected_bytes, s->high_bytes, s->correction);
    if (s->host_bytes)
        strbuf_printf(b, "  host memory per rank: %.2f GiB%s\n", gib(s->host_bytes),
                      s->o.host_bytes && s->host_bytes > s->o.host_bytes ? ", more than there is"
                                                                         : "");
}

/* Appends the model, the options and the parts; with `explain` each formula, too. */
static void print_estimate(struct strbuf *b, const struct estimate *s, bool explain)
{
    print_model(b, &s->o.model);
    print_options(b, &s->o);
    strbuf_printf(b, "\n  %-19s %8s %8s %8s%s\n", "GiB per rank", "from", "expected", "to",
                  explain ? "  bytes" : "");
    for (int k = 0; k < ESTIMATE_PARTS; k++) {
        const struct estimate_part *p = &s->part[k];
        if (explain || p->high_bytes)
            print_row(b, estimate_part_name(k), p->low_bytes, p->expected_bytes, p->high_bytes,
                      explain ? p->formula : NULL);
    }
    strbuf_puts(b, "  the parts that exist at once:\n");
    print_total(b, s);
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
    json_t *o = json_pack("{s:o, s:I, s:b, s:f}", "name", json_text(m->name), "params",
                          (json_int_t)m->params, "approximate", m->approximate, "stored_bytes",
                          m->stored_bytes);
    if (m->kind != MODEL_PARAMS_ONLY)
        json_object_update_new(o, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "layers", m->layers,
                                            "hidden", m->hidden, "heads", m->heads, "kv_heads",
                                            m->kv_heads, "intermediate", m->intermediate, "vocab",
                                            m->vocab));
    return o;
}

static json_t *options_json(const struct estimate_opts *o)
{
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:b, s:s, s:b, s:I, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:i, "
        "s:b, s:b, s:b, s:b, s:b}",
        "cp", o->cp, "ep", o->ep, "accumulate", o->accumulate, "lora", o->lora_rank, "selective",
        o->selective, "loss", estimate_loss_name(o->loss), "qlora", o->four_bit, "trainable",
        (json_int_t)estimate_trainable(o), "batch", o->batch, "seq", o->seq, "precision",
        estimate_precision_name(o->precision), "optimizer", estimate_optimizer_name(o->optimizer),
        "ranks", o->ranks, "zero", o->zero, "tp", o->tp, "pp", o->pp, "flash", !o->full_attention,
        "recompute", o->recompute, "master", !o->no_master, "offload", o->offload, "offload_params",
        o->offload_params);
}

/* Returns the object of --json: docs/drover-estimate.md. */
static json_t *estimate_json(const struct estimate *s, const struct estimate_gpu *gpus,
                             size_t count, char *const *advice)
{
    json_t *parts = json_array(), *list = json_array(), *lines = json_array();
    json_t *phases = json_array();
    for (int k = 0; k < ESTIMATE_PARTS; k++)
        json_array_append_new(
            parts, json_pack("{s:s, s:I, s:I, s:I, s:s}", "name", estimate_part_name(k),
                             "low_bytes", (json_int_t)s->part[k].low_bytes, "expected_bytes",
                             (json_int_t)s->part[k].expected_bytes, "high_bytes",
                             (json_int_t)s->part[k].high_bytes, "formula", s->part[k].formula));
    for (int k = 0; k < ESTIMATE_PHASES; k++)
        json_array_append_new(phases,
                              json_pack("{s:s, s:I, s:I, s:I}", "name", estimate_phase_name(k),
                                        "low_bytes", (json_int_t)s->phase[k].low_bytes,
                                        "expected_bytes", (json_int_t)s->phase[k].expected_bytes,
                                        "high_bytes", (json_int_t)s->phase[k].high_bytes));
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:s}", "name", json_text(gpus[i].name), "usable_bytes",
                            (json_int_t)gpus[i].usable_bytes, "free_bytes",
                            (json_int_t)gpus[i].free_bytes, "verdict",
                            estimate_verdict_text(estimate_verdict(s, gpus[i].usable_bytes))));
    for (size_t i = 0; i < strv_len(advice); i++)
        json_array_append_new(lines, json_text(advice[i]));
    AUTO(free) char *left_out = estimate_left_out_text(s);
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:i, s:s, s:s*, s:o, s:o}", "v",
                     1, "model", model_json(&s->o.model), "options", options_json(&s->o), "parts",
                     parts, "phases", phases, "low_bytes", (json_int_t)s->low_bytes,
                     "expected_bytes", (json_int_t)s->expected_bytes, "high_bytes",
                     (json_int_t)s->high_bytes, "host_bytes", (json_int_t)s->host_bytes, "measured",
                     s->measured.n, "correction", s->correction, "left_out", left_out, "gpus", list,
                     "advice", lines);
}

static void print_text(const struct estimate_options *o, const struct estimate *s,
                       const struct estimate_gpu *gpus, size_t count, char *const *advice)
{
    AUTO(strbuf) struct strbuf b = {0};
    print_estimate(&b, s, o->explain);
    if (o->command && s->measured.n == 0)
        strbuf_puts(&b, "  no peak of this program alone with these options was measured yet\n");
    AUTO(free) char *left_out = estimate_left_out_text(s);
    if (left_out)
        strbuf_printf(&b, "  %s\n", left_out);
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
    rc = rc < 0   ? rc
         : o->gpu ? given_gpu(&gpus, &count, o->gpu, &job.ranks, e)
                  : local_gpus(&gpus, &count, e);
    int per_node = o->gpu ? (job.ranks > 8 ? 8 : job.ranks) : (int)count;
    rc = rc < 0 ? rc : host_share(&job.host_bytes, o, per_node, e);
    rc = rc < 0 ? rc : estimate_command(&s, &job, o->command, e);
    if (rc < 0)
        return rc;
    AUTO(strv)
    char **advice = count ? estimate_advice(&s, gpus[smallest(gpus, count)].usable_bytes,
                                            &(struct estimate_advice){0})
                          : NULL;
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
    o->job.offload |= o->job.offload_params;
    if (o->job.four_bit && !o->job.lora_rank)
        o->job.lora_rank = 16;
    if (o->job.lora_targets && !o->job.lora_rank)
        return err_set(e, -EINVAL, "--lora-targets needs --lora RANK");
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
