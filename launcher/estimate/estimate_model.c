#include "launcher/estimate/estimate_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/estimate/model_config.h"
#include "launcher/estimate/safetensors.h"

static bool is_safetensors(const char *path)
{
    size_t n = strlen(path), k = strlen(".safetensors");
    return n > k && strcmp(path + n - k, ".safetensors") == 0;
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
    if ((size_t)all > strv_len(files))
        return err_set(e, -EINVAL, "%s: one of %d files of the model", files[0], all) < 0
                   ? err_hint(e, "give all of them: *-of-%05d.safetensors", all)
                   : 0;
    AUTO(free) char *config = config_beside(files[0]);
    if (access(config, R_OK) == 0) {
        if (model_config_read(out, config, e) < 0)
            return e->code;
        out->params = t.params;
        out->largest_layer = 0; /* of the shape, which knows what lies in several files */
        return model_shape_complete(out, e);
    }
    *out = (struct model_shape){
        .kind = MODEL_PARAMS_ONLY, .params = t.params, .largest_layer = t.largest_layer};
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
        return model_config_read(out, config, e);
    }
    return model_config_read(out, files[0], e);
}

/* The shape of single options is that of GPT-2, if they do not say otherwise. */
static int from_options(struct model_shape *out, const struct estimate_model_opts *o, struct err *e)
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

int estimate_model_find(struct model_shape *out, const struct estimate_model_opts *o, struct err *e)
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
    else if (!o->name && !o->params)
        return err_set(e, -EINVAL, "no model") < 0
                   ? err_hint(e, "--params 7B, --model llama-2-7b, or the path of a config.json")
                   : 0;
    else if (!o->name)
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
