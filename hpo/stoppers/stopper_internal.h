/* stopper_internal - the functions of one stopper, and helpers that stoppers share. Only stopper*.c
 * include this. */
#pragma once

#include "hpo/stoppers/stopper.h"

enum {
    STOPPER_KEYS_MAX = 6,
    STOPPER_BANDS_MAX = 100 /* up to this many bands of hyperband may be close to each other */
};

struct stopper_ops {  /* a row of the table in stopper.c */
    const char *name; /* the word in `type:` */
    const char *help; /* one line, at most 60 characters */
    /* keys of `early_terminate` except `type`, NULL-terminated */
    const char *keys[STOPPER_KEYS_MAX + 1];
    /* Reads these keys into s->config, which it allocates and free() frees, and sets s->max_iter,
     * s->first and s->least. The caller has rejected unknown keys.
     *   -EINVAL  an invalid value; the message has the position in the file */
    int (*read)(struct stopper *s, const struct config_node *n, struct err *e);
    /* Adds all keys with their values to `to`, which already has the `type`. */
    void (*json)(const struct stopper *s, json_t *to);
    /* Implements stopper_judge(). */
    enum stopper_verdict (*judge)(struct stopper *s, bool maximize, const struct trial_view *view,
                                  const struct trial *t);
    /* Implements stopper_resume(). NULL: the stopper never pauses a trial. */
    int (*resume)(const struct stopper *s, bool maximize, const struct trial_view *view, bool last);
    /* What a trial with a report has reached, to compare with s->first. NULL: its number of
     * reports. */
    double (*reached)(const struct trial *t);
    /* Frees what s->config points to. NULL: it contains no pointers. */
    void (*clear)(void *config);
    bool by_steps;   /* its rungs are steps, not numbers of reports */
    bool has_memory; /* as stopper_has_memory(); s->config has what it remembers */
};

struct stopper {
    const struct stopper_ops *ops;
    void *config;                    /* the stopper's own settings */
    const struct outcomes *outcomes; /* borrowed; NULL: no constraints */
    int max_iter;                    /* as stopper_max_iter() */
    double first;                    /* the least that a trial must reach to be compared */
    double least;                    /* the least max_iter within which a trial is compared */
    int min_done;                    /* number of trials that must be done before */
};

struct stopper_rungs { /* keys that have the same meaning for all stoppers with rungs */
    int min_iter;      /* the first rung; 0: not given */
    int max_iter;      /* the end of a whole trial; 0: not given */
    double eta;        /* factor from rung to rung */
};

/* Reads these keys. A key that is missing leaves its field unchanged; `eta` becomes `standard`.
 * Checks that `eta` gives at most a few hundred rungs for trials of any length. `close`: rungs may
 * be close to each other, since their number is limited otherwise. */
int stopper_rungs_read(struct stopper_rungs *r, const struct config_node *n, bool close,
                       double standard, struct err *e);
void stopper_rungs_json(const struct stopper_rungs *r, json_t *to);

/* For tests. hyperband: returns the highest band <= iterations, or 0 if there is none. */
int stopper_hyperband_band(const struct stopper *s, int iterations);
