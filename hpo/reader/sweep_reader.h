/* sweep_reader - a sweep for those who look at it: what is stored now, and what is new later.
 *
 * Writes nothing, takes no lock, and needs no write permission (event_store.h). */
#ifndef DROVER_SWEEP_READER_H
#define DROVER_SWEEP_READER_H

#include <jansson.h>
#include <stdio.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"

struct sweep_reader {
    struct sweep_dir *dir;
    struct spec *spec;
    struct sweep_columns *columns;
};

/* Opens a sweep and reads what is stored now.
 *   -ENOENT, -EBADMSG, …  as sweep_dir_read() and event_store_read() */
int sweep_reader_open(struct sweep_reader **out, const char *root, const char *name, struct err *e);
void sweep_reader_close(struct sweep_reader *v);
AUTO_DEFINE(sweep_reader, struct sweep_reader *, sweep_reader_close)

/* Reads what is new. Errors as event_store_read(). */
int sweep_reader_update(struct sweep_reader *v, struct err *e);

/* "running", "paused" (by the user), "finished", or "stopped": by the user, or since no coordinator
 * is running. */
const char *sweep_reader_state(const struct sweep_reader *v);

struct scheduler_counts sweep_reader_counts(const struct sweep_reader *v);

/* The trial that is recommended, or -1: what the sampler's model says is best, or else the best.
 * May fit a model. */
int sweep_reader_recommended(const struct sweep_reader *v);

/* Prints {"name","method","state","best","pareto"?,"importance","trials":[…],"workers":[…]} as one
 * line, trial by trial: the output of `sweep show --json`. `best` is {"id","value","params"} or
 * null. */
void sweep_reader_print_json(const struct sweep_reader *v, FILE *out);

/* Returns sweep_analysis_importance() of at most READER_ANALYSED_MAX trials, which are spread over
 * all; null without a metric. New reference. */
enum { READER_ANALYSED_MAX = 5000 };
json_t *sweep_reader_importance(const struct sweep_reader *v);
/* Returns sweep_analysis_front(); NULL with fewer than two objectives. New reference. */
json_t *sweep_reader_pareto(const struct sweep_reader *v);

/* The workers: [{"id","node","places","slots","gpus","running"}, …]; empty if no coordinator is
 * running. New reference. */
json_t *sweep_reader_workers(const struct sweep_reader *v);

/* At most `max` trials, each as sweep_columns_trial_json() returns it: those of the Pareto front
 * `front` (ids; NULL: none) first, then the best ones, then those without a value. New reference.
 */
json_t *sweep_reader_top(const struct sweep_reader *v, const json_t *front, size_t max);

#endif
