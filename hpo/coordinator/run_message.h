/* run_message - the command of a trial, and the WIRE_RUN that carries it to a worker. */
#pragma once

#include "common/err.h"
#include "common/json.h"
#include "hpo/spec/spec.h"

struct run_message_opts {
    const struct spec *spec;
    const char *sweep; /* its name */
    const char *dir;   /* its directory, absolute */
    const char *wdir;  /* working directory of trials */
};

/* Checks before the start that the sweep's program exists, as a file or in PATH, and the command
 * without parameters as run_message_data() does. `dir` may be the directory of all sweeps.
 *   -ENOENT  it does not
 *   -EINVAL  as run_message_data() */
int run_message_check(const struct run_message_opts *opts, struct err *e);

/* Returns in *out the argv that runs `params` as trial `trial`: a strv.
 *   -EINVAL  as trial_command_build() */
int run_message_argv(char ***out, const struct run_message_opts *opts, int trial,
                     const json_t *params, struct err *e);

/* Returns in *out the data of a WIRE_RUN (new reference). `peers`: the other nodes of the trial, as
 * in a scheduler_action; NULL: none. -EINVAL  as trial_command_build(), or a directory or a
 * word of the command is not valid UTF-8 */
int run_message_data(json_t **out, const struct run_message_opts *opts, int trial, json_t *params,
                     json_t *peers, struct err *e);
