/* straggler - finds the ranks that are slower than the other ranks of their job, from the times
 * that all ranks need for the same thing: a section, or the time between two collectives.
 *
 * The k-th time of a rank is divided by the median of the k-th times of all ranks, so that steps
 * that are long for all ranks do not matter. A rank is slow if the median of its last ratios
 * exceeds the median over all ranks
 *
 * - by 20 %, and a time that the caller chooses,
 * - by 5 times the spread of the ranks' medians (1.4826 MAD, which is the standard deviation if
 *   they are normally distributed),
 * - and by 5 times the standard error of its own median,
 *
 * in 4 further steps, too. It is no longer slow if the median is within 10 %. Medians and MAD
 * ignore single long steps, such as those in which rank 0 writes a checkpoint. The last 16 ratios
 * are used, and the last 64 if the times vary too much for that. At least 3 ranks are needed. Pure.
 */
#pragma once

#include <stdbool.h>

#include "common/mem.h"

enum { STRAGGLER_NAME_BYTES = 64, STRAGGLER_SERIES_MAX = 32 };

struct straggler;

struct straggler *straggler_new(int ranks);
void straggler_free(struct straggler *s);
AUTO_DEFINE(straggler, struct straggler *, straggler_free)

/* Adds the time that a rank needed. `what` names the thing: "step". A rank is not slow if it loses
 * less than `excess_min_s`, which is that of the first call for this thing. Further names after
 * STRAGGLER_SERIES_MAX are ignored. */
void straggler_add(struct straggler *s, int rank, const char *what, double seconds,
                   double excess_min_s);
/* The rank has ended: its times do not count any more. */
void straggler_end(struct straggler *s, int rank);

struct straggler_change {
    int rank;
    bool slow; /* it has become slow; false: it is no longer slow */
    char what[STRAGGLER_NAME_BYTES];
    double ratio;          /* its time divided by the median of the others */
    double seconds;        /* the median of its last times … */
    double others, spread; /* … and the median and the spread (1.4826 MAD) of the other ranks' */
};

/* Looks at the times that were added since the last call. Returns true and fills `*out` if a rank
 * has become slow, or is no longer slow. Call it again until it returns false. A rank that is slow
 * in several things is reported once, with the one in which it loses most. */
bool straggler_next(struct straggler *s, struct straggler_change *out);
