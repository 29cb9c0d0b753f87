/* deadline - a point in time as users write it: 18:00, 2026-11-26T08:00, or a duration from now. */
#pragma once

#include "common/err.h"

/* Reads a duration (duration.h), "HH:MM[:SS]" (the next such time), "YYYY-MM-DD", or
 * "YYYY-MM-DDTHH:MM[:SS]" with "T" or a space. Times are in the local time zone, and in UTC if "Z"
 * follows. `now_s` and `*out_s` are seconds since 1970.
 *   -EINVAL  malformed
 *   -ERANGE  the time has passed */
int deadline_parse(double *out_s, const char *text, double now_s, struct err *e);
