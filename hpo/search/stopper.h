/* stopper - early stopping: one shape for all rules.
 *
 * A rule is a function of what the trials have reported so far; it keeps nothing. It is asked at
 * each report of a running trial, not now and then. A rule that pauses is also asked, whenever a
 * place is free, whether a paused trial should go on before a new one starts. */
#ifndef DROVER_STOPPER_H
#define DROVER_STOPPER_H

#include <stdbool.h>

#include "hpo/search/spec.h"
#include "hpo/search/trial.h"

enum stopper_verdict { STOPPER_GO, STOPPER_STOP, STOPPER_PAUSE };

struct stopper_ops {
    const char *name; /* the word in `early_terminate: type:`, and in a trial's reason */
    /* What becomes of `t`, one of view's trials, after its last report. */
    enum stopper_verdict (*judge)(const struct spec_stop *rule, bool maximize,
                                  const struct trial_view *view, const struct trial *t);
    /* The id of the paused trial that should go on now, or -1: none. NULL: it never pauses. */
    int (*resume)(const struct spec_stop *rule, bool maximize, const struct trial_view *view);
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

/* NULL for SPEC_STOPPER_NONE. */
const struct stopper_ops *stopper_of(enum spec_stopper type);

/* The highest band <= iterations, or 0: none. */
int stopper_hyperband_band(const struct spec_stop *rule, int iterations);

#endif
