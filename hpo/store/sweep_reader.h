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
int view_spec(struct spec **out, const char *text, const char *name, struct err *e);

/* Gives a spec what is stored beside its file: the seed, and what was learnt from other sweeps. */
void view_settle(struct spec *s, const struct sweepdir *d);

struct view {
    struct sweepdir *dir;
    struct spec *spec;
    struct sched *sched;
};

/* What is stored now. Changes nothing.
 *   -ENOENT, -EBADMSG, … as sweepdir_read() and store_replay() */
int view_open(struct view **out, const char *root, const char *name, struct err *e);
/* The same, locked and to write to: nobody coordinates it meanwhile. What was out stays out.
 *   -EBUSY  somebody does; others as sweepdir_open() */
int view_hold(struct view **out, const char *root, const char *name, struct err *e);
void view_close(struct view *v);
AUTO_DEFINE(view, struct view *, view_close)

/* "running", "paused" (by the user), "finished", or "stopped": by the user, or nobody works on it.
 */
const char *view_state(const struct view *v);

/* {"name","method","state","best","pareto"?,"importance","trials":[…],"workers":[…]}: DESIGN's
 * `sweep show` (new reference). `best` is {"id","value","params"} or null. */
json_t *view_json(const struct view *v);

/* As insight_importance(); null without a metric. New reference. */
json_t *view_importance(const struct view *v);
/* As insight_front(); NULL where there is one objective, or none. New reference. */
json_t *view_pareto(const struct view *v);

/* Who works on it now: [{"id","node","places","slots","gpus","running"}, …]; empty where nobody
 * coordinates it. */
json_t *view_workers(const struct view *v);

/* Every trial, as sched_trial_json() has it: an array. */
json_t *view_trials(const struct view *v);

#endif
