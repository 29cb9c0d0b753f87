/* stopper - early stopping: one shape for all rules.
 *
 * A rule is asked at each report of a running trial, not now and then, and in the order in which
 * the reports came; it keeps nothing but what is in the trials. A rule that pauses is also asked,
 * whenever a place is free, whether a paused trial should go on before a new one starts. */
#ifndef DROVER_STOPPER_H
#define DROVER_STOPPER_H

#include <stdbool.h>

#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

enum stopper_verdict { STOPPER_GO, STOPPER_STOP, STOPPER_PAUSE };

struct stopper_ops {
    const char *name; /* the word in `early_terminate: type:`, and in a trial's reason */
    /* What becomes of `t`, one of view's trials, after its last report. */
    enum stopper_verdict (*judge)(const struct spec_stop *rule, bool maximize,
                                  const struct trial_view *view, struct trial *t);
    /* judge() notes in `t` what follows from the order of the reports: it has to be asked again
     * when they are replayed. */
    bool notes;
    /* The id of the paused trial that should go on now, or -1: none. NULL: it never pauses. */
    int (*resume)(const struct spec_stop *rule, bool maximize, const struct trial_view *view);
    /* The same when no new trial can start: what is left comes to an end. NULL where resume is. */
    int (*finish)(const struct spec_stop *rule, bool maximize, const struct trial_view *view);
};

/* Median stopping (Golovin et al., "Google Vizier: a service for black-box optimization", KDD 2017,
 * section 3.2.2): a trial stops at step s when its best value up to s is strictly worse than the
 * median, over the trials that are done, of the mean of what they reported up to s. Not before
 * min_iter reports of its own, nor with fewer than min_trials done trials to compare with. Cost:
 * n log n for n done trials. */
extern const struct stopper_ops stopper_median;

/* Hyperband as W&B's open engine does it: at the highest band that a trial has reached (bands are
 * counts of reports), it stops when its value is worse than the one at index floor(n / eta) of
 * the sorted values of all n trials that got there. `strict`: its value at the band; otherwise its
 * best so far. Cost: n. */
extern const struct stopper_ops stopper_hyperband;

/* Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter
 * tuning", MLSys 2020), stopping where the paper pauses. A rung is a step, min_iter·eta^(s + k) for
 * k = 0, 1, …, none above max_iter (0: no end); a trial takes each once, with the value of the
 * report that reached it.
 *   as Optuna 5.0's SuccessiveHalvingPruner: it goes on when its value is at most the one at index
 *     max(floor(n / eta) - 1, 0) of the n values at the rung in order, its own among them. A report
 *     can pass several rungs. One that is not finite stops it where a rung is reached. min_iter 0:
 *     a hundredth of the longest done trial's last step, settled when the first is done; until then
 *     nothing stops.
 *   as Ray 2.59's AsyncHyperBandScheduler with one bracket: only the highest rung that was reached
 *     and not taken counts; it stops when its value is worse than the 1 - 1/eta quantile of those
 *     that were there before it (linear between neighbours), and at max_iter. min_iter 0 is 1.
 * Differs from both in that an infinite value counts as NaN. Cost: n where a rung is reached
 * (Ray's: n log n), else 1. */
extern const struct stopper_ops stopper_asha;

/* Extrapolated curves (forecast.h). At rungs, the times min_iter·eta^k before the end, a trial goes
 * on when what is expected of its end is among the best `keep` of all that reached the rung, else
 * it is paused. A free place goes to the paused trial that is the best at its rung and by now among
 * those (the highest rung first: promotion as in ASHA, Li et al. 2020), before a new trial starts.
 * Where none can start, it goes to the one that is the best at its rung and expected to beat the
 * best whole trial and all that run. A trial stops for good when it is not finite at a rung, or
 * cannot become the best by forecasts that were tried on at least five whole curves. Cost: n fits
 * where a rung is reached, else 1; resume: n fits for each rung. */
extern const struct stopper_ops stopper_curve;

/* NULL for SPEC_STOPPER_NONE. */
const struct stopper_ops *stopper_of(enum spec_stopper type);

/* The highest band <= iterations, or 0: none. */
int stopper_hyperband_band(const struct spec_stop *rule, int iterations);

#endif
