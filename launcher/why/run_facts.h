/* run_facts - the facts of a run, from its log: what was started, where, with what, and how fast.
 * Pure. */
#pragma once

#include "common/json.h"

/* Returns the facts as an object of texts (new reference). The first word of a name is its group:
 * "command --lr", "variable NCCL_DEBUG". A group of which the log has nothing has no facts. `meta`:
 * that of the log, in which "series" has its first and last report: [{"at": MS, "data": {…}}, …];
 * it may be missing. */
json_t *run_facts_of(const json_t *meta);

/* Returns the name of the script or program that the run has run (history_command_read()), without
 * its directory; "": unknown. The caller frees it. */
char *run_facts_program(const json_t *meta);

/* Returns how many times longer `a` took than `b`: for a step if both have reported steps, else in
 * all; 0: unknown. */
double run_facts_slowdown(const json_t *a, const json_t *b);
