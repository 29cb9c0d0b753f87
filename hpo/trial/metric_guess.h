/* metric_guess - finds a metric that a trial printed in another form than that of a report, or
 * reported by another name. Does no I/O. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Searches the output `text` of a trial for the last line that has a number after the metric's
 * name, or after the last part of a name such as val.loss or eval/loss. Returns false if there is
 * no such line. Sets `*line` to the line, and `*pattern` to a `metric.pattern` that finds the
 * number in it. The caller frees both. */
bool metric_guess(char **line, char **pattern, const char *text, size_t len, const char *metric);

/* Appends that the metric was never reported, and the keys of `reported`, the nearest names first.
 */
void metric_guess_unreported(struct strbuf *out, const char *metric, const json_t *reported);

/* Returns true if the number that such a pattern finds is in quotes. */
bool metric_guess_is_quoted(const char *pattern);

/* Moves the `wanted` of the `n` names that may stand for the metric to the front, the likest first:
 * the same but for case and separators, the same last part (of val/loss), one that contains the
 * other, then by opt_suggest(). Counters such as "epoch" are last. The others keep their order. */
void metric_guess_nearest(const char **names, size_t n, size_t wanted, const char *metric);
