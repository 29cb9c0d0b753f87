/* ending - how a trial's job ended, as the scheduler wants to be told. Pure. */
#ifndef DROVER_RUN_RESULT_H
#define DROVER_RUN_RESULT_H

#include <jansson.h>
#include <stdbool.h>

#include "launcher/engine/launch.h"

/* {"status","signal","oom","seconds","stopped","error"?,"preempted"?} (new reference):
 * SCHEDULER_EV_DONE's data. `stopped`: it ended because it was told to. `oom` is also told from
 * what frameworks print when a GPU's or the machine's memory is spent. `error` names the cause and
 * the last line that the first failed rank wrote; there is none where the job ended well. */
json_t *run_result_json(const struct job_end *end, bool preempted);

/* The same for a job that never ran: `error` says why; NULL: it was told to stop before. */
json_t *run_result_not_started(const char *error, bool preempted);

/* The text as UTF-8, cut after at most `max` bytes: where it is none, every byte beyond ASCII
 * becomes '?'. To be freed. */
char *run_result_utf8(const char *text, size_t max);

#endif
