/* stopper - early stopping of trials: the interface of all stoppers, and what a sweep file says of
 * them.
 *
 * A stopper judges a running trial at each of its reports, in the order in which the reports
 * arrive. A stopper that pauses trials also decides, whenever a slot is free, whether a paused
 * trial continues before a new one starts. A decision follows from the trials and from the order of
 * the reports alone. Wherever a stopper may be NULL, NULL means that no trial is stopped early. */
#ifndef DROVER_STOPPER_H
#define DROVER_STOPPER_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/space/config_node.h"
#include "hpo/trial/trial.h"

enum stopper_verdict { STOPPER_CONTINUE, STOPPER_STOP, STOPPER_PAUSE };

struct stopper;

/* Creates the stopper that the value of `early_terminate` describes. The value may be JSON
 * without a document. Whether there is a metric to compare is the caller's check.
 *   -EINVAL  at its place; the message names the key */
int stopper_new(struct stopper **out, const struct config_node *early_terminate, struct err *e);
void stopper_free(struct stopper *s);
AUTO_DEFINE(stopper, struct stopper *, stopper_free)

/* The value of `early_terminate` with every default in place. stopper_new() makes the same stopper
 * of it. New reference. */
json_t *stopper_json(const struct stopper *s);

/* The word in `early_terminate: {type: …}`, which is also the stop reason in the records of a
 * sweep. `s` must not be NULL. */
const char *stopper_name(const struct stopper *s);

/* The name of the i-th stopper in the order of help texts, and its help; NULL: there are only i. */
const char *stopper_row(size_t i, const char **help);

/* The step at which a whole trial ends (`max_iter`); 0: not given. */
int stopper_max_iter(const struct stopper *s);

/* Decides what becomes of `t`, one of view's trials, after its last report. `view` only ever grows
 * from call to call. */
enum stopper_verdict stopper_judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                   const struct trial *t);

/* Whether stopper_judge() remembers facts that follow from the order of the reports: then it must
 * be called again for each report that is replayed. */
bool stopper_has_memory(const struct stopper *s);

/* Whether stopper_judge() ever answers STOPPER_PAUSE. */
bool stopper_pauses(const struct stopper *s);

/* Returns the id of the paused trial that should continue now, or -1: none. */
int stopper_resume(const struct stopper *s, bool maximize, const struct trial_view *view);

/* The same if no new trial can start: the paused trials that may still win are finished. */
int stopper_finish(const struct stopper *s, bool maximize, const struct trial_view *view);

#endif
