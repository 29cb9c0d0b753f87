/* metric_guess - finds a metric that a trial printed in another form than that of a report. Does no
 * I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Searches the output `text` of a trial for the last line that has a number after the metric's
 * name, or after the last part of a name such as val.loss or eval/loss. Returns false if there is
 * no such line. Sets `*line` to the line, and `*pattern` to a `metric.pattern` that finds the
 * number in it. The caller frees both. */
bool metric_guess(char **line, char **pattern, const char *text, size_t len, const char *metric);
