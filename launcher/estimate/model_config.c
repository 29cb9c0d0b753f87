#include "launcher/estimate/model_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "launcher/estimate/safetensors.h"

enum { CONFIG_BYTES_MAX = 4 << 20 };

/* What a family of models has in common: the names of its keys, and what every member has. `more`
 * reads keys that only this family has. */
struct family {
    const char *type; /* the value of "model_type" */
    const char *layers, *hidden, *heads, *intermediate, *context;
    struct model_shape base;
    int learned_positions; /* rows of the position embedding in addition to the context; -1: none */
    int (*more)(struct model_shape *m, const json_t *c, struct err *e);
};

/* Reads an integer. A key that is missing or null leaves `*out` unchanged. */
static int read_int(int *out, const json_t *c, const char *key, struct err *e)
{
    if (!key || json_is_null(json_object_get(c, key)))
        return 0;
    int64_t value = *out;
    if (json_optional_int(&value, c, key, e) < 0)
        return e->code;
    if (value < 0 || value > INT_MAX)
        return err_set(e, -ERANGE, "'%s': %lld is out of range", key, (long long)value);
    *out = (int)value;
    return 0;
}

static int read_bool(bool *out, const json_t *c, const char *key, struct err *e)
{
    return json_is_null(json_object_get(c, key)) ? 0 : json_optional_bool(out, c, key, e);
}

/* ---- what only some families have ----------------------------------------------------------- */

