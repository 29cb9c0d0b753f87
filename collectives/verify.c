#include "collectives/verify.h"

#include <stdbool.h>
#include <string.h>

#include "collectives/busbw.h"
#include "collectives/float16.h"

enum { AVG_ULPS = 2, PLAIN_MAX = 127 /* an int8 holds it */ };

static void set(void *out, size_t i, enum drover_type t, double x)
{
    switch (t) {
    case DROVER_INT8:
        ((int8_t *)out)[i] = (int8_t)x;
        break;
    case DROVER_UINT8:
        ((uint8_t *)out)[i] = (uint8_t)x;
        break;
    case DROVER_INT32:
        ((int32_t *)out)[i] = (int32_t)x;
        break;
    case DROVER_UINT32:
        ((uint32_t *)out)[i] = (uint32_t)x;
        break;
    case DROVER_INT64:
        ((int64_t *)out)[i] = (int64_t)x;
        break;
    case DROVER_UINT64:
        ((uint64_t *)out)[i] = (uint64_t)x;
        break;
    case DROVER_HALF:
        ((uint16_t *)out)[i] = half_from_float((float)x);
        break;
    case DROVER_FLOAT:
        ((float *)out)[i] = (float)x;
        break;
    case DROVER_DOUBLE:
        ((double *)out)[i] = x;
        break;
    case DROVER_BFLOAT16:
        ((uint16_t *)out)[i] = bfloat16_from_float((float)x);
        break;
    case DROVER_F8E4M3:
        ((uint8_t *)out)[i] = f8e4m3_from_float((float)x);
        break;
    case DROVER_F8E5M2:
    case DROVER_TYPES:
        ((uint8_t *)out)[i] = f8e5m2_from_float((float)x);
        break;
    }
}

/* The largest n such that all whole numbers up to it have exact sums. */
static uint64_t exact_max(enum drover_type t)
{
    static const uint64_t max[DROVER_TYPES] = {
        [DROVER_INT8] = 127,       [DROVER_UINT8] = 255,     [DROVER_INT32] = 1 << 24,
        [DROVER_UINT32] = 1 << 24, [DROVER_INT64] = 1 << 24, [DROVER_UINT64] = 1 << 24,
        [DROVER_HALF] = 2048,      [DROVER_FLOAT] = 1 << 24, [DROVER_DOUBLE] = 1 << 24,
        [DROVER_BFLOAT16] = 256,   [DROVER_F8E4M3] = 16,     [DROVER_F8E5M2] = 8,
    };
    return max[t];
}

/* How many doublings from 1 the type holds. */
static uint64_t doublings(enum drover_type t)
{
    static const unsigned char max[DROVER_TYPES] = {
        [DROVER_INT8] = 6,     [DROVER_UINT8] = 7,      [DROVER_INT32] = 30, [DROVER_UINT32] = 31,
        [DROVER_INT64] = 62,   [DROVER_UINT64] = 62,    [DROVER_HALF] = 15,  [DROVER_FLOAT] = 100,
        [DROVER_DOUBLE] = 100, [DROVER_BFLOAT16] = 100, [DROVER_F8E4M3] = 8, [DROVER_F8E5M2] = 15,
    };
    return max[t];
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014): every bit depends on every bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static double input(const struct verify *v, uint64_t rank, size_t element)
{
    uint64_t i = element % VERIFY_PERIOD, n = (uint64_t)v->ranks;
    uint64_t random = mix(mix(v->seed * 1000003 + rank) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
    if (!busbw_has_op(v->coll) || v->op == DROVER_MIN || v->op == DROVER_MAX)
        return (double)(random % (PLAIN_MAX + 1));
    bool product = v->op == DROVER_PROD;
    uint64_t limit = product ? doublings(v->type) : exact_max(v->type);
    uint64_t takes_part = n < limit ? n : limit;
    if ((rank + i) % n >= takes_part)
        return product ? 1 : 0;
    if (product)
        return (double)(1 + (random & 1));
    uint64_t share = limit / takes_part;
    return (double)(random % ((share < PLAIN_MAX ? share : PLAIN_MAX) + 1));
}

static double reduced(const struct verify *v, size_t element)
{
    double x = input(v, 0, element);
    for (int r = 1; r < v->ranks; r++) {
        double y = input(v, (uint64_t)r, element);
        switch (v->op) {
        case DROVER_PROD:
            x *= y;
            break;
        case DROVER_MIN:
            x = y < x ? y : x;
            break;
        case DROVER_MAX:
            x = y > x ? y : x;
            break;
        case DROVER_SUM:
        case DROVER_AVG:
        case DROVER_OPS:
            x += y;
            break;
        }
    }
    return v->op == DROVER_AVG ? x / v->ranks : x; /* a whole type's set() cuts it off */
}

void verify_input(const struct verify *v, int rank, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        set(out, i, v->type, input(v, (uint64_t)rank, i));
}

int verify_blocks(const struct verify *v)
{
    return v->coll == BACKEND_ALL_GATHER || v->coll == BACKEND_ALL_TO_ALL ||
                   v->coll == BACKEND_GATHER || v->coll == BACKEND_ALL_TO_ALL_V
               ? v->ranks
               : 1;
}

/* Whose input a block of what was moved is from. */
static int source(const struct verify *v, int rank, int block)
{
    switch (v->coll) {
    case BACKEND_BROADCAST:
    case BACKEND_SCATTER:
        return v->root;
    case BACKEND_SENDRECV:
        return (rank - 1 + v->ranks) % v->ranks;
    default:
        return block;
    }
}

/* Where in that input, or in the whole reduction, a block begins. */
static size_t source_start(const struct verify *v, int rank, int block, size_t count)
{
    switch (v->coll) {
    case BACKEND_REDUCE_SCATTER:
    case BACKEND_SCATTER:
    case BACKEND_ALL_TO_ALL:
        return (size_t)rank * count;
    case BACKEND_ALL_TO_ALL_V:
        return busbw_v_start(count, v->ranks, block, rank);
    default:
        return 0;
    }
}

void verify_expected(const struct verify *v, int rank, int block, size_t count, void *out, size_t n)
{
    size_t first = source_start(v, rank, block, count);
    uint64_t from = (uint64_t)source(v, rank, block);
    for (size_t i = 0; i < n; i++)
        set(out, i, v->type,
            busbw_has_op(v->coll) ? reduced(v, first + i) : input(v, from, first + i));
}

/* An element's bits as a whole number that grows with the float's value. */
static int64_t ordered(const void *values, size_t i, size_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)values + i * bytes, bytes); /* little-endian */
    uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    return bits & sign ? -(int64_t)(bits ^ sign) : (int64_t)bits;
}

uint64_t verify_wrong(const struct verify *v, const void *got, const void *expected, size_t n)
{
    size_t bytes = backend_type_bytes(v->type);
    if (memcmp(got, expected, n * bytes) == 0)
        return 0;
    bool is_float = v->type >= DROVER_HALF;
    bool near = busbw_has_op(v->coll) && v->op == DROVER_AVG && is_float;
    uint64_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        const char *g = (const char *)got + i * bytes, *x = (const char *)expected + i * bytes;
        if (memcmp(g, x, bytes) == 0)
            continue;
        int64_t apart = near ? ordered(got, i, bytes) - ordered(expected, i, bytes) : INT64_MAX;
        wrong += apart > AVG_ULPS || apart < -AVG_ULPS;
    }
    return wrong;
}
