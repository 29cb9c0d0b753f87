/* premul - converts numbers to any type, and applies the premultiplier of DROVER_MULSUM.
 *
 * For integer types the premultiplier is truncated, and products wrap on overflow. */
#pragma once

#include <stddef.h>

#include "collectives/comm/float16.h"
#include "collectives/drover.h"

/* Converts x to type `t`. The low bytes of the result are the value; |x| < 2^63 for whole numbers,
 * which are truncated. */
DEVICE_FUNCTION uint64_t type_bits(enum drover_type t, double x)
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

/* Returns the value whose bits these are. */
DEVICE_FUNCTION double type_value(enum drover_type t, uint64_t bits)
{
    double x = (double)bits;
    if (t == DROVER_INT8)
        x = (int8_t)bits;
    else if (t == DROVER_INT32)
        x = (int32_t)bits;
    else if (t == DROVER_INT64)
        x = (double)(int64_t)bits;
    else if (t == DROVER_DOUBLE)
        memcpy(&x, &bits, sizeof x);
    else if (t == DROVER_FLOAT)
        x = bits_float((uint32_t)bits);
    else if (t == DROVER_HALF)
        x = half_to_float((uint16_t)bits);
    else if (t == DROVER_BFLOAT16)
        x = bfloat16_to_float((uint16_t)bits);
    else if (t >= DROVER_F8E4M3)
        x = float8_to_float((uint8_t)bits, t == DROVER_F8E4M3 ? 3 : 2);
    return x;
}

/* Returns the bits of the product of two values with these bits, which is rounded once. */
DEVICE_FUNCTION uint64_t premul_one(enum drover_type t, uint64_t bits, uint64_t factor)
{
    /* of types that are smaller than a double, the product of two values is exact in a double */
    return t < DROVER_HALF ? bits * factor
                           : type_bits(t, type_value(t, bits) * type_value(t, factor));
}

/* Multiplies n values by the factor. */
static inline void premul_apply(void *values, size_t n, enum drover_type t, double factor)
{
    uint64_t scalar = type_bits(t, factor);
#define SCALE(type, product)           \
    do {                               \
        type *v = (type *)values;      \
        for (size_t i = 0; i < n; i++) \
            v[i] = (type)(product);    \
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
    case DROVER_BFLOAT16:
        SCALE(uint16_t, premul_one(t, v[i], scalar));
        break;
    default:
        SCALE(uint8_t, premul_one(t, v[i], scalar));
        break;
    }
#undef SCALE
}
