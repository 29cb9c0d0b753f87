/* float16 - the two 16-bit floating-point types on a host that does not compute with them. Values
 * go to float and back; rounding is to nearest, ties to even, as the GPU rounds. */
#ifndef DROVER_FLOAT16_H
#define DROVER_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float bfloat16_to_float(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}

static inline uint16_t bfloat16_from_float(float x)
{
    uint32_t u = float_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40); /* a NaN stays one when its low bits go */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* IEEE 754 binary16: sign, 5 bits of exponent (bias 15), 10 of fraction. */
static inline float half_to_float(uint16_t h)
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

static inline uint16_t half_from_float(float x)
{
    uint32_t u = float_bits(x), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (u >= 0x477ff000) /* 65520, half way between the largest and the next: infinity from here */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) { /* below 2^-14: adding 0.5 leaves x/2^-24, rounded, in the low bits */
        return (uint16_t)(sign | (float_bits(bits_float(u) + 0.5f) - 0x3f000000));
    }
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | (u - 0x38000000) >> 13);
}

#endif
