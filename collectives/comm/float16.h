/* float16 - converts the 16-bit and 8-bit floating-point types to float and back. Conversions round
 * to nearest, ties to even, as GPUs do. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "collectives/comm/device_function.h"

DEVICE_FUNCTION uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

DEVICE_FUNCTION float bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

DEVICE_FUNCTION float bfloat16_to_float(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}

DEVICE_FUNCTION uint16_t bfloat16_from_float(float x)
{
    uint32_t u = float_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40); /* the bit 0x40 ensures that the result is a NaN, too */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* IEEE 754 binary16: sign, 5 bits of exponent (bias 15), 10 of fraction. */
DEVICE_FUNCTION float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31)
        return bits_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) { /* fraction * 2^-24, exact in a float */
        float tiny = (float)fraction * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
}

DEVICE_FUNCTION uint16_t half_from_float(float x)
{
    uint32_t u = float_bits(x), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    /* Values from 65520 on become infinity: 65520 is half way between the largest value, 65504, and
     * 65536. */
    if (u >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) { /* below 2^-14: after adding 0.5, the low bits are x / 2^-24, rounded */
        return (uint16_t)(sign | (float_bits(bits_float(u) + 0.5f) - 0x3f000000));
    }
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | (u - 0x38000000) >> 13);
}

/* The 8-bit types (Micikevicius et al. 2022, "FP8 formats for deep learning"): e5m2 is a half with
 * two bits of fraction; e4m3 has no infinity, and one NaN. Conversions saturate at the largest
 * value, as CUDA's do. `bits` is the width of the fraction; the exponent's bias is 7 or 15. */
DEVICE_FUNCTION float float8_to_float(uint8_t f, int bits)
{
    int exponent = f >> bits & (bits == 3 ? 15 : 31), fraction = f & ((1 << bits) - 1);
    uint32_t sign = (uint32_t)(f & 0x80) << 24;
    if (bits == 3 ? (f & 0x7f) == 0x7f : exponent == 31)
        return bits_float(sign | 0x7f800000 |
                          (uint32_t)(bits == 3 ? 1 : fraction) << (bits == 3 ? 22 : 21));
    if (exponent == 0) {
        float tiny = (float)fraction * (bits == 3 ? 0x1p-9f : 0x1p-16f);
        return sign ? -tiny : tiny;
    }
    int bias = bits == 3 ? 7 : 15;
    return bits_float(sign | (uint32_t)(exponent + 127 - bias) << 23 |
                      (uint32_t)fraction << (23 - bits));
}

DEVICE_FUNCTION uint8_t float8_from_float(float x, int bits)
{
    uint32_t u = float_bits(x), sign = u >> 24 & 0x80, bias = bits == 3 ? 7 : 15;
    uint32_t largest = bits == 3 ? 0x7e : 0x7b;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (u < (128 - bias) << 23) { /* below the smallest normal value: as in half_from_float() */
        /* the unit of its last place is the smallest value */
        float magic = bits == 3 ? 0x1p14f : 0x1p7f;
        return (uint8_t)(sign | (float_bits(bits_float(u) + magic) - float_bits(magic)));
    }
    u += (UINT32_C(1) << (22 - bits)) - 1 + (u >> (23 - bits) & 1);
    u = (u >> (23 - bits)) - ((127 - bias) << bits);
    return (uint8_t)(sign | (u < largest ? u : largest));
}

DEVICE_FUNCTION float f8e4m3_to_float(uint8_t f)
{
    return float8_to_float(f, 3);
}

DEVICE_FUNCTION uint8_t f8e4m3_from_float(float x)
{
    return float8_from_float(x, 3);
}

DEVICE_FUNCTION float f8e5m2_to_float(uint8_t f)
{
    return float8_to_float(f, 2);
}

DEVICE_FUNCTION uint8_t f8e5m2_from_float(float x)
{
    return float8_from_float(x, 2);
}
