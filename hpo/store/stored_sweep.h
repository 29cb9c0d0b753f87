/* stored_sweep - a sweep that is read from its directory: the sweep file as a spec, and a scheduler
 * with the sweep's state. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"

/* Reads the text of a sweep file. `name` names it in messages. Errors are those of yaml_read() and
 * spec_read(), and -EINVAL if its command or a metric's pattern is invalid. */
int stored_sweep_spec(struct spec **out, const char *text, const char *name, struct err *e);
/* The same for the file of a stored sweep, in which an older version may have accepted what can
 * have no effect. */
int stored_sweep_read(struct spec **out, const struct sweep_dir *d, struct err *e);

/* Sets the seed and the warm start of a spec to the stored ones. The spec was read from the sweep
 * file. */
void stored_sweep_apply(struct spec *s, const struct sweep_dir *d);

struct stored_sweep {
    struct sweep_dir *dir;
    struct spec *spec;
    struct scheduler *sched;
};

/* Opens a sweep for writing and locks it. No coordinator can start until the sweep is closed.
 * Trials stay leased to their workers.
 * `watch` as in sweep_owner_acquire().
 *   -EBUSY  a coordinator is running; others as sweep_dir_open() and event_store_replay() */
int stored_sweep_lock(struct stored_sweep **out, const char *root, const char *name,
                      struct sweep_owner_watch *watch, struct err *e);
void stored_sweep_close(struct stored_sweep *v);
AUTO_DEFINE(stored_sweep, struct stored_sweep *, stored_sweep_close)
