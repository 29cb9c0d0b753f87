/* metric_parse - finds metrics in the output lines of a trial by the `pattern` of a metric.
 *
 * A pattern is a regular expression of PCRE2, in which most of Python's are valid. Its first group
 * is the metric's value; without a group, the last word of the match is: "0.25" of "loss: 0.25". */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct metric_parse;

/* Compiles the patterns; the caller frees `*out`. `patterns` is {name of a metric: pattern, …}; it
 * may be NULL or empty.
 *   -EINVAL  a pattern is not a valid regular expression, or longer than 1,024 bytes */
int metric_parse_new(struct metric_parse **out, const json_t *patterns, struct err *e);
void metric_parse_free(struct metric_parse *m);
AUTO_DEFINE(metric_parse, struct metric_parse *, metric_parse_free)

/* Checks what a user writes: a stored sweep of an older version may have such a pattern.
 *   -EINVAL  a pattern is so plain that it can find no number */
int metric_parse_check(const struct metric_parse *m, struct err *e);

/* Returns the values that the patterns find in the line, as {name: value, …} (new reference), or
 * NULL if they find none. A line of more than 1,024 bytes has none. Sets `e`, which may be NULL,
 * when a pattern reaches a limit of steps or memory for the first time: such a line has no value
 * for it. */
json_t *metric_parse_from_pattern(struct metric_parse *m, const char *line, size_t len,
                                  struct err *e);

/* Returns what to say of a pattern that has matched lines and never gave a number, or NULL. `m` may
 * be NULL. The caller frees the text. */
char *metric_parse_vain(const struct metric_parse *m);
