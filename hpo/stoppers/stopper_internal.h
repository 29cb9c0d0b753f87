/* stopper_internal - what one stopper provides, and helpers that stoppers share; for stopper*.c. */
#ifndef DROVER_STOPPER_INTERNAL_H
#define DROVER_STOPPER_INTERNAL_H

#include "hpo/stoppers/stopper.h"

enum {
    STOPPER_KEYS_MAX = 6,
    STOPPER_BANDS_MAX = 100 /* bands of hyperband that are allowed to be close to each other */
};

struct stopper_ops {                        /* a row of the table in stopper.c */
    const char *name;                       /* the word in `type:` */
    const char *help;                       /* one line, at most 60 characters */
    const char *keys[STOPPER_KEYS_MAX + 1]; /* of `early_terminate`, without `type`; then NULL */
    /* Reads these keys into s->config (allocated here, freed by free()) and sets s->max_iter.
     * Unknown keys were rejected before.
     *   -EINVAL  at the place in the file */
    int (*read)(struct stopper *s, const struct config_node *n, struct err *e);
    /* Adds all keys with their values to `to`, which has the `type`. */
    void (*json)(const struct stopper *s, json_t *to);
    /* Implements stopper_judge(). */
    enum stopper_verdict (*judge)(struct stopper *s, bool maximize, const struct trial_view *view,
                                  const struct trial *t);
    /* Implement stopper_resume() and stopper_finish(). Both NULL: the stopper never pauses a trial.
     */
    int (*resume)(const struct stopper *s, bool maximize, const struct trial_view *view);
    int (*finish)(const struct stopper *s, bool maximize, const struct trial_view *view);
    /* What the stopper remembers per trial: bytes that are 0 at first, and what frees their
     * contents (NULL: nothing to free). 0: nothing is remembered. */
    size_t memory_bytes;
    void (*memory_free)(void *memory);
};

struct stopper {
    const struct stopper_ops *ops;
    void *config; /* the stopper's own settings */
    int max_iter; /* as stopper_max_iter() */
    char *memory; /* ops->memory_bytes per trial, by id */
    size_t memory_count;
};

/* The memory of `trial`, one of the view that stopper_judge() was called with. */
void *stopper_memory(const struct stopper *s, const struct trial *trial);

struct stopper_rungs { /* keys that mean the same to all stoppers with rungs */
    int min_iter;      /* the first rung; 0: not given */
    int max_iter;      /* the end; 0: not given */
    double eta;        /* factor from rung to rung */
};

/* Reads these keys; a key that is missing leaves its field as it is. */
int stopper_rungs_read(struct stopper_rungs *r, const struct config_node *n, struct err *e);

/* Checks that `eta` makes a few hundred rungs at most, however long a trial is. `close`: rungs may
 * be close to each other, since their number is limited. `standard`: the eta of the hint. */
int stopper_rungs_check_eta(const struct stopper_rungs *r, const struct config_node *n, bool close,
                            double standard, struct err *e);
/* Checks that max_iter is not less than min_iter. */
int stopper_rungs_check_max(const struct stopper_rungs *r, const struct config_node *n,
                            struct err *e);
void stopper_rungs_json(const struct stopper_rungs *r, json_t *to);

/* ---- for tests: what a stopper has worked out --------------------------------------------------
 */

/* hyperband: the highest band <= iterations, or 0: none. */
int stopper_hyperband_band(const struct stopper *s, int iterations);
/* asha: the number of rungs up to the highest one that the trial has taken. */
size_t stopper_asha_rung_count(const struct stopper *s, const struct trial *t);

#endif
