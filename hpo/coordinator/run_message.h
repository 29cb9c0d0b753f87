/* order - what a worker is told to run: a trial's command, and the WIRE_RUN that carries it. */
#ifndef DROVER_RUN_MESSAGE_H
#define DROVER_RUN_MESSAGE_H

#include <jansson.h>

#include "common/err.h"
#include "hpo/spec/spec.h"

struct run_message {
    const struct spec *spec;
    const char *sweep; /* its name */
    const char *dir;   /* its directory, absolute */
    const char *wdir;  /* where trials run */
};

/* Whether the sweep's program is there: as a file, or in PATH.
 *   -ENOENT  it is not */
int run_message_check(const struct run_message *o, struct err *e);

/* The argv that runs `params` as trial `trial`: a strv.
 *   -EINVAL  as trial_command_build() */
int run_message_argv(char ***out, const struct run_message *o, int trial, const json_t *params,
                     struct err *e);

/* WIRE_RUN's data (new reference). `others`: as sched_action has it; NULL: none.
 *   -EINVAL  as trial_command_build(), or something of it is no UTF-8 */
int run_message_data(json_t **out, const struct run_message *o, int trial, json_t *params,
                     json_t *others, struct err *e);

#endif
