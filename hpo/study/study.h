/* study - a search on its own: asked for trials, told what became of them; `drover suggest`.
 *
 * Requests and replies are JSON objects; docs/drover-suggest.md has them all. A reply is a function
 * of the requests before it, on one build with one BLAS thread. */
#ifndef DROVER_STUDY_H
#define DROVER_STUDY_H

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"

struct study;

/* Carries out one request ("op": init, ask, tell, report, best). `*s` is NULL until an init has
 * succeeded, which makes it. Returns the reply (new reference), or NULL: then nothing has changed.
 *   -EINVAL  no request, not its turn, or about a trial for which it makes no sense
 * Cost, for n trials: a tell is O(1) for each result, a report what its stopper costs, an ask what
 * its sampler does. */
json_t *study_answer(struct study **s, const json_t *request, struct err *e);
void study_free(struct study *s);
AUTO_DEFINE(study, struct study *, study_free)

#endif