static const char *architecture(const json_t *c)
{
    const char *name = json_string_value(json_array_get(json_object_get(c, "architectures"), 0));
    return name ? name : "";
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* Number of classes of a classifier: the entries of id2label, 2 by default. */
static int64_t labels(const json_t *c)
{
    size_t n = json_object_size(json_object_get(c, "id2label"));
    return n ? (int64_t)n : 2;
}

/* The heads of BERT. A pooler and a transform are matrices of the hidden size with a bias. */
static int bert_more(struct model_shape *m, const json_t *c, struct err *e)
{
    const char *a = architecture(c);
    int64_t h = m->hidden, square = h * h + h;
    bool masked = ends_with(a, "MaskedLM") || ends_with(a, "LMHeadModel");
    bool pretraining = ends_with(a, "PreTraining");
    m->no_logits = !masked && !pretraining;
    m->head_bias = !m->no_logits;
    if (masked)
        m->extra = square + 2 * h; /* transform, norm */
    else if (pretraining)
        m->extra = square + 2 * h + square + 2 * h + 2; /* … pooler, next sentence */
    else if (ends_with(a, "SequenceClassification"))
        m->extra = square + (h + 1) * labels(c);
    else if (ends_with(a, "TokenClassification") || ends_with(a, "QuestionAnswering"))
        m->extra = (h + 1) * labels(c);
    else
        m->extra = square;
    if (read_int(&m->token_types, c, "type_vocab_size", e) < 0)
        return e->code;
    bool tasks = false;
    int task_types = 3;
    if (read_bool(&tasks, c, "use_task_id", e) < 0 ||
        read_int(&task_types, c, "task_type_vocab_size", e) < 0)
        return e->code;
    m->token_types += tasks ? task_types : 0;
    return 0;
}

static int gpt_neox_more(struct model_shape *m, const json_t *c, struct err *e)
{
    if (read_bool(&m->qkv_bias, c, "attention_bias", e) < 0)
        return e->code;
    m->out_bias = m->qkv_bias;
    return 0;
}

static int attention_bias(struct model_shape *m, const json_t *c, struct err *e)
{
    return gpt_neox_more(m, c, e) < 0 ? e->code : read_bool(&m->mlp_bias, c, "mlp_bias", e);
}

static int mixtral_more(struct model_shape *m, const json_t *c, struct err *e)
{
    m->experts = 8;
    m->experts_per_token = 2;
    if (read_int(&m->experts, c, "num_local_experts", e) < 0)
        return e->code;
    return read_int(&m->experts_per_token, c, "num_experts_per_tok", e);
}

static int opt_more(struct model_shape *m, const json_t *c, struct err *e)
{
    int width = m->hidden;
    if (read_int(&width, c, "word_embed_proj_dim", e) < 0)
        return e->code;
    if (width != m->hidden)
        return err_set(e, -EINVAL, "'word_embed_proj_dim': only the hidden size is supported");
    return 0;
}

/* ---- the families --------------------------------------------------------------------------- */

#define HF_KEYS_WITH(intermediate)                                           \
    "num_hidden_layers", "hidden_size", "num_attention_heads", intermediate, \
        "max_position_embeddings"
#define HF_KEYS HF_KEYS_WITH("intermediate_size")
#define GPT2_KEYS "n_layer", "n_embd", "n_head", "n_inner", "n_positions"
#define ALL_BIASES .qkv_bias = true, .out_bias = true, .mlp_bias = true, .norm_bias = true
#define BERT                                             \
    {                                                    \
        ALL_BIASES, .tied = true, .embedding_norm = true \
    }

/* The classes of `transformers` are the source of each row. */
static const struct family families[] = {
    {"gpt2", GPT2_KEYS, {ALL_BIASES, .tied = true}, 0, NULL},
    {"bert", HF_KEYS, BERT, 0, bert_more},
    {"roberta", HF_KEYS, BERT, 0, bert_more},
    {"ernie", HF_KEYS, BERT, 0, bert_more},
    {"opt", HF_KEYS_WITH("ffn_dim"), {ALL_BIASES, .tied = true}, 2, opt_more},
    {"gpt_neox", HF_KEYS, {ALL_BIASES}, -1, gpt_neox_more},
    {"llama", HF_KEYS, {.gated = true}, -1, attention_bias},
    {"mistral", HF_KEYS, {.gated = true}, -1, NULL},
    {"mixtral", HF_KEYS, {.gated = true}, -1, mixtral_more},
    {"qwen2", HF_KEYS, {.gated = true, .qkv_bias = true}, -1, NULL},
    {"qwen3", HF_KEYS, {.gated = true, .qk_norm = true, .head_dim = 128}, -1, attention_bias},
    {"gemma", HF_KEYS, {.gated = true, .tied = true, .head_dim = 256}, -1, attention_bias},
    {"gemma2",
     HF_KEYS,
     {.gated = true, .tied = true, .head_dim = 256, .norms = 4},
     -1,
     attention_bias},
    {"phi", HF_KEYS, {ALL_BIASES, .norms = 1, .head_bias = true}, -1, NULL},
    {"phi3", HF_KEYS, {.gated = true}, -1, NULL},
};

static int unknown_type(const char *type, struct err *e)
{
    AUTO(strbuf) struct strbuf known = {0};
    for (size_t i = 0; i < COUNT_OF(families); i++)
        strbuf_printf(&known, "%s%s", i ? ", " : "", families[i].type);
    err_set(e, -EINVAL, "'model_type': unknown type '%s' (known: %s)", type, strbuf_str(&known));
    return err_hint(e, "--layers, --hidden, --heads and --vocab, or --params");
}

static int read_fields(struct model_shape *m, const struct family *f, const json_t *c,
                       struct err *e)
{
    const struct {
        const char *key;
        int *to;
    } rows[] = {
        {f->layers, &m->layers},    {f->hidden, &m->hidden},
        {f->heads, &m->heads},      {f->intermediate, &m->intermediate},
        {f->context, &m->context},  {"vocab_size", &m->vocab},
        {"head_dim", &m->head_dim}, {"num_key_value_heads", &m->kv_heads},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (read_int(rows[i].to, c, rows[i].key, e) < 0)
            return e->code;
    return read_bool(&m->tied, c, "tie_word_embeddings", e);
}

static bool has_dropout(const json_t *c)
{
    static const char *const keys[] = {
        "attn_pdrop",         "resid_pdrop",    "dropout",
        "attention_dropout",  "hidden_dropout", "attention_probs_dropout_prob",
        "hidden_dropout_prob"};
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (json_number_value(json_object_get(c, keys[i])) > 0)
            return true;
    return false;
}

/* The output of models that are not language models. BERT's are in bert_more(). */
static void read_output(struct model_shape *m, const json_t *c)
{
    const char *a = architecture(c);
    if (ends_with(a, "SequenceClassification") || ends_with(a, "TokenClassification"))
        m->extra = m->hidden * labels(c);
    m->no_logits = m->extra || (ends_with(a, "Model") && !ends_with(a, "LMHeadModel"));
    m->head_bias = m->head_bias && !m->no_logits;
}

static int parse(struct model_shape *out, const json_t *c, struct err *e)
{
    const char *type = NULL;
    if (json_require_str(&type, c, "model_type", e) < 0)
        return e->code;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        const struct family *f = &families[i];
        if (strcmp(type, f->type) != 0)
            continue;
        struct model_shape m = f->base;
        snprintf(m.name, sizeof m.name, "%s", type);
        m.dropout = has_dropout(c);
        if (read_fields(&m, f, c, e) < 0)
            return e->code;
        read_output(&m, c);
        if (f->learned_positions >= 0)
            m.positions = m.context + f->learned_positions;
        if (f->more && f->more(&m, c, e) < 0)
            return e->code;
        if (model_shape_complete(&m, e) < 0)
            return e->code;
        *out = m;
        return 0;
    }
    return unknown_type(type, e);
}

int model_config_parse(struct model_shape *out, const char *text, size_t len, struct err *e)
{
    AUTO(json) json_t *c = NULL;
    int rc = json_parse(&c, text, len, e);
    return rc < 0 ? rc : parse(out, c, e);
}

static int read_config(struct model_shape *out, const char *path, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, CONFIG_BYTES_MAX);
    if (rc == -EFBIG)
        return err_set(e, rc, "%s: larger than %d MiB", path, CONFIG_BYTES_MAX >> 20);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", path, strerror(-rc));
    return model_config_parse(out, strbuf_str(&text), text.len, e) < 0 ? err_wrap(e, "%s", path)
                                                                       : 0;
}

