/* stopper_hyperband - W&B's early_terminate; see stopper.h. */
#include <math.h>

#include "hpo/stoppers/stopper.h"

enum { BANDS_MAX = 100 };

/* With max_iter: max_iter/eta, max_iter/eta², … s of them. Otherwise min_iter, min_iter·eta, …
 * Truncated to integers. */
int stopper_hyperband_band(const struct spec_stop *rule, int iterations)
{
    int highest = 0;
    bool down = rule->max_iter > 0;
    double band = down ? rule->max_iter / rule->eta : rule->min_iter;
    for (int k = 0; k < (down ? rule->s : BANDS_MAX); k++) {
        if (band < 1 || (!down && trunc(band) > iterations))
            break;
        if (trunc(band) <= iterations && trunc(band) > highest)
            highest = (int)band;
        band = down ? band / rule->eta : band * rule->eta; /* not pow(): W&B's last bits count */
    }
    return highest;
}

static enum stopper_verdict judge(const struct spec_stop *rule, bool maximize,
                                  const struct trial_view *view, struct trial *t)
{
    int band = stopper_hyperband_band(rule, (int)t->point_count);
    if (band == 0)
        return STOPPER_GO;
    double mine = rule->strict ? t->points[band - 1].value : t->best;
    size_t there = 0, better = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *other = view->trials[i];
        if (other->point_count < (size_t)band)
            continue;
        double value = other->points[band - 1].value;
        there++;
        better += maximize ? value > mine : value < mine;
    }
    /* Worse than the one at index floor(1/eta · n) in order: so many and one more are better. */
    return (double)better > floor(1 / rule->eta * (double)there) ? STOPPER_STOP : STOPPER_GO;
}

const struct stopper_ops stopper_hyperband = {.name = "hyperband", .judge = judge};
