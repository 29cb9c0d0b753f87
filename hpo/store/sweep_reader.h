/* view - a sweep as it is stored, for those who only look: its file, its trials, its state. */
#ifndef DROVER_SWEEP_READER_H
#define DROVER_SWEEP_READER_H

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"

/* Reads the text of a sweep file; `name` stands for it in messages.
 *   as yaml_read() and spec_read(), and where its command or its pattern is none */
int sweep_reader_spec(struct spec **out, const char *text, const char *name, struct err *e);

/* Gives a spec what is stored beside its file: the seed, and what was learnt from other sweeps. */
void sweep_reader_apply_stored(struct spec *s, const struct sweep_dir *d);

struct sweep_reader {
    struct sweep_dir *dir;
    struct spec *spec;
    struct scheduler *sched;
};

/* What is stored now. Changes nothing.
 *   -ENOENT, -EBADMSG, … as sweep_dir_read() and event_store_replay() */
int sweep_reader_open(struct sweep_reader **out, const char *root, const char *name, struct err *e);
/* The same, locked and to write to: nobody coordinates it meanwhile. What was out stays out.
 *   -EBUSY  somebody does; others as sweep_dir_open() */
int sweep_reader_open_locked(struct sweep_reader **out, const char *root, const char *name,
                             struct err *e);
void sweep_reader_close(struct sweep_reader *v);
AUTO_DEFINE(sweep_reader, struct sweep_reader *, sweep_reader_close)

/* "running", "paused" (by the user), "finished", or "stopped": by the user, or nobody works on it.
 */
const char *sweep_reader_state(const struct sweep_reader *v);

/* {"name","method","state","best","pareto"?,"importance","trials":[…],"workers":[…]}: DESIGN's
 * `sweep show` (new reference). `best` is {"id","value","params"} or null. */
json_t *sweep_reader_json(const struct sweep_reader *v);

/* As sweep_analysis_importance(); null without a metric. New reference. */
json_t *sweep_reader_importance(const struct sweep_reader *v);
/* As sweep_analysis_front(); NULL where there is one objective, or none. New reference. */
json_t *sweep_reader_pareto(const struct sweep_reader *v);

/* Who works on it now: [{"id","node","places","slots","gpus","running"}, …]; empty where nobody
 * coordinates it. */
json_t *sweep_reader_workers(const struct sweep_reader *v);

/* Every trial, as scheduler_trial_json() has it: an array. */
json_t *sweep_reader_trials(const struct sweep_reader *v);

#endif
