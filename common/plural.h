/* plural - the ending of a noun after a number: "%d rank%s". */
#ifndef DROVER_PLURAL_H
#define DROVER_PLURAL_H

/* Returns "" for 1, and "s" for every other number. */
const char *plural_s(long long n);

#endif
