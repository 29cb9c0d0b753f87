/* python_repr - values as Python prints them, since training scripts parse what W&B's agent
 * printed.
 *
 * Floats have the form of number_format(). The strings "nan", "inf" and "-inf" stay strings. */
#ifndef DROVER_PYTHON_REPR_H
#define DROVER_PYTHON_REPR_H

#include <jansson.h>

#include "common/strbuf.h"

/* str(v): a string unchanged; in lists and mappings as repr() prints it ({'lr': 0.1}). */
void python_repr_str(struct strbuf *b, const json_t *v);

/* json.dumps(v): {"lr": 0.1, "amp": true}, with all characters outside ASCII escaped. */
void python_repr_json(struct strbuf *b, const json_t *v);

/* JSON that PyYAML, which reads YAML 1.1, reads as the same value: 1e-05 would be text there,
 * 1.0e-05 is a number. */
void python_repr_yaml(struct strbuf *b, const json_t *v);

#endif
