#include "collectives/bench/analysis/verify.h"

#include <stdbool.h>
#include <string.h>

#include "collectives/comm/premul.h"
#include "collectives/comm/ulps.h"
#include "common/rng.h"

enum { AVG_ULPS = 2, PLAIN_MAX = 127 /* an int8 holds it */ };

static void set(void *out, size_t i, enum drover_type t, double x)
{
    uint64_t bits = type_bits(t, x);
    size_t bytes = backend_type_bytes(t);
    memcpy((char *)out + i * bytes, &bits, bytes); /* little-endian */
}

/* For each type the value up to which sums of whole numbers are exact, and the largest exponent of
 * a power of 2. */
static const struct {
    uint64_t exact;
    unsigned doublings;
} limits[DROVER_TYPES] = {
    [DROVER_INT8] = {127, 6},         [DROVER_UINT8] = {255, 7},
    [DROVER_INT32] = {1 << 24, 30},   [DROVER_UINT32] = {1 << 24, 31},
    [DROVER_INT64] = {1 << 24, 62},   [DROVER_UINT64] = {1 << 24, 62},
    [DROVER_HALF] = {2048, 15},       [DROVER_FLOAT] = {1 << 24, 100},
    [DROVER_DOUBLE] = {1 << 24, 100}, [DROVER_BFLOAT16] = {256, 100},
    [DROVER_F8E4M3] = {16, 8},        [DROVER_F8E5M2] = {8, 15},
};

static double input(const struct verify *v, uint64_t rank, size_t element)
{
    uint64_t i = element % VERIFY_PERIOD, n = (uint64_t)v->ranks, state = v->seed * 1000003 + rank;
    state = rng_splitmix64(&state) + i * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t random = rng_splitmix64(&state);
    if (!collective_reduces(v->coll) || v->op == DROVER_MIN || v->op == DROVER_MAX)
        return (double)(random % (PLAIN_MAX + 1));
    bool product = v->op == DROVER_PROD;
    uint64_t limit = product ? limits[v->type].doublings : limits[v->type].exact;
    limit /= v->op == DROVER_MULSUM ? 2 : 1; /* the largest factor */
    uint64_t contributors = n < limit ? n : limit;
    if ((rank + i) % n >= contributors)
        return product ? 1 : 0;
    if (product)
        return (double)(1 + (random & 1));
    uint64_t share = limit / contributors, wide = 64 * n > PLAIN_MAX ? 64 * n : PLAIN_MAX;
    uint64_t room = share < wide ? share : wide;
    if (contributors == n && room >= 2 * n)
        return (double)(1 + rank + n * (random % (room / n)));
    return (double)(random % (room + 1));
}

double verify_factor(int rank)
{
    return 1 + rank % 2;
}

static double combine(enum drover_op op, double x, double y)
{
    if (op == DROVER_MIN || op == DROVER_MAX)
        return (y < x) == (op == DROVER_MIN) ? y : x;
    return op == DROVER_PROD ? x * y : x + y;
}

/* Returns the reduction in which rank `odd` contributes `times` times, and every other rank once.
 * If `odd` is -1, every rank contributes once. */
static double reduced(const struct verify *v, size_t element, int odd, int times)
{
    double x = 0;
    bool any = false;
    for (int r = 0; r < v->ranks; r++)
        for (int k = 0; k < (r == odd ? times : 1); k++) {
            double y = input(v, (uint64_t)r, element);
            y *= v->op == DROVER_MULSUM ? verify_factor(r) : 1;
            x = any ? combine(v->op, x, y) : y;
            any = true;
        }
    return v->op == DROVER_AVG ? x / v->ranks : x; /* set() truncates it for whole numbers */
}

void verify_input(const struct verify *v, int rank, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        set(out, i, v->type, input(v, (uint64_t)rank, i));
}

struct traffic_call verify_traffic(const struct verify *v, size_t count)
{
    return (struct traffic_call){v->traffic, v->ranks, backend_type_bytes(v->type), count};
}

int verify_blocks(const struct verify *v)
{
    return collective_row(v->coll)->source == COLLECTIVE_FROM_EACH ? v->ranks : 1;
}

/* Returns the rank whose input is in a block of the output, for a collective that only moves
 * data. */
static int source(const struct verify *v, int rank, int block)
{
    return collective_source_rank(v->coll, rank, block, v->root, v->ranks);
}

/* Returns the position of a block in its source, which is an input or the reduction of all
 * inputs. */
static size_t source_start(const struct verify *v, int rank, int block, size_t count)
{
    enum collective_extent in = collective_row(v->coll)->in;
    struct traffic_call c = verify_traffic(v, count);
    if (in == COLLECTIVE_VARYING)
        return traffic_send_start(&c, block, rank);
    return in == COLLECTIVE_PARTS ? (size_t)rank * count : 0;
}

