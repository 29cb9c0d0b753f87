/* model_config_internal - the public models that are known by name. */
#pragma once

enum { MODEL_CONFIG_NAMED_MAX = 64 };

struct model_config_named {
    const char *name;   /* lower case, with '-' */
    const char *config; /* what its config.json says of its shape */
};

/* The last row has no name. */
extern const struct model_config_named model_config_named_rows[];
