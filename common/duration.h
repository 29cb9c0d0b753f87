/* duration - durations as users write them: 90, 500ms, 1.5h, 1h30m; and as tables show them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Reads a number of seconds, or numbers with the units d, h, m, s and ms, each unit at most once
 * and the largest first: "90", "500ms", "1.5h", "1h30m". -EINVAL  not a duration, or negative;
 * `*out_s` is unchanged */
int duration_parse(double *out_s, const char *text, struct err *e);

/* Writes a number of seconds with its two largest units: "12s", "3m05s", "2h03m" or "4d02h"; a
 * negative number as "0s". `size` 24 suffices. Returns `buf`. */
char *duration_format(char *buf, size_t size, int64_t s);
