/* progress_text - a sweep's state as text for people. Reads no clock and no file.
 *
 * Trials are objects of scheduler_trial_json(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/scheduler/scheduler.h"

/* Appends a line, without a newline, for a worker whose fault (scheduler_worker_fault()) has
 * changed: its cause, and when it gets trials again. Appends nothing if there is nothing to say. */
void progress_text_fault(struct strbuf *out, const char *worker, const char *node,
                         const json_t *fault, int64_t now_ms);

/* Appends a line, without a newline, for the workers of scheduler_awaited(). Appends nothing if
 * there are none. */
void progress_text_awaited(struct strbuf *out, const json_t *workers, int64_t now_ms);

/* Appends a line for a trial that has ended, with its newline: "trial 17  done  loss 0.41
 * lr=0.01  3.2 s". */
void progress_text_ended(struct strbuf *out, const json_t *trial, const char *metric,
                         bool new_best);

/* Returns true if the trial has ended with a value and does not satisfy the outcome constraints. */
bool progress_text_infeasible(const json_t *trial);

struct progress_text_metric {         /* a metric that a trial did not report */
    const struct spec_metric *metric; /* as in the sweep file */
    bool listed;                      /* it is one of several, in `metrics` */
    const json_t
        *others; /* an object whose keys are other names that the trial has reported; NULL */
    const char *line, *pattern; /* a line of its output that looks like the metric, and a pattern
                                   that finds it there (NULL: none can); both NULL: none */
    bool on_stderr;             /* the line is there */
    bool quoted;                /* the number in the line is a text, in quotes */
};
/* Appends how a program reports the metric. What stands for the sweep file can replace what is
 * there: it has the metric's goal and target. */
void progress_text_metric_help(struct strbuf *out, const struct progress_text_metric *m);

/* Appends the `command` with which a sweep's program understands its arguments, if `output` of a
 * trial that failed says that it does not; otherwise nothing. `items`: the sweep's command. */
void progress_text_command_help(struct strbuf *out, char *const *items, const char *output);

/* Appends "3.2 s", "1 min 15 s" or "1 h 02 min". */
void progress_text_seconds(struct strbuf *out, double s);

/* Appends "12 of 40 trials: 9 done, 2 pruned, 1 failed, 3 running", without a newline. */
void progress_text_counts(struct strbuf *out, const struct scheduler_counts *c);

/* Appends a table of at most `max` trials with a column per parameter. The best trial is first;
 * trials without a value are last, in their order. `trials` is an array of trials. With several
 * objectives each has a column, and the trials of `front`, an array of ids (NULL: one objective),
 * are first, with a star instead of their rank. A trial with an error has a second line with the
 * error and the directory of its output, which stands once for all trials with this error; `dir` is
 * that of the sweep (NULL: without it). */
void progress_text_table(struct strbuf *out, const json_t *trials, const struct spec *spec,
                         const json_t *front, const char *dir, size_t max);

/* Appends the directory of the output of a trial's last lease; nothing if it had no lease. */
void progress_text_output(struct strbuf *out, const json_t *trial, const char *dir);

/* Appends "importance  lr 0.71  width 0.20" with its newline, from sweep_analysis_importance().
 * Omits values that round to 0. */
void progress_text_importance(struct strbuf *out, const json_t *importance);

/* Keeps in *constants the parameters that have one value in the trials of all calls. The first call
 * makes it, if it is NULL; the caller frees it. */
void progress_text_constants(json_t **constants, const json_t *params);
/* Appends "lr=0.01 act=relu", without a newline: first what is not in `constants`, an object or
 * NULL. */
void progress_text_params(struct strbuf *out, const json_t *params, const json_t *constants);

/* Appends the words in shell syntax, quoted if they have special characters. */
void progress_text_shell(struct strbuf *out, char *const *argv);
