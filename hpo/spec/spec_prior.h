/* spec_prior - the key `prior`: observations for a warm start. */
#ifndef DROVER_SPEC_PRIOR_H
#define DROVER_SPEC_PRIOR_H

#include <jansson.h>

#include "common/err.h"
#include "hpo/space/config_node.h"
#include "hpo/spec/spec.h"

/* Reads the key `prior` and appends each observation to `into`. `list` is a list of {params,
 * values}, or of {params, value} if there is one metric; it may have no value. The space and the
 * metrics of `s` must have been read.
 *   -EINVAL  an invalid observation; the message has its position, and `into` has the observations
 *            before it */
int spec_prior_read(json_t *into, const struct spec *s, const struct config_node *list,
                    struct err *e);

#endif
