/* batch_auto - how many samples fit, and how many are worth computing at once.
 *
 * The global batch never changes: micro-batch * accumulation * ranks is constant, so the loss curve
 * does not depend on these decisions. */
#pragma once

#include <stdbool.h>

struct batch_limits {
    int min, max; /* of the micro-batch */
    int share;    /* this rank's share of the global batch, which the micro-batch divides */
};

/* What was measured over the last 50 steps. */
struct batch_usage {
    double utilisation; /* of the device, 0 to 1; on a CPU: 1 - the share of time spent waiting */
    double memory;      /* share of the device's memory in use, 0 to 1 */
};

enum { BATCH_AUTO_EVERY = 50 };

/* Returns the largest micro-batch that fits: halves it from limits->max on while `fits` returns
 * false (out of memory, or less than 10 % of the memory is free). 0: none within the limits fits.
 */
int batch_auto_largest(const struct batch_limits *limits, bool (*fits)(void *arg, int batch),
                       void *arg);
/* Returns the micro-batch for the next steps: doubled if utilisation < 0.3, halved if memory > 0.8
 * (which has priority), within the limits. limits->max is the result of batch_auto_largest(), so
 * that the double fits, too. */
int batch_auto_next(int batch, const struct batch_usage *u, const struct batch_limits *limits);
