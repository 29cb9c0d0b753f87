/* metric_parse - finds metrics in the output lines of a trial by the `pattern` of a metric.
 *
 * A pattern is a POSIX extended regular expression. Its first group is the metric's value, or the
 * whole match if it has no group. */
#ifndef DROVER_METRIC_PARSE_H
#define DROVER_METRIC_PARSE_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct metric_parse;

/* Compiles the patterns; the caller frees `*out`. `patterns` is {name of a metric: pattern, …}; it
 * may be NULL or empty.
 *   -EINVAL  a pattern is not a valid regular expression */
int metric_parse_new(struct metric_parse **out, const json_t *patterns, struct err *e);
void metric_parse_free(struct metric_parse *m);
AUTO_DEFINE(metric_parse, struct metric_parse *, metric_parse_free)

/* Returns the values that the patterns find in the line, as {name: value, …} (new reference), or
 * NULL if they find none. */
json_t *metric_parse_from_pattern(struct metric_parse *m, const char *text, size_t len);

#endif
