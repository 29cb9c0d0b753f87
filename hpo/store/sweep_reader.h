/* sweep_reader - reads a stored sweep: its file, its trials, its state. */
#ifndef DROVER_SWEEP_READER_H
#define DROVER_SWEEP_READER_H

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"

/* Reads the text of a sweep file; messages call it `name`. Errors as yaml_read() and spec_read(),
 * and -EINVAL  its command or a metric's pattern is invalid */
int sweep_reader_spec(struct spec **out, const char *text, const char *name, struct err *e);

/* Sets the stored seed and the stored warm start in a spec that was read from the file. */
void sweep_reader_apply_stored(struct spec *s, const struct sweep_dir *d);

struct sweep_reader {
    struct sweep_dir *dir;
    struct spec *spec;
    struct scheduler *sched;
};

/* Reads what is stored now. Changes nothing.
 *   -ENOENT, -EBADMSG, …  as sweep_dir_read() and event_store_replay() */
int sweep_reader_open(struct sweep_reader **out, const char *root, const char *name, struct err *e);
/* The same, to write to, and locked: until it is closed no coordinator can start. Trials stay
 * leased to their workers. -EBUSY  a coordinator is running; others as sweep_dir_open() */
int sweep_reader_open_locked(struct sweep_reader **out, const char *root, const char *name,
                             struct err *e);
void sweep_reader_close(struct sweep_reader *v);
AUTO_DEFINE(sweep_reader, struct sweep_reader *, sweep_reader_close)

/* "running", "paused" (by the user), "finished", or "stopped": by the user, or since no coordinator
 * is running. */
const char *sweep_reader_state(const struct sweep_reader *v);

/* {"name","method","state","best","pareto"?,"importance","trials":[…],"workers":[…]}: the output
 * of `sweep show --json` (new reference). `best` is {"id","value","params"} or null. */
json_t *sweep_reader_json(const struct sweep_reader *v);

/* Returns sweep_analysis_importance(); null without a metric. New reference. */
json_t *sweep_reader_importance(const struct sweep_reader *v);
/* Returns sweep_analysis_front(); NULL with fewer than two objectives. New reference. */
json_t *sweep_reader_pareto(const struct sweep_reader *v);

/* The workers: [{"id","node","places","slots","gpus","running"}, …]; empty if no coordinator is
 * running. New reference. */
json_t *sweep_reader_workers(const struct sweep_reader *v);

/* All trials, each as scheduler_trial_json() returns it: an array. New reference. */
json_t *sweep_reader_trials(const struct sweep_reader *v);

#endif
