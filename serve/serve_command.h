/* serve_command - the commands of a viewer, with --control: the same requests that `drover sweep
 * stop` and its siblings send. Pure. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"

/* Reads a command, whose data are those of command_client_send(): {"verb": "stop", "finish": true}.
 * Returns a new reference, or NULL if the text is not one of them. The coordinator checks the rest.
 *   -EINVAL  not JSON, an unknown verb, or an unknown key */
json_t *serve_command_read(const char *text, size_t len, struct err *e);
