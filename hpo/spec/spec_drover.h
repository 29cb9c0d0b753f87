/* spec_drover - the `drover:` block of a sweep file: what W&B's schema lacks. */
#ifndef DROVER_SPEC_DROVER_H
#define DROVER_SPEC_DROVER_H

#include "hpo/space/config_node.h"
#include "hpo/spec/spec.h"

/* Sets the defaults of the block's fields. */
void spec_drover_defaults(struct spec *s);

/* Reads the block into `s`, whose space has been read. `n` may be without a value: no block.
 *   -EINVAL  at the place in the file */
int spec_drover_read(struct spec *s, const struct config_node *n, struct err *e);

/* The block with every default in place. New reference. */
json_t *spec_drover_json(const struct spec *s);

/* A length of time: seconds as a number, or "500ms", "90s", "10m", "1.5h", "2d".
 *   -EINVAL  it is none, or negative; `*out_ms` stays */
int spec_duration(int64_t *out_ms, const json_t *value);

#endif