void verify_expected(const struct verify *v, int rank, int block, size_t count, void *out, size_t n)
{
    size_t first = source_start(v, rank, block, count);
    uint64_t from = (uint64_t)source(v, rank, block);
    for (size_t i = 0; i < n; i++)
        set(out, i, v->type,
            collective_reduces(v->coll) ? reduced(v, first + i, -1, 1) : input(v, from, first + i));
}

/* Returns the tolerance for a mean of n floats that are multiplied by 1/n before the sum, in units
 * in the last place: half a unit for each of n - 1 sums, one for 1/n, and one for the products. If
 * n is a power of 2, 1/n and the products are exact. */
static int64_t avg_ulps(int n)
{
    return AVG_ULPS + ((n & (n - 1)) ? n / 2 : 0);
}

int64_t verify_ulps(const struct verify *v)
{
    bool mean = collective_reduces(v->coll) && v->op == DROVER_AVG && v->type >= DROVER_HALF;
    return mean ? avg_ulps(v->ranks) : 0;
}

static uint64_t bits_at(const void *values, size_t i, size_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)values + i * bytes, bytes); /* little-endian */
    return bits;
}

uint64_t verify_wrong(const struct verify *v, const void *got, const void *expected, size_t n)
{
    size_t bytes = backend_type_bytes(v->type);
    int64_t ulps = verify_ulps(v);
    uint64_t wrong = 0;
    if (memcmp(got, expected, n * bytes) == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        wrong += ulps_differ(bits_at(got, i, bytes), bits_at(expected, i, bytes), bytes, ulps);
    return wrong;
}

void verify_find(const struct verify *v, struct verify_finding *f, const void *got,
                 const void *expected, size_t first, size_t n)
{
    size_t bytes = backend_type_bytes(v->type);
    for (size_t i = 0; i < n && f->n < VERIFY_SOME; i++) {
        const char *g = (const char *)got + i * bytes, *x = (const char *)expected + i * bytes;
        if (verify_wrong(v, g, x, 1) == 0)
            continue;
        if (f->n == 0) {
            f->expected = type_value(v->type, bits_at(x, 0, bytes));
            f->got = type_value(v->type, bits_at(g, 0, bytes));
        }
        f->at[f->n] = first + i;
        f->bits[f->n++] = bits_at(g, 0, bytes);
    }
}

/* Returns the value of element i under the assumption that `cause` is the cause of the fault and
 * that rank `r` is at fault. */
static double value_if(const struct verify *v, enum verify_cause cause, int r, size_t i)
{
    return cause == VERIFY_FROM_OTHER ? input(v, (uint64_t)r, i)
                                      : reduced(v, i, r, cause == VERIFY_COUNTED_TWICE ? 2 : 0);
}

static bool explains(const struct verify *v, const struct verify_finding *f, size_t start,
                     enum verify_cause cause, int r)
{
    for (size_t i = 0; i < f->n; i++) {
        double value = value_if(v, cause, r, start + f->at[i] % VERIFY_PERIOD);
        uint64_t bits = type_bits(v->type, value);
        if (verify_wrong(v, &f->bits[i], &bits, 1))
            return false;
    }
    return f->n > 0;
}

static bool untouched(const struct verify_finding *f, size_t bytes)
{
    uint64_t poison = 0;
    memset(&poison, VERIFY_POISON, bytes);
    for (size_t i = 0; i < f->n; i++)
        if (f->bits[i] != poison)
            return false;
    return f->n > 0;
}

struct verify_diagnosis verify_diagnose(const struct verify *v, const struct verify_finding *f,
                                        int rank, size_t count)
{
    struct verify_diagnosis b = {.cause = VERIFY_UNKNOWN, .rank = -1};
    bool computes = collective_reduces(v->coll);
    size_t start = source_start(v, rank, f->block, count);
    if (untouched(f, backend_type_bytes(v->type))) {
        b.cause = VERIFY_UNTOUCHED;
        b.rank = computes ? -1 : source(v, rank, f->block);
        b.ranks = 1;
        return b;
    }
    enum verify_cause first = computes ? VERIFY_MISSING : VERIFY_FROM_OTHER;
    enum verify_cause last = computes ? VERIFY_COUNTED_TWICE : VERIFY_FROM_OTHER;
    for (enum verify_cause c = first; c <= last && b.ranks == 0; c++)
        for (int r = 0; r < v->ranks; r++)
            if (explains(v, f, start, c, r) && b.ranks++ == 0) {
                b.cause = c;
                b.rank = r;
            }
    return b;
}
