/* progress - a sweep's state as text for people. Pure: what is known goes in, text comes out.
 *
 * Trials are objects as scheduler_trial_json() gives them. */
#ifndef DROVER_PROGRESS_TEXT_H
#define DROVER_PROGRESS_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"
#include "hpo/scheduler/scheduler.h"

struct progress_text {
    const char *name;   /* of the sweep */
    const char *metric; /* NULL: it has none */
    struct scheduler_counts counts;
    const json_t *best;    /* NULL: no trial has a value */
    const json_t *running; /* array of trials */
    double seconds;        /* since the sweep was started or gone on with */
};

/* The block that is painted again and again: what is done, the best, what runs. At most `rows`
 * lines of at most `columns` characters, each with its newline. */
void progress_text_block(struct strbuf *out, const struct progress_text *p, int columns, int rows);

/* A line for a trial that ended, with its newline: "trial 17  done  loss 0.41  lr=0.01  3.2 s". */
void progress_text_ended(struct strbuf *out, const json_t *trial, const char *metric,
                         bool new_best);

/* "12 of 40 trials: 9 done, 2 pruned, 1 failed, 3 running"; without a newline. */
void progress_text_counts(struct strbuf *out, const struct scheduler_counts *c);

/* The trials, best first (those without a value last, in their order), at most `max` of them, a
 * column for each parameter. `trials` is an array of all, in the order of their ids from 0 on; it
 * is left as it is. With several objectives each has a column, and the trials of `front`, an array
 * of ids (NULL: one objective), come first, with a star in place of their rank. */
void progress_text_table(struct strbuf *out, const json_t *trials, const struct spec *spec,
                         const json_t *front, size_t max);

/* "importance  lr 0.71  width 0.20", of what sweep_analysis_importance() gives; with its newline.
 * What rounds to 0 is left out. */
void progress_text_importance(struct strbuf *out, const json_t *importance);

/* "lr=0.01 act=relu"; without a newline. */
void progress_text_params(struct strbuf *out, const json_t *params);

/* Words as a shell reads them back: those with other than plain characters in quotes. */
void progress_text_shell(struct strbuf *out, char *const *argv);

#endif
