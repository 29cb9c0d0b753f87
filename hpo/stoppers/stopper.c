#include "hpo/stoppers/stopper.h"

#include <stddef.h>

const struct stopper_ops *stopper_of(enum spec_stopper type)
{
    static const struct stopper_ops *const rules[] = {
        [SPEC_STOPPER_NONE] = NULL,
        [SPEC_STOPPER_MEDIAN] = &stopper_median,
        [SPEC_STOPPER_HYPERBAND] = &stopper_hyperband,
        [SPEC_STOPPER_ASHA] = &stopper_asha,
        [SPEC_STOPPER_CURVE] = &stopper_curve,
    };
    return rules[type];
}
