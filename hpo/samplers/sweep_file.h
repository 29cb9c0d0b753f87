/* sweep_file - reads a sweep file with the samplers and stoppers that drover has. */
#ifndef DROVER_SWEEP_FILE_H
#define DROVER_SWEEP_FILE_H

#include "common/err.h"
#include "common/strbuf.h"
#include "hpo/samplers/sampler.h"
#include "hpo/spec/spec.h"

/* Reads a sweep file like spec_read(), the keys of `early_terminate` included. */
int sweep_file_read(struct spec **out, const struct yaml_doc *d, struct err *e);

/* Finds a method like spec_method_find(). sampler_of() has the method's sampler. */
int sweep_file_method(const struct spec_method **out, const struct config_node *at, struct err *e);

/* Appends the words that `method` and `early_terminate: {type: …}` may have, one per line with what
 * it means. */
void sweep_file_help(struct strbuf *b);

#endif
