/* schedule - learning rates, as functions of the step. Header only. */
#pragma once

#include <math.h>
#include <stdint.h>

enum schedule { SCHEDULE_CONSTANT, SCHEDULE_COSINE };

/* Returns the factor of the learning rate at `step` = 0, 1, ... of `total`: a linear warm-up over
 * `warmup` steps, then 1, or a cosine from 1 to `floor`. */
static inline double schedule_factor(enum schedule s, int64_t step, int64_t total, int64_t warmup,
                                     double floor)
{
    if (step < warmup)
        return (double)(step + 1) / (double)warmup;
    if (s == SCHEDULE_CONSTANT || total <= warmup)
        return 1;
    double done = (double)(step - warmup) / (double)(total - warmup);
    return floor + (1 - floor) * 0.5 * (1 + cos(M_PI * done));
}
