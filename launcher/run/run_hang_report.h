/* cmd_run_hang - --hang-timeout: looks at the ranks from time to time, and tells when the job
 * stands still: where every rank stands, who differs from the others, and their stacks. */
#ifndef DROVER_RUN_HANG_REPORT_H
#define DROVER_RUN_HANG_REPORT_H

#include <uv.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/run/cmd_run.h"

struct cmd_run_hang;

/* `found` is called twice, from the loop: at once with the report for people (whole lines), `j`
 * NULL; and when stacks were taken, with these and, for a file, everything as JSON (its own
 * reference). The job and the options (`who`, `hang_timeout_s`) are borrowed. */
struct cmd_run_hang *cmd_run_hang_open(uv_loop_t *loop, struct launch *job,
                                       const struct cmd_run_opts *o,
                                       void (*found)(void *arg, const char *text, json_t *j),
                                       void *arg);
/* Appends how the collectives of the job's ranks stand to each other, for people (whole lines).
 * Nothing where nobody waits in one and none has failed. Says whether anybody differs. */
bool cmd_run_hang_collectives(struct strbuf *b, const struct launch *job, const bool *over);

/* Its handles close on the loop's next turns. */
void cmd_run_hang_close(struct cmd_run_hang *h);

void cmd_run_hang_spoke(struct cmd_run_hang *h, int rank);
/* The answer to launch_ask_stack(). */
void cmd_run_hang_stack(struct cmd_run_hang *h, int rank, const char *text);
void cmd_run_hang_over(struct cmd_run_hang *h, int rank);

#endif
