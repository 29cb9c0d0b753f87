/* nccl_values - NCCL's types on the host, for the stand-in. A long double holds 64-bit numbers. */
#pragma once

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/comm/float16.h"

static inline size_t bytes_of(ncclDataType_t t)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return bytes[t];
}

static inline long double get(const void *b, size_t i, ncclDataType_t t)
{
    switch (t) {
    case ncclInt8:
        return ((const int8_t *)b)[i];
    case ncclUint8:
        return ((const uint8_t *)b)[i];
    case ncclInt32:
        return ((const int32_t *)b)[i];
    case ncclUint32:
        return ((const uint32_t *)b)[i];
    case ncclInt64:
        return ((const int64_t *)b)[i];
    case ncclUint64:
        return ((const uint64_t *)b)[i];
    case ncclFloat16:
        return half_to_float(((const uint16_t *)b)[i]);
    case ncclFloat32:
        return ((const float *)b)[i];
    case ncclFloat64:
        return ((const double *)b)[i];
    case ncclBfloat16:
        return bfloat16_to_float(((const uint16_t *)b)[i]);
    case ncclFloat8e4m3:
        return f8e4m3_to_float(((const uint8_t *)b)[i]);
    default:
        return f8e5m2_to_float(((const uint8_t *)b)[i]);
    }
}

static inline void set(void *b, size_t i, ncclDataType_t t, long double x)
{
    switch (t) {
    case ncclInt8:
        ((int8_t *)b)[i] = (int8_t)x;
        break;
    case ncclUint8:
        ((uint8_t *)b)[i] = (uint8_t)x;
        break;
    case ncclInt32:
        ((int32_t *)b)[i] = (int32_t)x;
        break;
    case ncclUint32:
        ((uint32_t *)b)[i] = (uint32_t)x;
        break;
    case ncclInt64:
        ((int64_t *)b)[i] = (int64_t)x;
        break;
    case ncclUint64:
        ((uint64_t *)b)[i] = (uint64_t)x;
        break;
    case ncclFloat16:
        ((uint16_t *)b)[i] = half_from_float((float)x);
        break;
    case ncclFloat32:
        ((float *)b)[i] = (float)x;
        break;
    case ncclFloat64:
        ((double *)b)[i] = x;
        break;
    case ncclBfloat16:
        ((uint16_t *)b)[i] = bfloat16_from_float((float)x);
        break;
    case ncclFloat8e4m3:
        ((uint8_t *)b)[i] = f8e4m3_from_float((float)x);
        break;
    default:
        ((uint8_t *)b)[i] = f8e5m2_from_float((float)x);
        break;
    }
}

static inline long double rounded(long double x, ncclDataType_t t)
{
    uint64_t value;
    set(&value, 0, t, x);
    return get(&value, 0, t);
}

static inline long double combine(long double a, long double b, ncclRedOp_t op, ncclDataType_t t)
{
    bool exact = op == ncclMin || op == ncclMax || t < ncclFloat16;
    long double x = op == ncclProd  ? a * b
                    : op == ncclMin ? (b < a ? b : a)
                    : op == ncclMax ? (b > a ? b : a)
                                    : a + b;
    if (exact)
        return x;
    return op == ncclProd ? (double)a * (double)b : (double)a + (double)b;
}
