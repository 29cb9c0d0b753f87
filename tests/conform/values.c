#include "tests/conform/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/comm/float16.h"

/* Two rounds of splitmix64's finaliser (Steele, Lea, Flood 2014). */
uint64_t values_random(uint64_t seed, uint64_t i)
{
    uint64_t x = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (int k = 0; k < 2; k++) {
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    return x;
}

static bool is_float(enum drover_type t)
{
    return t >= DROVER_HALF;
}

static bool is_signed(enum drover_type t)
{
    return is_float(t) || t == DROVER_INT8 || t == DROVER_INT32 || t == DROVER_INT64;
}

static size_t elements(const struct values *v, enum collective_extent extent)
{
    return v->count * (extent == COLLECTIVE_PARTS ? (size_t)v->size : 1);
}

size_t values_in(const struct values *v)
{
    bool has = collective_reads(v->coll, v->rank, v->root);
    return has ? elements(v, collective_row(v->coll)->in) : 0;
}

size_t values_out(const struct values *v)
{
    bool has = collective_writes(v->coll, v->rank, v->root);
    return has ? elements(v, collective_row(v->coll)->out) : 0;
}

static void put_float(void *array, size_t i, enum drover_type t, double x)
{
    uint8_t *b = array;
    uint16_t h = 0;
    float f = (float)x;
    switch (t) {
    case DROVER_DOUBLE:
        memcpy(b + 8 * i, &x, 8);
        break;
    case DROVER_FLOAT:
        memcpy(b + 4 * i, &f, 4);
        break;
    case DROVER_F8E4M3:
        b[i] = f8e4m3_from_float(f);
        break;
    case DROVER_F8E5M2:
        b[i] = f8e5m2_from_float(f);
        break;
    default:
        h = t == DROVER_HALF ? half_from_float(f) : bfloat16_from_float(f);
        memcpy(b + 2 * i, &h, 2);
        break;
    }
}

static double get_float(const void *array, size_t i, enum drover_type t)
{
    const uint8_t *b = array;
    double x = 0;
    float f = 0;
    uint16_t h = 0;
    switch (t) {
    case DROVER_DOUBLE:
        memcpy(&x, b + 8 * i, 8);
        return x;
    case DROVER_FLOAT:
        memcpy(&f, b + 4 * i, 4);
        return (double)f;
    case DROVER_F8E4M3:
        return (double)f8e4m3_to_float(b[i]);
    case DROVER_F8E5M2:
        return (double)f8e5m2_to_float(b[i]);
    default:
        memcpy(&h, b + 2 * i, 2);
        return (double)(t == DROVER_HALF ? half_to_float(h) : bfloat16_to_float(h));
    }
}

/* Little-endian: the low bytes of a 64-bit number. */
static void put_whole(void *array, size_t i, enum drover_type t, int64_t x)
{
    size_t bytes = backend_type_bytes(t);
    memcpy((char *)array + i * bytes, &x, bytes);
}

static int64_t get_whole(const void *array, size_t i, enum drover_type t)
{
    size_t bytes = backend_type_bytes(t);
    uint64_t x = 0;
    memcpy(&x, (const char *)array + i * bytes, bytes);
    unsigned spare = 64 - 8 * (unsigned)bytes;
    return is_signed(t) ? (int64_t)(x << spare) >> spare : (int64_t)x;
}

void values_text(char out[VALUES_TEXT], const void *array, size_t i, enum drover_type t)
{
    if (is_float(t))
        snprintf(out, VALUES_TEXT, "%.9g", get_float(array, i, t));
    else
        snprintf(out, VALUES_TEXT, "%" PRId64, get_whole(array, i, t));
}

/* Whole numbers up to this value, and so their sums, are exact in the type. */
static int64_t exact_max(enum drover_type t)
{
    static const int64_t max[DROVER_TYPES] = {
        [DROVER_INT8] = 127,
        [DROVER_UINT8] = 255,
        [DROVER_INT32] = INT32_MAX,
        [DROVER_UINT32] = UINT32_MAX,
        [DROVER_INT64] = INT64_MAX,
        [DROVER_UINT64] = INT64_MAX,
        [DROVER_HALF] = 2048,
        [DROVER_FLOAT] = 1 << 24,
        [DROVER_DOUBLE] = INT64_C(1) << 53,
        [DROVER_BFLOAT16] = 256,
        [DROVER_F8E4M3] = 16,
        [DROVER_F8E5M2] = 8,
    };
    return max[t];
}

/* A whole number whose reduction over all ranks is exact. */
static int64_t plain(const struct values *v, int rank, uint64_t random)
{
    int64_t x = 0;
    if (v->op == DROVER_PROD) {
        x = rank < 6 && random & 1 ? 2 : 1; /* an int8 holds at most 2^6 */
    } else {
        int64_t divisor = v->op == DROVER_MIN || v->op == DROVER_MAX ? 1 : v->size;
        divisor *= v->op == DROVER_MULSUM ? 2 : 1;
        x = (int64_t)(random % ((uint64_t)(exact_max(v->type) / divisor) + 1));
    }
    /* The rounding of a mean is bounded only without cancellation; whole numbers are exact. */
    bool negative =
        is_signed(v->type) && random >> 63 && !(v->op == DROVER_AVG && is_float(v->type));
    return negative ? -x : x;
}

void values_input(const struct values *v, int rank, size_t i, void *array, size_t at)
{
    uint64_t random =
        values_random(v->seed + (uint64_t)rank * 1000003, v->period ? i % v->period : i);
    if (!collective_reduces(v->coll)) {
        size_t bytes = backend_type_bytes(v->type); /* any bits: moved data are not interpreted */
        memcpy((char *)array + at * bytes, &random, bytes);
    } else if (v->rough && is_float(v->type)) {
        double x = 0.25 + (double)(random >> 11) * 0x1p-53;
        put_float(array, at, v->type, random & 1 ? -x : x);
    } else if (is_float(v->type)) {
        put_float(array, at, v->type, (double)plain(v, rank, random));
    } else {
        put_whole(array, at, v->type, plain(v, rank, random));
    }
}

static void reduced(const struct values *v, size_t i, void *array, size_t at)
{
    uint64_t one = 0;
    double f = 0;
    int64_t w = 0;
    for (int r = 0; r < v->size; r++) {
        values_input(v, r, i, &one, 0);
        double x = is_float(v->type) ? get_float(&one, 0, v->type) : 0;
        int64_t y = is_float(v->type) ? 0 : get_whole(&one, 0, v->type);
        x *= v->op == DROVER_MULSUM ? VALUES_FACTOR(r) : 1;
        y *= v->op == DROVER_MULSUM ? VALUES_FACTOR(r) : 1;
        f = r ? VALUES_COMBINE(f, x, v->op) : x;
        w = r ? VALUES_COMBINE(w, y, v->op) : y;
    }
    bool mean = v->op == DROVER_AVG;
    if (is_float(v->type))
        put_float(array, at, v->type, mean ? f / v->size : f);
    else
        put_whole(array, at, v->type, mean ? w / v->size : w);
}

/* The switch is here on purpose: these results are derived from drover.h, not from the collective's
 * row, so that a wrong row is found. */
void values_expected(const struct values *v, size_t i, void *array)
{
    size_t mine = (size_t)v->rank * v->count;
    switch (v->coll) {
    case COLLECTIVE_ALL_REDUCE:
    case COLLECTIVE_REDUCE:
        reduced(v, i, array, i);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        reduced(v, mine + i, array, i);
        break;
    case COLLECTIVE_BROADCAST:
        values_input(v, v->root, i, array, i);
        break;
    case COLLECTIVE_SCATTER:
        values_input(v, v->root, mine + i, array, i);
        break;
    case COLLECTIVE_ALL_TO_ALL:
        values_input(v, (int)(i / v->count), mine + i % v->count, array, i);
        break;
    default: /* COLLECTIVE_ALL_GATHER, COLLECTIVE_GATHER */
        values_input(v, (int)(i / v->count), i % v->count, array, i);
        break;
    }
}

static int64_t ordered(const void *array, size_t i, size_t bytes)
{
    uint64_t bits = 0, sign = UINT64_C(1) << (8 * bytes - 1);
    memcpy(&bits, (const char *)array + i * bytes, bytes);
    return bits & sign ? -(int64_t)(bits ^ sign) : (int64_t)bits;
}

bool values_same(const struct values *v, const void *got, const void *expected, size_t i)
{
    size_t bytes = backend_type_bytes(v->type);
    if (memcmp((const char *)got + i * bytes, (const char *)expected + i * bytes, bytes) == 0)
        return true;
    bool power_of_2 = (v->size & (v->size - 1)) == 0;
    bool zeros = is_float(v->type) && collective_reduces(v->coll) &&
                 get_float(got, i, v->type) == 0 && get_float(expected, i, v->type) == 0;
    if (zeros) /* +0 and -0 are equal; the sign of a sum or maximum that is 0 is not defined */
        return true;
    if (!collective_reduces(v->coll) || v->op != DROVER_AVG || !is_float(v->type) || power_of_2)
        return false;
    int64_t distance = ordered(got, i, bytes) - ordered(expected, i, bytes);
    return distance <= v->size && distance >= -v->size;
}
