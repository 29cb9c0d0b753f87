/* stopper - early stopping of trials: the interface of all stoppers, and their keys in a sweep
 * file.
 *
 * A stopper judges a running trial at each of its reports, in the order in which the reports
 * arrive. If a stopper pauses trials, it also decides for each free slot whether a paused trial
 * continues before a new one starts. A decision depends only on the trials and on the order of the
 * reports. If a function accepts NULL as stopper, NULL means that no trial is stopped early. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "hpo/space/config_node.h"
#include "hpo/trial/outcome.h"
#include "hpo/trial/trial.h"

enum stopper_verdict { STOPPER_CONTINUE, STOPPER_STOP, STOPPER_PAUSE };

struct stopper;

/* Creates the stopper that the value of `early_terminate` describes; the caller frees it. The value
 * may be JSON without a document. The caller checks that there is a metric to compare. `outcomes`
 * is borrowed; NULL: no constraints. A trial that is done and not feasible is not compared with
 * others. -EINVAL  an invalid key or value; the message has its position and names the key */
int stopper_new(struct stopper **out, const struct config_node *early_terminate,
                const struct outcomes *outcomes, struct err *e);
void stopper_free(struct stopper *s);
AUTO_DEFINE(stopper, struct stopper *, stopper_free)

/* Checks that a trial of max_iter is compared at all, if max_iter is given. `n` is what the stopper
 * was created from. For what a user writes: what is stored may be of an older version.
 *   -EINVAL  no rung lies within max_iter */
int stopper_check(const struct stopper *s, const struct config_node *n, struct err *e);

/* Returns the value of `early_terminate` with all defaults filled in (new reference). stopper_new()
 * creates an equal stopper from this value. */
json_t *stopper_json(const struct stopper *s);

/* Returns the word in `early_terminate: {type: …}`. It is also the stop reason in the records of a
 * sweep. `s` must not be NULL. */
const char *stopper_name(const struct stopper *s);

/* Returns the name of the i-th stopper in the order of help texts and sets `*help`, or returns NULL
 * if there are not more than i stoppers. */
const char *stopper_row(size_t i, const char **help);

/* Returns the step at which a complete trial ends (`max_iter`), or 0 if it is not given. `s` may be
 * NULL. */
int stopper_max_iter(const struct stopper *s);

/* The same if the stopper's rungs are steps: a first step beyond it is beyond all rungs. Otherwise
 * 0. */
int stopper_max_step(const struct stopper *s);

/* Decides after the newest report of `t`, a trial in `view`, if the trial continues. Trials may
 * only be added to `view` between calls. `s` may be NULL. */
enum stopper_verdict stopper_judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                   const struct trial *t);

/* Returns why the stopper has compared none of the trials, or NULL if it has. `s` may be NULL. The
 * caller frees the text. */
char *stopper_unused(const struct stopper *s, const struct trial_view *view);

/* Returns true if stopper_judge() remembers facts that depend on the order of the reports. When
 * reports are replayed, stopper_judge() must then be called for each of them. `s` may be NULL. */
bool stopper_has_memory(const struct stopper *s);

/* Returns true if stopper_judge() may return STOPPER_PAUSE. `s` may be NULL. */
bool stopper_pauses(const struct stopper *s);

/* Returns the id of the paused trial that should continue now, or -1 if there is none. `last`: no
 * new trial can start, so paused trials that may still become the best continue. `s` may be NULL.
 */
int stopper_resume(const struct stopper *s, bool maximize, const struct trial_view *view,
                   bool last);
