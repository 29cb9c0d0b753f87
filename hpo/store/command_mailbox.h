/* command_mailbox - files through which users' commands reach the coordinator of a sweep, from any
 * machine that shares the sweep's directory:
 *
 *     commands/ID   a command, as a line of JSON (scheduler.h)
 *     answer.ID     created by the sender of command ID, replaced by the receiver
 *
 * Each file is renamed into place when it is whole, so no locks are needed: any number of senders
 * reach the receiver, which is the owner of the sweep (sweep_owner.h). A command stays until the
 * receiver has stored it. A receiver may get the same command twice, and recognises it by its
 * id. */
#pragma once

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"

/* ---- the sender ----------------------------------------------------------------------------- */

/* Sets the command's `ask` to a new id, which the command owns. Returns the id; NULL: an error. */
const char *command_mailbox_set_id(json_t *command, struct err *e);
/* Puts a command, whose `ask` is its id, into the mailbox in `dir`, and creates the reply's file.
 * After a failure the command is not there. Errors as open(), write() and rename(). */
int command_mailbox_submit(const char *dir, const json_t *command, struct err *e);
/* Returns the reply (new reference) and removes its file; NULL: there is none yet. */
json_t *command_mailbox_poll_reply(const char *dir, const char *id);
/* Removes the reply's file. The command stays. */
void command_mailbox_abandon(const char *dir, const char *id);

/* ---- the receiver --------------------------------------------------------------------------- */

struct command_mailbox; /* the commands that were found */

/* Reads the commands, in the order in which they were sent. Returns NULL if there are none. What is
 * not JSON is removed with a warning. */
struct command_mailbox *command_mailbox_open(const char *dir);
void command_mailbox_close(struct command_mailbox *m);
AUTO_DEFINE(command_mailbox, struct command_mailbox *, command_mailbox_close)

/* Return the number of commands, and the i-th command (borrowed). */
size_t command_mailbox_count(const struct command_mailbox *m);
const json_t *command_mailbox_get(const struct command_mailbox *m, size_t i);

/* Sets the reply to the i-th command: `error` (code 0: none), or what the scheduler made of it.
 * {"ok":true,"trials":[added, waiting again or cancelled],"running":n,"over":bool} or
 * {"error","hint"} */
void command_mailbox_set_reply(struct command_mailbox *m, size_t i, const struct err *error,
                               const struct scheduler *s, const struct scheduler_out *out);

/* Writes the replies and removes the commands. Call this only when all records of the commands are
 * stored. Without this call the commands stay. */
void command_mailbox_commit(struct command_mailbox *m);
