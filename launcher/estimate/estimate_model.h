/* estimate_model - the model of a command line: options, a name, a config.json, or safetensors
 * files. */
#pragma once

#include "common/err.h"
#include "launcher/estimate/model_shape.h"

struct estimate_model_opts {
    const char *params, *largest_layer; /* as the user wrote them; NULL: not given */
    const char *name;                   /* a public model; NULL: not given */
    struct model_shape shape;           /* from single options; zeros: not given */
    char **files;                       /* a strv: files or one directory; NULL: none */
};

/* Sets `*out` to the complete shape. A directory stands for its config.json. Safetensors files give
 * the number of parameters, and the config.json next to them the shape, if there is one.
 *   -EINVAL  no model, or more than one, or a file is wrong
 *   or as the readers of files fail */
int estimate_model_find(struct model_shape *out, const struct estimate_model_opts *o,
                        struct err *e);
