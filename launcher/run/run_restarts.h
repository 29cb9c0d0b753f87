/* cmd_run_again - --max-restarts: the next attempt of `drover run`'s job, after a pause. */
#ifndef DROVER_RUN_RESTARTS_H
#define DROVER_RUN_RESTARTS_H

#include <uv.h>

#include "launcher/run/cmd_run.h"
#include "launcher/run/run_monitor.h"

struct cmd_run_again;

/* `start` is called from the loop when an attempt is due. Borrows the options, whose spec it makes
 * into that of the next attempt. */
struct cmd_run_again *cmd_run_again_open(uv_loop_t *loop, struct cmd_run_opts *o,
                                         void (*start)(void *arg), void *arg);
/* Its handle closes on the loop's next turn. May be NULL. */
void cmd_run_again_close(struct cmd_run_again *a);

/* The job `p` has ended with `status`; `unwanted` as restart_end has it. True where it is started
 * again, which is said (to people and to `w`). */
bool cmd_run_again_after(struct cmd_run_again *a, const struct plan *p, const struct job_end *end,
                         int status, bool unwanted, struct cmd_run_watch *w);
/* The attempt that runs, or the next one: 0 is the first. */
int cmd_run_again_attempt(const struct cmd_run_again *a);

#endif
