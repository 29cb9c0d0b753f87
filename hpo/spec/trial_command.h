/* trial_command - a trial's argv from a sweep's `command` with its macros, as W&B's agent builds
 * it.
 *
 * An item is a macro only if nothing else is in it: ${env} ${interpreter} ${program} ${args}
 * ${args_no_hyphens}
 * ${args_no_equals} ${args_no_boolean_flags} ${args_append_hydra} ${args_override_hydra}
 * ${args_json} ${args_json_file}. ${envvar:NAME} is replaced anywhere; NAME is [A-Z0-9_]+. A
 * variable that is not set becomes its own name, as with W&B. Values are printed as Python prints
 * them. */
#ifndef DROVER_TRIAL_COMMAND_H
#define DROVER_TRIAL_COMMAND_H

#include <jansson.h>

#include "common/err.h"

struct trial_command {
    char *const *items;      /* NULL: ${env} ${interpreter} ${program} ${args} */
    const char *program;     /* NULL: none */
    const char *interpreter; /* "python3", or "python" if that exists */
    const char *json_file;   /* the path of the parameters as JSON, for ${args_json_file} */
    /* Returns the value of an environment variable, or NULL; borrowed until the next call. */
    const char *(*getenv)(void *arg, const char *name);
    void *arg;
};

/* Builds the argv for `params` (an object; its order is kept). The caller frees the strv *out.
 *   -EINVAL  as trial_command_check(), or the command is empty */
int trial_command_build(char ***out, const struct trial_command *c, const json_t *params,
                        struct err *e);

/* How a command uses the sweep's `program`. */
enum trial_command_program {
    TRIAL_COMMAND_NO_PROGRAM, /* not at all */
    TRIAL_COMMAND_MODULE,     /* as a Python module, after -m or --module */
    TRIAL_COMMAND_EXECUTABLE, /* as the program that is executed */
    TRIAL_COMMAND_FILE        /* as an argument, in general of an interpreter */
};
/* `items` as in struct trial_command. */
enum trial_command_program trial_command_program(char *const *items);

/* Checks that every macro is known and alone in its item, and that `program` is given if it is
 * used. `program` may be NULL.
 *   -EINVAL  the message names the item; the hint has the nearest macro */
int trial_command_check(char *const *items, const char *program, struct err *e);

#endif
