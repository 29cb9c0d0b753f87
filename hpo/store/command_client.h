/* command_client - sends a user's command to the coordinator of a sweep and waits for the reply. If
 * no coordinator runs, the command is applied to the store here, and the next coordinator continues
 * from there. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"

enum { COMMAND_CLIENT_TIMEOUT_MS = 2000 };

/* Sends a command and waits for the reply. `command` is the command's data (scheduler.h) without
 * the id, which this function adds. Sets *reply to the reply of command_mailbox_set_reply() (new
 * reference). Sets *applied_here to true if no coordinator runs, and this process has applied the
 * command.
 *   -ENOENT     there is no such sweep
 *   -ETIMEDOUT  the coordinator does not reply; the text names it, and the command stays queued
 *   -EINVAL     the command is not possible now; text and hint are those of the reply
 *   others      the sweep cannot be read or written */
int command_client_send(json_t **reply, bool *applied_here, const char *root, const char *name,
                        json_t *command, struct err *e);
