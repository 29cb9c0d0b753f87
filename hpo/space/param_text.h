/* param_text - values and sets of parameters as text: words of a command line, cells of a table.
 * They are read as in a sweep file. */
#pragma once

#include <jansson.h>

#include "common/err.h"
#include "common/strbuf.h"

/* Reads a value: a number, a truth value, null, a text with or without quotes, or a list or a
 * mapping in YAML's flow style, which JSON is, too. Sets `*out` (new reference).
 *   -EINVAL  the text is rejected (yaml.h) */
int param_text_value(json_t **out, const char *text, struct err *e);

/* Appends the shortest text from which param_text_value() reads the value. */
void param_text_add(struct strbuf *b, const json_t *value);

/* Reads a set of parameters from words NAME=VALUE, where NAME has a dot for each group. Sets `*out`
 * (new reference).
 *   -EINVAL  a word has another form, its value is rejected, or a parameter is given twice, also as
 *            a group and as a value; the message has the word */
int param_text_set(json_t **out, char *const *words, struct err *e);
