/* run_result - how a trial's job ended, as JSON for the scheduler. Reads no clock and no file. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "common/strbuf.h"
#include "launcher/engine/launch.h"

/* Returns {"status","signal","oom","seconds","stopped","error"?,"preempted"?} (new reference), the
 * data of SCHEDULER_EV_DONE. `stopped`: it ended because it was told to stop. `oom` is also true if
 * the last lines are what frameworks print when a GPU or the machine is out of memory. `error`
 * names the cause and the last line of the first failed rank; it is absent if no rank failed. */
json_t *run_result_json(const struct job_end *end, bool preempted);

/* The same for a job that never ran. `error` is the cause; NULL: it was stopped before it
 * started. */
json_t *run_result_not_started(const char *error, bool preempted);

/* Appends how a run ended: "exit status 0", "exit status 1: no such file", "stopped", … */
void run_result_text(struct strbuf *out, const json_t *result);

/* Adds that the end is the fault of a node: 0 is this one, 1 … the others of the gang. `cause`
 * precedes the error; NULL: the error has it. */
void run_result_blame_node(json_t *result, int node, const char *cause);

/* Returns the text as UTF-8, cut to at most `max` bytes (utf8_add()). To be freed. */
char *run_result_utf8(const char *text, size_t max);
