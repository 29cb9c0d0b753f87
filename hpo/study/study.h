/* study - a search without a sweep: it is asked for trials and told their results; `drover
 * suggest`.
 *
 * Requests and replies are JSON objects; docs/drover-suggest.md describes them. On one build with
 * one BLAS thread, a reply is a function of the requests before it. */
#ifndef DROVER_STUDY_H
#define DROVER_STUDY_H

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"

struct study;

/* Carries out a request ("op": init, ask, tell, report, best). `*s` is NULL until an init succeeds,
 * which creates it. Returns the reply (new reference), or NULL: then nothing has changed.
 *   -EINVAL  not a request, out of order, or not possible for the trial that it names
 * Cost, for n trials: a tell is O(1) per result, a report costs what its stopper costs, and an ask
 * what its sampler costs. */
json_t *study_answer(struct study **s, const json_t *request, struct err *e);
void study_free(struct study *s);
AUTO_DEFINE(study, struct study *, study_free)

#endif
