/* study - a search without a sweep, for `drover suggest`. The user's program asks for trials and
 * tells their results.
 *
 * Requests and replies are JSON objects; docs/drover-suggest.md describes them. With the same build
 * and one BLAS thread, equal requests give equal replies. */
#pragma once

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"

struct study;

/* Carries out a request ("op": init, ask, tell, report, best). Returns the reply (new reference),
 * or NULL on failure; then nothing has changed. `*s` must be NULL before the first request; init
 * creates it, and the caller frees it. Errors in `e`:
 *   -EINVAL  not a request, not allowed before or after init, or not possible for its trial
 * A tell costs O(1) per result. A report has the cost of its stopper, and an ask that of its
 * sampler. */
json_t *study_answer(struct study **s, const json_t *request, struct err *e);
void study_free(struct study *s);
AUTO_DEFINE(study, struct study *, study_free)
