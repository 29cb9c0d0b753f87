/* python_repr - writes values as Python prints them. Training scripts parse this form, since W&B's
 * agent prints it.
 *
 * Floats have the form of number_format(). The strings "nan", "inf" and "-inf" stay strings. */
#pragma once

#include <jansson.h>

#include "common/strbuf.h"

/* Appends str(v). A string is unchanged; inside of lists and mappings a string has the form of
 * repr(): {'lr': 0.1}. */
void python_repr_str(struct strbuf *b, const json_t *v);

/* Appends json.dumps(v): {"lr": 0.1, "amp": true}. All characters outside ASCII are escaped. */
void python_repr_json(struct strbuf *b, const json_t *v);

/* Appends JSON that PyYAML, which reads YAML 1.1, reads as the same value. For example, 1e-05 would
 * be text, and is written as 1.0e-05. */
void python_repr_yaml(struct strbuf *b, const json_t *v);
