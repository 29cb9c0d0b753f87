/* spec_drover - the `drover:` block of a sweep file: keys that W&B's schema lacks. */
#pragma once

#include "hpo/space/config_node.h"
#include "hpo/spec/spec.h"

/* Sets the block's fields to their defaults. */
void spec_drover_defaults(struct spec *s);

/* Reads the block into `s`. The space and the metrics of `s` must have been read. `n` has no value
 * if the file has no block.
 *   -EINVAL  an invalid key or value; the message has the position in the file */
int spec_drover_read(struct spec *s, const struct config_node *n, struct err *e);

/* Returns the block with all defaults filled in (new reference). */
json_t *spec_drover_json(const struct spec *s);
