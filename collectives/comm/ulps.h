/* ulps - comparison of two values bit by bit, or with a tolerance in units in the last place; for
 * the host and for CUDA's kernels. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "collectives/comm/device_function.h"

/* A float's bits as a whole number that grows with its value. `bytes` is 1, 2, 4 or 8. */
DEVICE_FUNCTION int64_t ulps_ordered(uint64_t bits, size_t bytes)
{
    uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    return bits & sign ? -(int64_t)(bits ^ sign) : (int64_t)bits;
}

/* Returns true if two values with these bits differ by more than `ulps` units in the last place.
 * 0: the bits must be equal, of any type. */
DEVICE_FUNCTION bool ulps_differ(uint64_t got, uint64_t expected, size_t bytes, int64_t ulps)
{
    if (got == expected)
        return false;
    int64_t distance = ulps_ordered(got, bytes) - ulps_ordered(expected, bytes);
    return ulps == 0 || distance > ulps || distance < -ulps;
}
