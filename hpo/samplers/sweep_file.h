/* sweep_file - reads a sweep file with the samplers and stoppers that drover has. */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include "hpo/samplers/sampler.h"
#include "hpo/spec/spec.h"

/* Reads a sweep file as spec_read() does, including the value of `early_terminate`. */
int sweep_file_read(struct spec **out, const struct yaml_doc *d, struct err *e);
/* The same for the file of a stored sweep: it may have what can have no effect, since an older
 * version accepted it. */
int sweep_file_read_stored(struct spec **out, const struct yaml_doc *d, struct err *e);

/* Finds a method as spec_method_find() does. sampler_of() returns the method's sampler. */
int sweep_file_method(const struct spec_method **out, const struct config_node *at, struct err *e);

/* Appends the possible values of `method` and of `early_terminate: {type: …}`, one per line, each
 * with a short description. */
void sweep_file_help(struct strbuf *b);
