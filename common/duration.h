/* duration - durations as users write them: 90, 500ms, 1.5h, 1h30m. */
#ifndef DROVER_DURATION_H
#define DROVER_DURATION_H

#include "common/err.h"

/* Reads a number of seconds, or numbers with the units d, h, m, s and ms, each unit at most once
 * and the largest first: "90", "500ms", "1.5h", "1h30m". -EINVAL  not a duration, or negative;
 * `*out_s` is unchanged */
int duration_parse(double *out_s, const char *text, struct err *e);

#endif
