/* idle_watch - implements `drover run --idle-timeout`: finds out if a job neither uses its GPUs nor
 * writes or reports anything.
 *
 * Only the GPUs of this machine can be observed. If the driver does not report their utilisation,
 * as for MIG instances, the job counts as busy. */
#ifndef DROVER_IDLE_WATCH_H
#define DROVER_IDLE_WATCH_H

#include <uv.h>

#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/monitor/job_monitor.h"

struct idle_watch;

/* Observes the job, with the monitor of its GPUs. If the job is idle for `timeout_s`, the loop
 * calls `on_idle` once. Logs a warning if the job has no GPU, or has ranks on other nodes: the
 * watch has no effect then. Borrows the job and the monitor, which may be NULL, until it is closed.
 */
struct idle_watch *idle_watch_open(uv_loop_t *loop, struct launch *job, struct job_monitor *monitor,
                                   double timeout_s, void (*on_idle)(void *arg), void *arg);
/* Call this when the job emits no more events. The handle closes in the loop's next iteration. `w`
 * may be NULL. */
void idle_watch_close(struct idle_watch *w);

#endif
