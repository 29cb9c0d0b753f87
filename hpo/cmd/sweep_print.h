/* sweep_print - prints one trial of a sweep, its curves, and its table as CSV. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "hpo/coordinator/run_message.h"
#include "hpo/reader/sweep_reader.h"

/* Appends "drover run -np 2 --cpus-per-rank 4 -- PROGRAM …", without a newline: what a shell needs
 * to run a trial with its resources. `argv` is the trial's; `dir` is the directory of its last
 * lease (NULL: none), which says if the program needs `wandb` to be as it was in the trial. */
void sweep_print_command(struct strbuf *out, const struct run_message_opts *m, const char *dir,
                         char *const *argv);

/* Who reads a command: the user, who pastes it, or others, for whom secrets are "***". */
enum sweep_print_for { SWEEP_PRINT_TO_PASTE, SWEEP_PRINT_FOR_OTHERS };

/* The same for a trial of `m->spec`. Errors as run_message_argv(). */
int sweep_print_trial_command(struct strbuf *out, const struct run_message_opts *m,
                              const struct sweep_columns *c, size_t trial,
                              enum sweep_print_for reader, struct err *e);
/* Appends the best trial with its value and its parameters, and its command on a second line. */
void sweep_print_best(struct strbuf *out, const struct run_message_opts *m,
                      const struct sweep_columns *c, size_t best);

/* Appends the trial's state, value, reason, parameters, curve and leases. */
void sweep_print_trial(struct strbuf *out, const struct sweep_columns *c, const struct spec *spec,
                       size_t trial);
/* Returns the same as JSON: sweep_columns_trial_json(), with "curves" {metric: [[step,value], …]}
 * and "leases" [{"lease","node","worker","begin_ms","end_ms"?,"why"?}, …]. New reference. */
json_t *sweep_print_trial_json(const struct sweep_columns *c, size_t trial);

/* Appends the curve as lines of characters: `width` columns, each with the mean of its points, and
 * `height` rows. Appends nothing if there are fewer than two points. */
void sweep_print_plot(struct strbuf *out, const struct trial_curve *curve, int width, int height);

/* Appends one line per trial of `trials` (sweep_columns_trial_json()): its number, state, value,
 * and its curve in `width` characters. All curves have one scale. */
void sweep_print_curves(struct strbuf *out, const struct sweep_columns *c, const struct spec *spec,
                        const json_t *trials, int width);

/* Prints all trials as CSV (RFC 4180), the names of the columns first: trial, state, value, the
 * last value of each metric, the parameters, steps, seconds, node, why, error. */
void sweep_print_csv(FILE *out, const struct sweep_columns *c);
