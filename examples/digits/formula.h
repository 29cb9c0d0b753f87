/* formula - activations and dropout of one value, the same on CPU and GPU. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "../kit/rng.h"
#include "mlp.h"

/* Returns the activation of z. GELU is in its tanh form (Hendrycks and Gimpel 2016). */
RNG_FN float formula_activate(enum mlp_activation f, float z)
{
    if (f == MLP_RELU)
        return z > 0 ? z : 0;
    if (f == MLP_TANH)
        return tanhf(z);
    return 0.5f * z * (1 + tanhf(0.7978845608f * (z + 0.044715f * z * z * z)));
}

/* Returns the derivative of the activation at z. For relu at 0 it is 0. */
RNG_FN float formula_slope(enum mlp_activation f, float z)
{
    if (f == MLP_RELU)
        return z > 0 ? 1.0f : 0.0f;
    if (f == MLP_TANH)
        return 1 - tanhf(z) * tanhf(z);
    float t = tanhf(0.7978845608f * (z + 0.044715f * z * z * z));
    return 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * z * z);
}

/* Returns the key of a layer's dropout mask, for formula_kept(). */
RNG_FN uint64_t formula_mask_key(uint64_t seed, int epoch, int layer)
{
    return seed * UINT64_C(1000003) + (uint64_t)epoch * 64 + (uint64_t)layer + 1;
}

/* Returns the factor for a hidden unit's value: 0 if the unit is dropped for this sample, otherwise
 * 1 / (1 - dropout). */
RNG_FN float formula_kept(uint64_t key, int sample, int unit, float dropout)
{
    uint64_t counter = (uint64_t)sample * 65536 + (uint64_t)unit;
    return rng_unit(key, counter) < dropout ? 0 : 1 / (1 - dropout);
}
