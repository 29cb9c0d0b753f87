/* trial_command - builds a trial's argv from a sweep's `command` and its macros, as W&B's agent
 * does.
 *
 * An item is a macro only if it contains nothing else. The macros are ${env} ${interpreter}
 * ${program} ${args} ${args_no_hyphens} ${args_no_equals} ${args_no_boolean_flags}
 * ${args_append_hydra} ${args_override_hydra} ${args_json} ${args_json_file}. ${envvar:NAME} is
 * replaced anywhere in an item; NAME matches [A-Z0-9_]+. As with W&B, a variable that is not set is
 * replaced by its name. Values have the form in which Python prints them. */
#pragma once

#include <jansson.h>

#include "common/err.h"

/* The items of a sweep without `command`: ${env} ${interpreter} ${program} ${args}. */
extern char *const trial_command_default[];

struct trial_command {
    char *const *items;      /* NULL: trial_command_default */
    const char *program;     /* NULL: not given */
    const char *interpreter; /* "python3", or "python" if that exists */
    const char *json_file;   /* the path of the parameters as JSON, for ${args_json_file} */
    /* Returns the value of an environment variable, or NULL; borrowed until the next call. */
    const char *(*getenv)(void *arg, const char *name);
    void *arg;
};

/* Builds the argv for `params`, an object whose order is kept. The caller frees the strv `*out`.
 *   -EINVAL  as trial_command_check(), or the command is empty */
int trial_command_build(char ***out, const struct trial_command *c, const json_t *params,
                        struct err *e);

/* How a command uses the sweep's `program`. */
enum trial_command_program {
    TRIAL_COMMAND_NO_PROGRAM, /* the command does not use it */
    TRIAL_COMMAND_MODULE,     /* as a Python module, after -m or --module */
    TRIAL_COMMAND_EXECUTABLE, /* as the file that is executed */
    TRIAL_COMMAND_SCRIPT,     /* as the file that the interpreter reads */
    TRIAL_COMMAND_ARGUMENT    /* as another argument: often a file, or the name of an experiment */
};
/* Returns how the command uses `program`. `items` is as in struct trial_command. */
enum trial_command_program trial_command_program(char *const *items);
/* Returns the word that the command executes: the first one, or after ${env} the first one that
 * sets no variable. Returns NULL if there is none. */
const char *trial_command_executed(char *const *items);

/* Checks that every macro is known and alone in its item, and that `program` is not NULL if the
 * command uses it. `items` NULL is the default command.
 *   -EINVAL  the message names the item; the hint has the nearest macro or the correction */
int trial_command_check(char *const *items, const char *program, struct err *e);
