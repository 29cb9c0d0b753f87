/* spec_drover - the `drover:` block of a sweep file: keys that W&B's schema lacks. */
#ifndef DROVER_SPEC_DROVER_H
#define DROVER_SPEC_DROVER_H

#include "hpo/space/config_node.h"
#include "hpo/spec/spec.h"

/* Sets the defaults of the block's fields. */
void spec_drover_defaults(struct spec *s);

/* Reads the block into `s`, whose space and metrics have been read. `n` may have no value: no
 * block.
 *   -EINVAL  at the place in the file */
int spec_drover_read(struct spec *s, const struct config_node *n, struct err *e);

/* Returns the block with every default in place. New reference. */
json_t *spec_drover_json(const struct spec *s);

#endif
