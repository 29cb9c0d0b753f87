/* command - a trial's argv from a sweep's `command` with its macros, as W&B's agent makes it.
 *
 * An item is a macro only as a whole: ${env} ${interpreter} ${program} ${args} ${args_no_hyphens}
 * ${args_no_equals} ${args_no_boolean_flags} ${args_append_hydra} ${args_override_hydra}
 * ${args_json} ${args_json_file}. ${envvar:NAME} is replaced anywhere; NAME is [A-Z0-9_]+, and one
 * that is not set becomes its own name, as with W&B. Values are printed as Python prints them. */
#ifndef DROVER_TRIAL_COMMAND_H
#define DROVER_TRIAL_COMMAND_H

#include <jansson.h>

#include "common/err.h"

struct trial_command {
    char *const *items;      /* NULL: ${env} ${interpreter} ${program} ${args} */
    const char *program;     /* NULL: none */
    const char *interpreter; /* "python3", or "python" where that exists */
    const char *json_file;   /* where the parameters lie as JSON, for ${args_json_file} */
    /* The value of an environment variable, or NULL; borrowed until the next call. */
    const char *(*getenv)(void *arg, const char *name);
    void *arg;
};

/* The argv for `params` (an object; its order is kept). *out is a strv of the caller's.
 *   -EINVAL  trial_command_check() says why */
int trial_command_build(char ***out, const struct trial_command *c, const json_t *params,
                        struct err *e);

/* Whether trial_command_build() would take these: every macro known and alone, `program` given
 * where it is used. `program` may be NULL. Returns -EINVAL with the item and the nearest macro. */
int trial_command_check(char *const *items, const char *program, struct err *e);

#endif
