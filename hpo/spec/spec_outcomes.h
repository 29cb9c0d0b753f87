/* spec_outcomes - reads `outcome_constraints`: [{metric: latency_ms, max: 50}, …]. */
#pragma once

#include "hpo/space/config_node.h"
#include "hpo/trial/outcome.h"

/* Reads the member `outcome_constraints` of `n` into `out`, which is empty; the caller clears it.
 *   -EINVAL  an invalid key or value; the message has its position */
int spec_outcomes_read(struct outcomes *out, const struct config_node *n, struct err *e);

/* Returns the value of the key (new reference), or NULL if there are no constraints. */
json_t *spec_outcomes_json(const struct outcomes *o);
