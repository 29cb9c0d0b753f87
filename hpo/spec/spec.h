/* spec - the checked contents of a sweep file: W&B's keys with W&B's meaning, and the `drover:`
 * block.
 *
 * spec_read() sets the fields; they do not change afterwards. The functions do no input or output:
 * the caller reads the file. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/space/config_node.h"
#include "hpo/spec/resources.h"
#include "hpo/trial/outcome.h"

struct yaml_doc;
struct space;

enum { SPEC_METRICS_MAX = 8 };

struct spec_method {  /* properties of a sampler that spec_read() needs */
    const char *name; /* the word in `method:` */
    const char *help; /* one line, at most 60 characters */
    bool needs_metric;
    /* the space must have countable points and is read with the rules for a grid */
    bool needs_grid;
    bool learns_from_warm_start;
};

/* Samplers and stoppers that a sweep file may name. These modules use struct spec, so spec.c cannot
 * call them; the caller passes them in. All is borrowed. */
struct spec_vocabulary {
    const struct spec_method *(*method)(size_t i); /* returns the i-th method or NULL */
    /* Reads the value of `early_terminate` and returns it with every default in place (new
     * reference). Returns NULL if the value is invalid; `e` then names the key and its position in
     * the file. */
    json_t *(*read_early_terminate)(const struct config_node *n, struct err *e);
};

struct spec_metric {
    char *name;    /* NULL: not given */
    bool maximize; /* goal: maximize */
    bool has_target;
    double target; /* after one trial has reached all targets, no new trial starts */
    char *pattern; /* a regular expression (PCRE2) for stdout; its first group matches the
                      metric's value; NULL: none */
};

struct spec {
    char *name, *description;         /* NULL: not given */
    const struct spec_method *method; /* borrowed from the vocabulary */
    char *program;                    /* NULL: not given, and `command` does not use it */
    char **command; /* strv of items with macros (trial_command.h); NULL: the default command */
    /* The values of the first metric are the points of a trial, which early_terminate compares. */
    struct spec_metric metrics[SPEC_METRICS_MAX];
    int metric_count; /* 0: no metric; more than 1: several objectives */
    /* the key's value with all defaults filled in; NULL: no early stopping */
    json_t *early_terminate;
    struct space *space; /* owned */
    int run_cap;         /* number of trials; 0: no limit */

    /* The `drover:` block: */
    struct resources need; /* requirements of each trial; default: 1 rank */
    uint64_t seed;         /* default: 0 */
    int parallel;      /* limit on trials at the same time; 0: only the workers' slots limit them */
    int retries;       /* limit on the reruns of a trial that was lost or preempted; default: 3 */
    bool retry_failed; /* `retries` counts for failed trials, too; default: false */
    int give_up_after; /* the sweep ends after this many failed trials if none has succeeded;
                          0: never; default: 5 */
    int64_t timeout_ms;    /* time limit of a trial; 0: none */
    int64_t grace_ms;      /* from asking a trial to stop to killing it; default: 30,000 */
    int64_t lost_after_ms; /* a worker that is silent for this time is lost; default: 120,000 */
    bool wandb_real; /* `wandb: real`: trials import W&B's own module, not drover's stand-in */
    bool value_last; /* `value: last`: the last report of a trial counts; default: the best */
    int repeats;     /* trials per point; default: 1 */
    json_t *when, *constraints; /* the values of these keys, which are also part of `space`; NULL:
                                   not given */
    struct outcomes outcomes;   /* outcome_constraints */
    json_t *start; /* complete parameter sets to try first, in the space's order; may be empty */
    json_t *warm_start; /* observations for a warm start (warm_start.h); may be empty */

    char **notices; /* strv of notices for the user; NULL: none */
};

/* Reads the sweep of a YAML document; the caller frees `*out`. `v` must outlive the spec.
 *   -EINVAL  an invalid key or value; the message has FILE:LINE:COLUMN, and the hint the nearest
 *            known word */
int spec_read(struct spec **out, const struct yaml_doc *d, const struct spec_vocabulary *v,
              struct err *e);
void spec_free(struct spec *s);
AUTO_DEFINE(spec, struct spec *, spec_free)

/* Finds the method whose name is the node's value.
 *   -EINVAL  no such method; the hint is the nearest name, or all names */
int spec_method_find(const struct spec_method **out, const struct config_node *at,
                     const struct spec_vocabulary *v, struct err *e);

/* Returns the contents of the sweep file with all defaults filled in (new reference). Two files for
 * the same sweep give equal results. */
json_t *spec_json(const struct spec *s);

/* Returns {metric: "minimize" or "maximize"}, the first metric first (new reference). */
json_t *spec_goals_json(const struct spec *s);
