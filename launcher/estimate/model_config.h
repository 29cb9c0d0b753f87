/* model_config - reads the shape of a model from a Hugging Face config.json, or looks up the shape
 * of a public model by its name. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "launcher/estimate/model_shape.h"

enum { MODEL_CONFIG_BYTES_MAX = 4 << 20 };

/* Parses the text of a config.json. `*out` is complete (model_shape_complete()).
 *   -EINVAL  not JSON, a key is missing or has the wrong type, or the model type is unknown (the
 *            hint lists what is known)
 *   -ERANGE  a number is out of range */
int model_config_parse(struct model_shape *out, const char *text, size_t len, struct err *e);

/* Reads the file. In addition: -EFBIG  larger than MODEL_CONFIG_BYTES_MAX; or as open() fails. */
int model_config_read(struct model_shape *out, const char *path, struct err *e);

/* Looks up a public model: "gpt2", "bert-base", "ernie-gram", "llama-2-7b". Case, '_' and a suffix
 * in parentheses do not matter.
 *   -ENOENT  unknown name (the hint is the nearest one) */
int model_config_named(struct model_shape *out, const char *name, struct err *e);
