/* metric_parse - metrics in a trial's output lines.
 *
 * These lines of stdout are reports:
 *
 *     {"step": 3, "loss": 0.41}      JSON
 *     {'eval_loss': 0.41}            a mapping as Python prints it
 *     {"val": {"loss": 0.41}}        nested: reports val.loss, as wandb.log() of this mapping does
 *     loss: 0.41                     if a metric's `pattern` of the sweep file matches it
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

/* `patterns`: {name of a metric: pattern, …}; NULL or empty: only JSON lines are read.
 *   -EINVAL  a pattern is not a valid regular expression */
int metric_parse_new(struct metric_parse **out, const json_t *patterns, struct err *e);
void metric_parse_free(struct metric_parse *m);
AUTO_DEFINE(metric_parse, struct metric_parse *, metric_parse_free)

/* Returns the numbers of such a mapping as a report (new reference); NULL: it has none. Members
 * that are not numbers (json_as_number()) are left out. NaN and infinities count as numbers. */
json_t *metric_parse_from_mapping(const char *text, size_t len);

/* Returns the values that the patterns find in the line, as {name: value, …} (new reference); NULL:
 * they find none. */
json_t *metric_parse_from_pattern(const struct metric_parse *m, const char *text, size_t len);

#endif
