/* model_types - what the members of a type of model have in common, beyond what the keys of their
 * config.json say. Source: the classes of `transformers`. */
#pragma once

#include "common/json.h"
#include "launcher/estimate/model_shape.h"

struct model_type {
    const char *type; /* the value of "model_type" */
    struct model_shape base;
    int learned_positions; /* rows of the position embedding in addition to the context; -1: none */
    /* Reads what only this type has, after all keys; NULL: nothing. Sizes are valid, not checked
     * for consistency. */
    int (*more)(struct model_shape *m, const json_t *c, struct err *e);
};

/* Returns the row of a type; NULL if it is not in the table. */
const struct model_type *model_types_find(const char *type);

/* Returns the row for a type that is not in the table, by its keys; its count is approximate. */
struct model_type model_types_guess(const json_t *c);

/* Sizes that a nested configuration leaves out if they are the defaults of its class. */
struct model_type_defaults {
    const char *type;
    int layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
};

/* Returns them; NULL: none are known. */
const struct model_type_defaults *model_types_defaults(const char *type);
