#include "batch_auto.h"

/* Returns the largest divisor of the share from `least` to `most`, or 0. */
static int divisor(const struct batch_limits *limits, int least, int most)
{
    for (int d = most < limits->max ? most : limits->max; d >= least && d >= limits->min; d--)
        if (limits->share % d == 0)
            return d;
    return 0;
}

/* Returns the largest divisor that is at most half of `batch`, else the largest one below it, or
 * 0. */
static int smaller(const struct batch_limits *limits, int batch)
{
    int d = divisor(limits, 1, batch / 2);
    return d ? d : divisor(limits, 1, batch - 1);
}

int batch_auto_largest(const struct batch_limits *limits, bool (*fits)(void *arg, int batch),
                       void *arg)
{
    int batch = divisor(limits, 1, limits->max);
    while (batch && !fits(arg, batch))
        batch = smaller(limits, batch);
    return batch;
}

int batch_auto_next(int batch, const struct batch_usage *u, const struct batch_limits *limits)
{
    int next = u->memory > 0.8        ? smaller(limits, batch)
               : u->utilisation < 0.3 ? divisor(limits, batch + 1, 2 * batch)
                                      : batch;
    return next ? next : batch;
}
