/* model_config - the shape of a model: from options, by the name of a public model, or from a
 * Hugging Face config.json or safetensors files. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "launcher/estimate/model_shape.h"

/* Parses the text of a config.json. `*out` is complete (model_shape_complete()).
 *   -EINVAL  not JSON, a key is missing or has the wrong type, or the model type is unknown (the
 *            hint lists what is known)
 *   -ERANGE  a number is out of range */
int model_config_parse(struct model_shape *out, const char *text, size_t len, struct err *e);

/* Looks up a public model: "gpt2", "bert-base", "ernie-gram", "llama-2-7b". Case, '_' and a suffix
 * in parentheses do not matter.
 *   -ENOENT  unknown name (the hint is the nearest one) */
int model_config_named(struct model_shape *out, const char *name, struct err *e);

struct model_config_opts {
    const char *params, *largest_layer; /* as the user wrote them; NULL: not given */
    const char *name;                   /* a public model; NULL: not given */
    struct model_shape shape;           /* from single options; zeros: not given */
    char **files;                       /* a strv: files or one directory; NULL: none */
};

/* Sets `*out` to the complete shape. A directory stands for its config.json. Safetensors files give
 * the number of parameters, and the config.json next to them the shape, if there is one.
 *   -EINVAL  no model, or more than one, or a file is wrong
 *   or as the readers of files fail */
int model_config_find(struct model_shape *out, const struct model_config_opts *o, struct err *e);
