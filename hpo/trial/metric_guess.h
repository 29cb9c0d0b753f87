/* metric_guess - finds in a trial's output what looks like a metric that it did not report. Pure.
 */
#ifndef DROVER_METRIC_GUESS_H
#define DROVER_METRIC_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* Searches `text`, output of a trial, for the last line with a number after the metric's name, or
 * after the last part of a name such as val.loss or eval/loss. Returns false if there is none.
 * *line is that line; *pattern is a `metric.pattern` that finds the number in it. The caller frees
 * both. */
bool metric_guess(char **line, char **pattern, const char *text, size_t len, const char *metric);

#endif