/* ---- public models by name ------------------------------------------------------------------ */

/* From the config.json that their authors publish. ERNIE-Gram's is that of PaddleNLP
 * (ernie-gram-zh). */
#define GPT2(layers, width, heads)                                                              \
    "{\"model_type\":\"gpt2\",\"n_layer\":" #layers ",\"n_embd\":" #width ",\"n_head\":" #heads \
    ",\"n_positions\":1024,\"vocab_size\":50257,\"attn_pdrop\":0.1}"

#define BERT_LIKE(type, layers, width, heads, inner, vocab, positions, types)                     \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":" #layers ",\"hidden_size\":" #width      \
    ",\"num_attention_heads\":" #heads ",\"intermediate_size\":" #inner ",\"vocab_size\":" #vocab \
    ",\"max_position_embeddings\":" #positions ",\"type_vocab_size\":" #types                     \
    ",\"hidden_dropout_prob\":0.1}"

#define DECODER(type, layers, width, heads, kv, inner, vocab, context, more)                 \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":" #layers ",\"hidden_size\":" #width \
    ",\"num_attention_heads\":" #heads ",\"num_key_value_heads\":" #kv                       \
    ",\"intermediate_size\":" #inner ",\"vocab_size\":" #vocab                               \
    ",\"max_position_embeddings\":" #context more "}"

#define TIED ",\"tie_word_embeddings\":true"

