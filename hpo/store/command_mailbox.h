/* desk - what a user asks of a sweep, and how it gets to whoever holds the sweep: two kinds of
 * files in its directory, so it may be asked from any machine that sees it.
 *
 *     asks        a line of JSON each (sched.h: ASK's data); emptied once all of them are stored
 *     answer.ID   made by who asks, written to by who answers
 *
 * Files are written in place and opened anew for each look, which is what a network file system
 * shows to others at once. An ask stays until somebody has taken it; it may be taken twice, and is
 * known by its id. */
#ifndef DROVER_COMMAND_MAILBOX_H
#define DROVER_COMMAND_MAILBOX_H

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"

/* ---- who asks ------------------------------------------------------------------------------- */

/* Lays an ask down in the sweep's directory `dir`, and a sheet for the answer beside it.
 *   -EBUSY  somebody reads the asks just now: try again
 *   others  as open() and write() say */
int command_mailbox_submit(const char *dir, const json_t *ask, struct err *e);
/* The answer of desk_answer() (new reference), taken away; NULL: none yet. */
json_t *command_mailbox_poll_reply(const char *dir, const char *id);
/* Nobody waits for an answer any more; the ask stays. */
void command_mailbox_abandon(const char *dir, const char *id);

/* ---- who answers ---------------------------------------------------------------------------- */

struct command_mailbox; /* the asks that were there, kept from others until it is closed */

/* NULL: there are none, or somebody writes one just now. What is no JSON is dropped with a warning.
 */
struct command_mailbox *command_mailbox_open(const char *dir);
void command_mailbox_close(struct command_mailbox *d);
AUTO_DEFINE(command_mailbox, struct command_mailbox *, command_mailbox_close)

/* Their number; the i-th, borrowed. */
size_t command_mailbox_count(const struct command_mailbox *d);
const json_t *command_mailbox_get(const struct command_mailbox *d, size_t i);

/* Notes what came of the i-th: `error` (code 0: none), or what the step gave.
 * {"ok":true,"trials":[those that were added or wait again],"running":n,"over":bool} or
 * {"error","hint"} */
void command_mailbox_set_reply(struct command_mailbox *d, size_t i, const struct err *error,
                               const struct scheduler *s, const struct scheduler_out *out);

/* All that follows is stored: tells those who wait, and empties the file. Without it the asks stay.
 */
void command_mailbox_commit(struct command_mailbox *d);

#endif
