/* pyrepr - values as Python prints them, since training scripts parse what W&B's agent printed.
 *
 * Floats are the shortest text that reads back the same, with an exponent below 1e-4 and from 1e16
 * on: 0.0001 1e-05 3.0 1e+16. The strings "nan", "inf" and "-inf" are only strings here. */
#ifndef DROVER_PYTHON_REPR_H
#define DROVER_PYTHON_REPR_H

#include <jansson.h>

#include "common/strbuf.h"

/* str(v): a string as it is; within lists and mappings as repr() has it ({'lr': 0.1}). */
void python_repr_str(struct strbuf *b, const json_t *v);

/* json.dumps(v): {"lr": 0.1, "amp": true}, all but ASCII escaped. */
void python_repr_json(struct strbuf *b, const json_t *v);

/* repr() of a float: "0.1", "1e-05", "nan", "inf". */
void python_repr_float(struct strbuf *b, double x);

#endif
