#include "launcher/estimate/model_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/estimate/model_keys.h"
#include "launcher/estimate/model_names.h"
#include "launcher/estimate/model_types.h"
#include "launcher/estimate/safetensors.h"

enum { CONFIG_BYTES_MAX = 4 << 20 };

/* The output of decoders that are not language models. Encoders have theirs in model_types.c. */
static void read_output(struct model_shape *m, const json_t *c)
{
    static const char *const with_bias[] = {"TokenClassification", "QuestionAnswering"};
    const char *a = model_keys_architecture(c);
    if (model_keys_ends(a, "SequenceClassification"))
        m->extra = m->hidden * model_keys_labels(c);
    for (size_t i = 0; i < COUNT_OF(with_bias); i++)
        if (model_keys_ends(a, with_bias[i]))
            m->extra = (m->hidden + 1) * (i ? 2 : model_keys_labels(c));
    m->no_logits |=
        m->extra || (model_keys_ends(a, "Model") && !model_keys_ends(a, "LMHeadModel") &&
                     !model_keys_ends(a, "MTModel"));
    m->head_bias = m->head_bias && !m->no_logits;
}

static void set_defaults(struct model_shape *m, const char *type)
{
    const struct model_type_defaults *d = model_types_defaults(type);
    if (!d)
        return;
    m->layers = d->layers;
    m->hidden = d->hidden;
    m->heads = d->heads;
    m->kv_heads = d->kv_heads;
    m->head_dim = d->head_dim;
    m->intermediate = d->intermediate;
    m->vocab = d->vocab;
}

/* Names the first key that a model needs and the file lacks. Products of checked widths do not
 * overflow. */
static int check_needed(const struct model_shape *m, const char *type, struct err *e)
{
    const struct {
        const char *key;
        int value;
    } rows[] = {{"num_hidden_layers", m->layers},
                {"hidden_size", m->hidden},
                {"num_attention_heads", m->heads},
                {"vocab_size", m->vocab || m->no_logits},
                {"intermediate_size", m->intermediate || m->mlp_4h},
                {"num_experts_per_tok", m->experts < 2 || m->experts_per_token}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].value == 0) {
            err_set(e, -EINVAL, "'%s': missing or 0 (model_type '%s')", rows[i].key, type);
            return err_hint(e, "--layers, --hidden, --heads and --vocab, or --params");
        }
    if (m->hidden > MODEL_SHAPE_WIDTH_MAX || m->embedding > MODEL_SHAPE_WIDTH_MAX ||
        m->intermediate > MODEL_SHAPE_WIDTH_MAX || m->heads > MODEL_SHAPE_WIDTH_MAX)
        return err_set(e, -ERANGE, "a width is above %d", MODEL_SHAPE_WIDTH_MAX);
    return 0;
}

/* A model of one part. `nested`: its file leaves out what is the default of its class. */
static int parse_part(struct model_shape *out, const json_t *c, bool nested, struct err *e)
{
    const char *type = "";
    bool named = !nested || json_object_get(c, "model_type"); /* a part may have no type */
    if (named && json_require_str(&type, c, "model_type", e) < 0)
        return e->code;
    const struct model_type *known = model_types_find(type);
    struct model_type t = known ? *known : model_types_guess(c);
    struct model_shape m = t.base;
    int rc = known ? 0 : model_keys_countable(c, e);
    snprintf(m.name, sizeof m.name, "%s", type);
    if (nested)
        set_defaults(&m, type);
    rc = rc < 0 ? rc : model_keys_read(&m, c, e);
    rc = rc < 0 ? rc : check_needed(&m, type, e);
    if (rc < 0)
        return rc;
    read_output(&m, c);
    m.positions = t.learned_positions >= 0 ? m.context + t.learned_positions : 0;
    if (t.more)
        rc = t.more(&m, c, e);
    rc = rc < 0 ? rc : model_shape_complete(&m, e);
    if (rc == 0)
        *out = m;
    return rc;
}

/* ---- models of several parts ---------------------------------------------------------------- */

/* Parameters that join an image to the words, by the type of the whole. */
static int64_t joint_params(const struct model_shape *m, const struct model_shape *v,
                            const json_t *c, bool *known)
{
    const char *type = json_string_value(json_object_get(c, "model_type"));
    int64_t h = m->hidden, w = v->hidden;
    int projection = 512, out = 7680;
    struct err unused = {0};
    *known = model_keys_int(&projection, c, "projection_dim", &unused) == 0 &&
             model_keys_int(&out, json_object_get(c, "vision_config"), "vision_output_dim",
                            &unused) == 0;
    if (strcmp(type, "clip") == 0)
        return (h + w) * projection + 1;
    if (strcmp(type, "gemma3") == 0)
        return h * w + w;
    if (strcmp(type, "llama4") == 0)
        return h * out;
    *known = false;
    return h * w + h * h + 2 * h; /* two matrices, as Llava has */
}

static int add_image(struct model_shape *m, const json_t *c, struct err *e)
{
    struct model_shape v;
    bool known;
    if (parse_part(&v, json_object_get(c, "vision_config"), true, e) < 0)
        return err_wrap(e, "vision_config");
    int64_t joint = joint_params(m, &v, c, &known);
    m->side = (struct model_side){.layers = v.layers,
                                  .hidden = v.hidden,
                                  .heads = v.heads,
                                  .intermediate = v.intermediate,
                                  .tokens = v.tokens,
                                  .gated = v.gated,
                                  .rms = v.rms,
                                  .dropout = v.dropout,
                                  .act = v.act,
                                  .params = v.params};
    m->approximate |= v.approximate || !known;
    m->extra += joint;
    m->params = m->largest_layer = 0;
    return model_shape_complete(m, e);
}