static const struct {
    const char *name;   /* lower case, with '-' */
    const char *config; /* what its config.json says of its shape */
} named[] = {
    {"gpt2", GPT2(12, 768, 12)},
    {"gpt2-medium", GPT2(24, 1024, 16)},
    {"gpt2-large", GPT2(36, 1280, 20)},
    {"gpt2-xl", GPT2(48, 1600, 25)},
    {"bert-base", BERT_LIKE("bert", 12, 768, 12, 3072, 30522, 512, 2)},
    {"bert-large", BERT_LIKE("bert", 24, 1024, 16, 4096, 30522, 512, 2)},
    {"roberta-base", BERT_LIKE("roberta", 12, 768, 12, 3072, 50265, 514, 1)},
    {"roberta-large", BERT_LIKE("roberta", 24, 1024, 16, 4096, 50265, 514, 1)},
    {"ernie-gram", BERT_LIKE("ernie", 12, 768, 12, 3072, 18018, 512, 2)},
    {"llama-2-7b", DECODER("llama", 32, 4096, 32, 32, 11008, 32000, 4096, )},
    {"llama-2-13b", DECODER("llama", 40, 5120, 40, 40, 13824, 32000, 4096, )},
    {"llama-2-70b", DECODER("llama", 80, 8192, 64, 8, 28672, 32000, 4096, )},
    {"llama-3-8b", DECODER("llama", 32, 4096, 32, 8, 14336, 128256, 8192, )},
    {"llama-3-70b", DECODER("llama", 80, 8192, 64, 8, 28672, 128256, 8192, )},
    {"mistral-7b", DECODER("mistral", 32, 4096, 32, 8, 14336, 32000, 32768, )},
    {"mixtral-8x7b", DECODER("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768, )},
    {"qwen2-0.5b", DECODER("qwen2", 24, 896, 14, 2, 4864, 151936, 32768, TIED)},
    {"qwen2-7b", DECODER("qwen2", 28, 3584, 28, 4, 18944, 152064, 32768, )},
    {"gemma-2b", DECODER("gemma", 18, 2048, 8, 1, 16384, 256000, 8192, )},
    {"gemma-7b", DECODER("gemma", 28, 3072, 16, 16, 24576, 256000, 8192, )},
};

/* Writes the name in lower case, with '-' for '_' and ' ', without what follows '('. */
static void normalise(char *out, size_t size, const char *name)
{
    size_t n = 0;
    const char *slash = strrchr(name, '/');
    for (const char *p = slash ? slash + 1 : name; *p && *p != '(' && n + 1 < size; p++)
        out[n++] = *p == '_' || *p == ' ' ? '-' : (char)tolower((unsigned char)*p);
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

int model_config_named(struct model_shape *out, const char *name, struct err *e)
{
    char wanted[64];
    const char *names[COUNT_OF(named)];
    normalise(wanted, sizeof wanted, name);
    for (size_t i = 0; i < COUNT_OF(named); i++) {
        names[i] = named[i].name;
        if (strcmp(wanted, named[i].name) != 0)
            continue;
        int rc = model_config_parse(out, named[i].config, strlen(named[i].config), e);
        if (rc == 0)
            snprintf(out->name, sizeof out->name, "%s", named[i].name);
        return rc;
    }
    const char *near = opt_suggest(wanted, names, COUNT_OF(named));
    err_set(e, -ENOENT, "unknown model '%s'", name);
    return near ? err_hint(e, "--model %s", near) : e->code;
}

/* ---- the model of a command line ------------------------------------------------------------ */

static bool is_safetensors(const char *path)
{
    return ends_with(path, ".safetensors");
}

/* "model-00001-of-00003.safetensors" is one of 3 files; 1: not such a name. */
static int files_of(const char *path)
{
    int files = 1;
    const char *slash = strrchr(path, '/'), *of = strstr(slash ? slash : path, "-of-");
    return of && sscanf(of, "-of-%5d.safetensors", &files) == 1 ? files : 1;
}

/* Returns the path of config.json in the directory of `path`, which the caller frees. */
static char *config_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? xasprintf("%.*s/config.json", (int)(slash - path), path)
                 : xstrdup("config.json");
}

static int from_safetensors(struct model_shape *out, char *const *files, struct err *e)
{
    struct safetensors t = {0};
    for (char *const *f = files; *f; f++) {
        if (!is_safetensors(*f))
            return err_set(e, -EINVAL, "%s: not a .safetensors file, as the first one is", *f);
        if (safetensors_read(&t, *f, e) < 0)
            return e->code;
    }
    if (t.params == 0)
        return err_set(e, -EINVAL, "%s: no tensor has a floating-point type", files[0]);
    int all = files_of(files[0]);
    if ((size_t)all > strv_len(files)) {
        err_set(e, -EINVAL, "%s: one of %d files of the model", files[0], all);
        return err_hint(e, "give all of them: *-of-%05d.safetensors", all);
    }
    AUTO(free) char *config = config_beside(files[0]);
    *out = (struct model_shape){.kind = MODEL_PARAMS_ONLY, .largest_layer = t.largest_layer};
    if (access(config, R_OK) == 0) {
        if (read_config(out, config, e) < 0)
            return e->code;
        out->largest_layer = 0; /* of the shape, which knows what lies in several files */
    }
    out->params = t.params;
    return model_shape_complete(out, e);
}

static int from_files(struct model_shape *out, char *const *files, struct err *e)
{
    struct stat st;
    if (is_safetensors(files[0]))
        return from_safetensors(out, files, e);
    if (files[1])
        return err_set(e, -EINVAL, "unexpected argument '%s'", files[1]);
    if (stat(files[0], &st) == 0 && S_ISDIR(st.st_mode)) {
        AUTO(free) char *config = xasprintf("%s/config.json", files[0]);
        return read_config(out, config, e);
    }
    return read_config(out, files[0], e);
}

/* The shape of single options is that of GPT-2, if they do not say otherwise. */
static int from_options(struct model_shape *out, const struct model_config_opts *o, struct err *e)
{
    struct model_shape m = o->shape;
    m.tied = m.dropout = m.norm_bias = m.qkv_bias = m.out_bias = m.mlp_bias = true;
    if (m.gated) /* as Llama */
        m.tied = m.dropout = m.norm_bias = m.qkv_bias = m.out_bias = m.mlp_bias = false;
    *out = m;
    const struct {
        const char *option;
        int value;
    } needed[] = {
        {"--layers", m.layers}, {"--hidden", m.hidden}, {"--heads", m.heads}, {"--vocab", m.vocab}};
    for (size_t i = 0; i < COUNT_OF(needed); i++)
        if (!needed[i].value)
            return err_set(e, -EINVAL,
                           "%s is missing: a shape needs --layers, --hidden, --heads "
                           "and --vocab",
                           needed[i].option);
    return 0;
}

static bool has_shape(const struct model_shape *m)
{
    return m->layers || m->hidden || m->heads || m->kv_heads || m->intermediate || m->vocab ||
           m->gated;
}

int model_config_find(struct model_shape *out, const struct model_config_opts *o, struct err *e)
{
    struct model_shape m = {0};
    bool shape = has_shape(&o->shape);
    int rc = 0;
    if ((o->files != NULL) + (o->name != NULL) + shape > 1)
        return err_set(e, -EINVAL,
                       "a file, --model, and the options of a shape exclude each other");
    if (o->files)
        rc = from_files(&m, o->files, e);
    else if (o->name && model_config_named(&m, o->name, e) < 0)
        rc = err_wrap(e, "--model");
    else if (shape)
        rc = from_options(&m, o, e);
    else if (!o->name && !o->params) {
        err_set(e, -EINVAL, "no model");
        return err_hint(e, "--params 7B, --model llama-2-7b, or the path of a config.json");
    } else if (!o->name)
        m.kind = MODEL_PARAMS_ONLY;
    if (rc == 0 && o->params && model_shape_parse_params(&m.params, o->params, e) < 0)
        rc = err_wrap(e, "--params");
    if (rc == 0 && o->largest_layer &&
        model_shape_parse_params(&m.largest_layer, o->largest_layer, e) < 0)
        rc = err_wrap(e, "--largest-layer");
    rc = rc < 0 ? rc : model_shape_complete(&m, e);
    if (rc == 0)
        *out = m;
    return rc;
}
