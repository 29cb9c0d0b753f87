#include "launcher/estimate/model_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "launcher/estimate/model_config_internal.h"

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

static int attention_bias(struct model_shape *m, const json_t *c, struct err *e)
{
    if (read_bool(&m->qkv_bias, c, "attention_bias", e) < 0)
        return e->code;
    m->out_bias = m->qkv_bias;
    return read_bool(&m->mlp_bias, c, "mlp_bias", e);
}

static int gpt_neox_more(struct model_shape *m, const json_t *c, struct err *e)
{
    if (read_bool(&m->qkv_bias, c, "attention_bias", e) < 0)
        return e->code;
    m->out_bias = m->qkv_bias;
    return 0;
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

#define HF_KEYS                                                                     \
    "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", \
        "max_position_embeddings"
#define ALL_BIASES .qkv_bias = true, .out_bias = true, .mlp_bias = true, .norm_bias = true
#define BERT                                             \
    {                                                    \
        ALL_BIASES, .tied = true, .embedding_norm = true \
    }

/* The classes of `transformers` are the source of each row. */
static const struct family families[] = {
    {"gpt2",
     "n_layer",
     "n_embd",
     "n_head",
     "n_inner",
     "n_positions",
     {ALL_BIASES, .tied = true},
     0,
     NULL},
    {"bert", HF_KEYS, BERT, 0, bert_more},
    {"roberta", HF_KEYS, BERT, 0, bert_more},
    {"ernie", HF_KEYS, BERT, 0, bert_more},
    {"opt",
     "num_hidden_layers",
     "hidden_size",
     "num_attention_heads",
     "ffn_dim",
     "max_position_embeddings",
     {ALL_BIASES, .tied = true},
     2,
     opt_more},
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

int model_config_read(struct model_shape *out, const char *path, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, MODEL_CONFIG_BYTES_MAX);
    if (rc == -EFBIG)
        return err_set(e, rc, "%s: larger than %d MiB", path, MODEL_CONFIG_BYTES_MAX >> 20);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", path, strerror(-rc));
    return model_config_parse(out, strbuf_str(&text), text.len, e) < 0 ? err_wrap(e, "%s", path)
                                                                       : 0;
}

/* ---- public models by name ------------------------------------------------------------------ */

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
    normalise(wanted, sizeof wanted, name);
    const char *names[MODEL_CONFIG_NAMED_MAX];
    size_t n = 0;
    for (const struct model_config_named *r = model_config_named_rows; r->name; r++) {
        names[n++] = r->name;
        if (strcmp(wanted, r->name) != 0)
            continue;
        int rc = model_config_parse(out, r->config, strlen(r->config), e);
        if (rc == 0)
            snprintf(out->name, sizeof out->name, "%s", r->name);
        return rc;
    }
    const char *near = opt_suggest(wanted, names, n);
    err_set(e, -ENOENT, "unknown model '%s'", name);
    return near ? err_hint(e, "--model %s", near) : e->code;
}
