/* sweep_reader - reads a sweep in order to show it: first all that is stored, later what is new.
 *
 * A reader writes nothing, takes no lock, and needs no write permission (event_store.h). */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"

struct sweep_reader {
    struct sweep_dir *dir;
    struct spec *spec;
    struct sweep_columns *columns;
};

/* Opens a sweep and reads all that is stored. Errors are those of sweep_dir_read() and
 *   event_store_read(). */
int sweep_reader_open(struct sweep_reader **out, const char *root, const char *name, struct err *e);
void sweep_reader_close(struct sweep_reader *v);
AUTO_DEFINE(sweep_reader, struct sweep_reader *, sweep_reader_close)

/* Reads the records that are new since the last call. Errors are those of event_store_read(). */
int sweep_reader_update(struct sweep_reader *v, struct err *e);

/* Sets the members "state" and "reason" (a string or null) of `o` to sweep_status_of() the sweep.
 */
void sweep_reader_set_status(const struct sweep_reader *v, json_t *o);
/* Appends them as sweep_status_text() does. */
void sweep_reader_status_text(struct strbuf *out, const struct sweep_reader *v);

struct scheduler_counts sweep_reader_counts(const struct sweep_reader *v);

/* Returns the recommended trial, or -1. This is the best trial by the sampler's model, or the one
 * with the best value if there is no model. The call may fit a model. */
int sweep_reader_recommended(const struct sweep_reader *v);

/* Returns sampler_note() of all trials, which the caller frees; NULL: nothing. */
char *sweep_reader_note(const struct sweep_reader *v);

/* Prints the output of `sweep show --json` in one line, trial by trial:
 * {"name","method","state","reason","best","pareto"?,"importance","trials":[…],"workers":[…]}.
 * `best` is
 * {"id","value","params"} or null. */
void sweep_reader_print_json(const struct sweep_reader *v, FILE *out);

/* Returns sweep_analysis_importance() of at most READER_ANALYSED_MAX trials, which are spread
 * evenly over all trials. Returns JSON null if there is no metric. New reference. */
enum { READER_ANALYSED_MAX = 5000 };
json_t *sweep_reader_importance(const struct sweep_reader *v);
/* Returns sweep_analysis_importance_ranges() of at most READER_RESAMPLED_MAX trials, with
 * `resamples` samples (0: without intervals). The rest as above. */
enum { READER_RESAMPLED_MAX = 2000, READER_RESAMPLES = 10 };
json_t *sweep_reader_importance_ranges(const struct sweep_reader *v, int resamples);
/* Returns sweep_analysis_front() (new reference), or NULL if there are fewer than two
 * objectives. */
json_t *sweep_reader_pareto(const struct sweep_reader *v);

/* Returns the workers: [{"id","node","places","slots","gpus","running"}, …]. The list is empty if
 * no coordinator is running. New reference. */
json_t *sweep_reader_workers(const struct sweep_reader *v);

/* Returns at most `max` trials, each as sweep_columns_trial_json() returns it. The trials of the
 * Pareto set `front` (ids; may be NULL) come first, then the best other trials, then trials without
 * a value. New reference. */
json_t *sweep_reader_top(const struct sweep_reader *v, const json_t *front, size_t max);
