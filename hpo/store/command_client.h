/* asking - brings what a user asks to whoever holds the sweep, and waits for the answer. Where
 * nobody holds it, the ask is stored here, and the next coordinator goes on from there. */
#ifndef DROVER_COMMAND_CLIENT_H
#define DROVER_COMMAND_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"

enum { COMMAND_CLIENT_TIMEOUT_MS = 2000 };

/* `ask`: ASK's data (sched.h) without its id. *answer is command_mailbox_set_reply()'s (new
 * reference); *here says that it was given here, since nobody coordinates the sweep. -ENOENT there
 * is no such sweep -ETIMEDOUT  its coordinator does not answer: the text names it; the ask stays
 *   -EINVAL     it makes no sense now: what the answer says
 *   others      the sweep cannot be read or written to */
int command_client_send(json_t **answer, bool *here, const char *root, const char *name,
                        json_t *ask, struct err *e);

#endif
