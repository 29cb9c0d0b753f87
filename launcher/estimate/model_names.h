/* model_names - public models by their names on the hub. */
#pragma once

/* Returns what the config.json of a model says of its shape, and sets `*known` to its name; NULL:
 * unknown. Case, '_', the owner and words such as "instruct" do not matter: "gpt2",
 * "meta-llama/Llama-3.1-8B-Instruct". */
const char *model_names_config(const char *name, const char **known);

/* Returns the nearest known name; NULL: none is near. */
const char *model_names_near(const char *name);
