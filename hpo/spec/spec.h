/* spec - a sweep file, read and checked: W&B's keys as they are, and the `drover:` block.
 *
 * Plain fields, set by spec_read() and constant afterwards. Pure: the text was read by others. */
#ifndef DROVER_SPEC_H
#define DROVER_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/space/config_node.h"
#include "hpo/spec/resources.h"

struct yaml_doc;
struct space;

enum spec_method { SPEC_GRID, SPEC_RANDOM, SPEC_SOBOL, SPEC_BAYES, SPEC_METHODS };

enum { SPEC_METRICS_MAX = 8 };

struct spec_metric {
    char *name;    /* NULL: not given */
    bool maximize; /* goal: maximize */
    bool has_target;
    double target; /* once a trial reaches all targets no new trial starts */
    char *pattern; /* a POSIX extended regular expression over stdout; NULL: none. Its first group
                      is the metric's value */
};

enum spec_stopper {
    SPEC_STOPPER_NONE,
    SPEC_STOPPER_MEDIAN,
    SPEC_STOPPER_HYPERBAND,
    SPEC_STOPPER_ASHA,
    SPEC_STOPPER_CURVE,
};

struct spec_stop { /* early_terminate */
    enum spec_stopper type;
    int min_iter;   /* median: reports of a trial before it may be stopped. hyperband: 0: not given.
                       asha: the first rung; 0: as Optuna's "auto". curve: the first rung */
    int min_trials; /* median: trials that have to be done before any is stopped */
    int max_iter;   /* hyperband: 0: not given. asha: no rung beyond it; 0: no end. curve: the last
                       step of a whole trial; 0: that of the longest one so far */
    int s;          /* hyperband: bands. asha: min_early_stopping_rate (Li et al. 2020) */
    double eta;     /* from rung to rung */
    bool strict;    /* hyperband */
    bool ray;       /* asha: decide as Ray's AsyncHyperBandScheduler, not as Optuna's pruner */
    double keep;    /* curve: the share of the trials at a rung that goes on at once */
};

/* Reads the value of `early_terminate`, which may be JSON without a document. That there is a
 * metric to compare is the caller's to check.
 *   -EINVAL  at its place; the message names the key */
int spec_stop_read(struct spec_stop *out, const struct config_node *n, struct err *e);
/* The same out again, with every default in place; type must not be NONE. New reference. */
json_t *spec_stop_json(const struct spec_stop *stop);

struct spec {
    char *name, *description; /* NULL: not given */
    enum spec_method method;
    char *program;  /* NULL: not given (then `command` does without it) */
    char **command; /* strv with its macros (command.h); NULL: the default */
    /* The first is the one whose values are a trial's points, and which early_terminate compares.
     */
    struct spec_metric metrics[SPEC_METRICS_MAX];
    int metric_count; /* 0: none; more than 1: several objectives */
    struct spec_stop stop;
    struct space *space; /* owned */
    int run_cap;         /* trials in all; 0: no limit */

    /* drover: */
    struct resources need; /* of a trial; 1 rank */
    uint64_t seed;         /* 0 */
    int parallel;          /* trials at once; 0: as many as the workers have places */
    int retries;           /* how often a trial that was lost or preempted is run again; 3 */
    bool retry_failed;     /* `retries` counts for trials that failed, too; false */
    int give_up_after;     /* the sweep ends when this many trials failed before any did not; 5; 0:
                              never */
    int64_t timeout_ms;    /* of a trial; 0: none */
    int64_t grace_ms;      /* between asking a trial to stop and killing it; 30,000 */
    int64_t lost_after_ms; /* a silent worker's trials are given to others after it; 120,000 */
    bool wandb_real;       /* wandb: real. Trials import W&B's own module, not our stand-in */
    bool value_last;       /* value: last. Which of a trial's reports counts; default: the best */
    int repeats;           /* how often each point is tried; 1 */
    json_t *when, *constraints; /* as they were written; NULL: none. `space` knows them */
    json_t *start; /* an array of parameter sets (complete, in order) to try first; may be empty */
    json_t *prior; /* what other searches saw (prior.h): an array that may be empty */

    char **notices; /* strv: what the user should be told once; NULL: nothing */
};

/* Reads the sweep of a YAML document. Errors say FILE:LINE:COLUMN and, where a word is near to a
 * known one, which.
 *   -EINVAL  the file is no sweep, or asks for what is not there */
int spec_read(struct spec **out, const struct yaml_doc *d, struct err *e);
void spec_free(struct spec *s);
AUTO_DEFINE(spec, struct spec *, spec_free)

/* All that was read, with every default in place; for the dashboard and for comparing. New
 * reference. */
json_t *spec_json(const struct spec *s);

const char *spec_method_name(enum spec_method m);

#endif
