/* serve_command - the commands of a viewer, with --control: the same requests that `drover sweep
 * stop` and its siblings send. Pure. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"

/* Reads a command, whose data are those of command_client_send(): {"verb": "stop", "finish": true}.
 * A set to add may also be "words", as `drover sweep add --param` takes them: ["lr=1e-4", …].
 * Returns a new reference, or NULL if the text is not one of them. The coordinator checks the rest.
 *   -EINVAL  not JSON, an unknown verb or key, or a wrong word */
json_t *serve_command_read(const char *text, size_t len, struct err *e);