/* Adds the parameters of other parts. How they are joined differs, so the count is approximate. */
static int add_others(struct model_shape *m, const json_t *c, struct err *e)
{
    static const char *const parts[] = {"audio_config", "encoder_config", "speech_config"};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        const json_t *part = json_object_get(c, parts[i]);
        struct model_shape other;
        if (!json_is_object(part))
            continue;
        m->approximate = true;
        struct err unused = {0};
        if (parse_part(&other, part, true, &unused) < 0)
            continue;
        m->extra += other.params;
        m->params = m->largest_layer = 0;
    }
    return model_shape_complete(m, e);
}

static int parse(struct model_shape *out, const json_t *c, struct err *e)
{
    const json_t *text = json_object_get(c, "text_config");
    struct model_shape m = {0};
    const char *type = NULL;
    if (json_require_str(&type, c, "model_type", e) < 0)
        return e->code;
    int rc = json_is_object(text) ? parse_part(&m, text, true, e) : parse_part(&m, c, false, e);
    if (rc < 0)
        return json_is_object(text) ? err_wrap(e, "text_config") : rc;
    if (json_is_object(text))
        snprintf(m.name, sizeof m.name, "%s", type);
    if (json_is_object(json_object_get(c, "vision_config")))
        rc = add_image(&m, c, e);
    rc = rc < 0 ? rc : add_others(&m, c, e);
    double stored = model_keys_stored(c);
    m.stored_bytes = stored != 0 ? stored : model_keys_stored(text);
    m.stored_layers = m.stored_bytes > 0;
    if (rc == 0)
        *out = m;
    return rc;
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

int model_config_named(struct model_shape *out, const char *name, struct err *e)
{
    const char *known, *config = model_names_config(name, &known);
    if (!config) {
        const char *near = model_names_near(name);
        err_set(e, -ENOENT, "unknown model '%s'", name);
        return near ? err_hint(e, "--model %s", near) : e->code;
    }
    int rc = model_config_parse(out, config, strlen(config), e);
    if (rc == 0)
        snprintf(out->name, sizeof out->name, "%s", known);
    return rc;
}

/* ---- the model of a command line ------------------------------------------------------------ */

static bool is_safetensors(const char *path)
{
    return model_keys_ends(path, ".safetensors");
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

/* A folder may have a model twice: in shards and as one file, such as consolidated.safetensors.
 * Returns false for files that have again what others have. */
static bool counts(char *const *files, const char *path)
{
    bool shards = false, other = false;
    for (char *const *f = files; *f; f++) {
        const char *slash = strrchr(*f, '/');
        shards |= files_of(*f) > 1;
        other |= strncmp(slash ? slash + 1 : *f, "consolidated", 12) != 0;
    }
    const char *slash = strrchr(path, '/');
    bool consolidated = strncmp(slash ? slash + 1 : path, "consolidated", 12) == 0;
    return shards ? files_of(path) > 1 : !consolidated || !other;
}

static int read_tensors(struct safetensors *t, char *const *files, struct err *e)
{
    for (char *const *f = files; *f; f++) {
        if (!is_safetensors(*f))
            return err_set(e, -EINVAL, "%s: not a .safetensors file, as the first one is", *f);
        if (counts(files, *f) && safetensors_read(t, *f, e) < 0)
            return e->code;
    }
    if (t->params == 0)
        return err_set(e, -EINVAL, "%s: no tensor has a floating-point type", files[0]);
    if (t->adapter * 2 > t->params) {
        err_set(e, -EINVAL, "%s: an adapter of %lld parameters, not a model", files[0],
                (long long)t->params);
        return err_hint(e, "the config.json of its model");
    }
    return 0;
}

/* All shards of a model must be there. */
static int check_shards(char *const *files, struct err *e)
{
    size_t shards = 0;
    const char *one = NULL;
    for (char *const *f = files; *f; f++)
        if (files_of(*f) > 1) {
            one = *f;
            shards++;
        }
    int all = one ? files_of(one) : 0;
    if ((size_t)all <= shards)
        return 0;
    err_set(e, -EINVAL, "%s: one of %d files of the model", one, all);
    return err_hint(e, "give all of them: *-of-%05d.safetensors", all);
}

static int from_safetensors(struct model_shape *out, char *const *files, struct err *e)
{
    struct safetensors t = {0};
    if (read_tensors(&t, files, e) < 0 || check_shards(files, e) < 0)
        return e->code;
    AUTO(free) char *config = config_beside(files[0]);
    *out = (struct model_shape){.kind = MODEL_PARAMS_ONLY, .largest_layer = t.largest_layer};
    if (access(config, R_OK) == 0) {
        if (read_config(out, config, e) < 0)
            return e->code;
        out->largest_layer = 0; /* of the shape, which knows what lies in several files */
    }
    out->params = t.params;
    out->approximate = false;
    out->stored_layers = false;
    out->stored_bytes = t.packed > t.params / 2 ? (double)t.bytes / (double)t.params : 0;
    return model_shape_complete(out, e);
}

static int from_files(struct model_shape *out, char *const *files, struct err *e)
{
    struct stat st;
    if (is_safetensors(files[0]))
        return from_safetensors(out, files, e);
    if (files[1])
        return err_set(e, -EINVAL, "unexpected argument '%s'", files[1]);
    bool folder = stat(files[0], &st) == 0 && S_ISDIR(st.st_mode);
    AUTO(free) char *config = xasprintf("%s%s", files[0], folder ? "/config.json" : "");
    if (read_config(out, config, e) < 0)
        return e->code;
    if (out->stored_bytes < 0) {
        err_set(e, -ENOTSUP, "%s: 'quantization_config': unknown form", config);
        return err_hint(e, "the safetensors files of the model, or a file without this key");
    }
    return 0;
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
