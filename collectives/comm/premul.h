/* premul - converts numbers to any type, and applies the premultiplier of DROVER_MULSUM.
 *
 * For integer types the premultiplier is truncated, and products wrap on overflow. */
#pragma once

#include <stddef.h>

#include "collectives/comm/float16.h"
#include "collectives/drover.h"

/* Converts x to type `t`. The low bytes of the result are the value; |x| < 2^63 for whole numbers,
 * which are truncated. */
static inline uint64_t type_bits(enum drover_type t, double x)
{
    float single = (float)x;
    uint64_t bits = 0;
    if (t < DROVER_HALF)
        bits = (uint64_t)(int64_t)x;
    else if (t == DROVER_DOUBLE)
        memcpy(&bits, &x, sizeof x);
    else if (t == DROVER_FLOAT)
        bits = float_bits(single);
    else if (t == DROVER_HALF)
        bits = half_from_float(single);
    else if (t == DROVER_BFLOAT16)
        bits = bfloat16_from_float(single);
    else
        bits = float8_from_float(single, t == DROVER_F8E4M3 ? 3 : 2);
    return bits;
}

/* Multiplies n values by the factor. Each product is rounded once. */
static inline void premul_apply(void *values, size_t n, enum drover_type t, double factor)
{
    uint64_t scalar = type_bits(t, factor);
#define SCALE(type, expression)        \
    do {                               \
        type *v = values;              \
        for (size_t i = 0; i < n; i++) \
            v[i] = (type)(expression); \
    } while (0)
#define SCALE_SMALL(type, from, to)      \
    do {                                 \
        float f = from((type)scalar);    \
        SCALE(type, to(from(v[i]) * f)); \
    } while (0)
    switch (t) {
    case DROVER_INT8:
    case DROVER_UINT8:
        SCALE(uint8_t, v[i] * scalar);
        break;
    case DROVER_INT32:
    case DROVER_UINT32:
        SCALE(uint32_t, v[i] * scalar);
        break;
    case DROVER_INT64:
    case DROVER_UINT64:
        SCALE(uint64_t, v[i] * scalar);
        break;
    case DROVER_FLOAT:
        SCALE(float, v[i] * (float)factor);
        break;
    case DROVER_DOUBLE:
        SCALE(double, v[i] * factor);
        break;
    case DROVER_HALF:
        SCALE_SMALL(uint16_t, half_to_float, half_from_float);
        break;
    case DROVER_BFLOAT16:
        SCALE_SMALL(uint16_t, bfloat16_to_float, bfloat16_from_float);
        break;
    case DROVER_F8E4M3:
        SCALE_SMALL(uint8_t, f8e4m3_to_float, f8e4m3_from_float);
        break;
    case DROVER_F8E5M2:
    case DROVER_TYPES:
        SCALE_SMALL(uint8_t, f8e5m2_to_float, f8e5m2_from_float);
        break;
    }
#undef SCALE
#undef SCALE_SMALL
}
