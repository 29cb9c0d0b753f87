/* model_keys - the keys of a config.json, under each name that they have.
 *
 * The readers return 0 or a negative errno: -EINVAL for a wrong type, -ERANGE for a number that is
 * out of range. A key that is missing or null leaves the output unchanged. */
#pragma once

#include "common/json.h"
#include "launcher/estimate/model_shape.h"

enum { MODEL_KEYS_MAX = (1 << 30) - 1 }; /* the sum of two numbers does not overflow */

int model_keys_int(int *out, const json_t *c, const char *key, struct err *e);
int model_keys_bool(bool *out, const json_t *c, const char *key, struct err *e);

/* Reads all keys that say the same for every type of model. */
int model_keys_read(struct model_shape *m, const json_t *c, struct err *e);

/* Reads the keys of an encoder that has a decoder: "encoder_layers", "num_layers". */
int model_keys_encoder(struct model_shape *m, const json_t *c, struct err *e);

/* Sets the function of the MLP, and if the MLP is gated as far as T5's key says. */
void model_keys_act(struct model_shape *m, const json_t *c);

/* Returns the bytes of a weight of the layers, with its scale, that "quantization_config" says; 0:
 * there is none; -1: its form is unknown. */
double model_keys_stored(const json_t *c);

/* -ENOTSUP  a key says that the model has other layers than attention and MLP; it is named */
int model_keys_countable(const json_t *c, struct err *e);

/* The class of the model, "LlamaForCausalLM"; "" if the file does not say. */
const char *model_keys_architecture(const json_t *c);
bool model_keys_ends(const char *text, const char *end);

/* Number of classes of a classifier: the entries of id2label, 2 by default. */
int64_t model_keys_labels(const json_t *c);
