/* plural - the ending of a noun after a number: "%d rank%s". */
#pragma once

/* Returns "" for 1, and "s" for every other number. */
static inline const char *plural_s(long long n)
{
    return n == 1 ? "" : "s";
}
