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
int desk_put(const char *dir, const json_t *ask, struct err *e);
/* The answer of desk_answer() (new reference), taken away; NULL: none yet. */
json_t *desk_collect(const char *dir, const char *id);
/* Nobody waits for an answer any more; the ask stays. */
void desk_leave(const char *dir, const char *id);

/* ---- who answers ---------------------------------------------------------------------------- */

struct desk; /* the asks that were there, kept from others until it is closed */

/* NULL: there are none, or somebody writes one just now. What is no JSON is dropped with a warning.
 */
struct desk *desk_open(const char *dir);
void desk_close(struct desk *d);
AUTO_DEFINE(desk, struct desk *, desk_close)

/* Their number; the i-th, borrowed. */
size_t desk_count(const struct desk *d);
const json_t *desk_ask(const struct desk *d, size_t i);

/* Notes what came of the i-th: `error` (code 0: none), or what the step gave.
 * {"ok":true,"trials":[those that were added or wait again],"running":n,"over":bool} or
 * {"error","hint"} */
void desk_note(struct desk *d, size_t i, const struct err *error, const struct sched *s,
               const struct sched_out *out);

/* All that follows is stored: tells those who wait, and empties the file. Without it the asks stay.
 */
void desk_settle(struct desk *d);

#endif
