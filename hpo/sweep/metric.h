/* metric - finds what a trial reports in what it prints.
 *
 * A line of stdout that is a JSON object with numbers is a report: {"step":3,"loss":0.41}. So is
 * one that the sweep file's `metric.pattern` matches: a POSIX extended regular expression whose
 * first group (the whole match where it has none) is the metric's value. */
#ifndef DROVER_METRIC_H
#define DROVER_METRIC_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct metric;

/* `name` is the metric that `pattern` gives. pattern NULL: only JSON lines are read.
 *   -EINVAL  the pattern is no regular expression, or there is no name for what it gives */
int metric_new(struct metric **out, const char *name, const char *pattern, struct err *e);
void metric_free(struct metric *m);
AUTO_DEFINE(metric, struct metric *, metric_free)

/* The numbers of a JSON object as a report (new reference), or NULL where it has none. Members that
 * are no numbers (json_as_number()) are left out. Python's NaN, Infinity and -Infinity, which JSON
 * does not have, are understood. */
json_t *metric_from_json(const char *text, size_t len);

/* The value that the pattern finds in the line, as {name: value} (new reference); NULL: none. */
json_t *metric_from_pattern(const struct metric *m, const char *text, size_t len);

#endif
