/* spec - a sweep file, read and checked: W&B's keys with W&B's meaning, and the `drover:` block.
 *
 * Plain fields, set by spec_read() and constant afterwards. Pure: the caller has read the text. */
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

enum { SPEC_METRICS_MAX = 8 };

struct spec_method {  /* what a sweep file's reader needs to know of a sampler */
    const char *name; /* the word in `method:` */
    const char *help; /* one line, at most 60 characters */
    bool needs_metric;
    bool needs_grid; /* the space must have countable points, those of a grid */
    bool learns_from_warm_start;
};

/* What a sweep file may name of modules that know struct spec: samplers and stoppers. Borrowed. */
struct spec_vocabulary {
    const struct spec_method *(*method)(size_t i); /* the i-th; NULL: there are only i */
    /* Reads the value of `early_terminate` and returns it with every default in place (new
     * reference). Returns NULL if the value is invalid; `e` then names the key and its position in
     * the file. */
    json_t *(*read_early_terminate)(const struct config_node *n, struct err *e);
};

struct spec_metric {
    char *name;    /* NULL: not given */
    bool maximize; /* goal: maximize */
    bool has_target;
    double target; /* once a trial has reached all targets no new trial starts */
    char *pattern; /* a POSIX extended regular expression over stdout, whose first group is the
                      metric's value; NULL: none */
};

struct spec {
    char *name, *description;         /* NULL: not given */
    const struct spec_method *method; /* borrowed from the vocabulary */
    char *program;                    /* NULL: not given (then `command` does not use it) */
    char **command; /* strv with its macros (trial_command.h); NULL: the default */
    /* The first metric's values are a trial's points, which early_terminate compares. */
    struct spec_metric metrics[SPEC_METRICS_MAX];
    int metric_count;        /* 0: none; more than 1: several objectives */
    json_t *early_terminate; /* with every default in place; NULL: no early stopping */
    struct space *space;     /* owned */
    int run_cap;             /* number of trials; 0: no limit */

    /* drover: */
    struct resources need; /* of a trial; default: 1 rank */
    uint64_t seed;         /* default: 0 */
    int parallel;          /* trials at once; 0: as many as the workers have slots */
    int retries;           /* reruns of a trial that was lost or preempted; default: 3 */
    bool retry_failed;     /* `retries` counts for failed trials, too; default: false */
    int give_up_after;     /* the sweep ends after this many failed trials if none has succeeded;
                              0: never; default: 5 */
    int64_t timeout_ms;    /* of a trial; 0: none */
    int64_t grace_ms;      /* from asking a trial to stop to killing it; default: 30,000 */
    int64_t lost_after_ms; /* a worker silent this long is lost; default: 120,000 */
    bool wandb_real;       /* wandb: real. Trials import W&B's own module, not drover's stand-in */
    bool value_last;       /* value: last. The last report of a trial counts; default: the best */
    int repeats;           /* trials per point; default: 1 */
    json_t *when, *constraints; /* as they were written; NULL: none. `space` has read them */
    json_t *start;              /* parameter sets (complete, in order) to try first; may be empty */
    json_t *warm_start;         /* observations for a warm start (warm_start.h); may be empty */

    char **notices; /* strv: what the user should be told once; NULL: nothing */
};

/* Reads the sweep of a YAML document. Errors say FILE:LINE:COLUMN, and the nearest known word if
 * there is one. `v` must outlive the spec.
 *   -EINVAL  the file is not a sweep, or asks for something that does not exist */
int spec_read(struct spec **out, const struct yaml_doc *d, const struct spec_vocabulary *v,
              struct err *e);
void spec_free(struct spec *s);
AUTO_DEFINE(spec, struct spec *, spec_free)

/* Finds the method whose name is the node's value.
 *   -EINVAL  unknown; the hint has the nearest name, or all names */
int spec_method_find(const struct spec_method **out, const struct config_node *at,
                     const struct spec_vocabulary *v, struct err *e);

/* The file's contents with every default in place, for comparing. New reference. */
json_t *spec_json(const struct spec *s);

#endif
