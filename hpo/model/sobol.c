#include "hpo/model/sobol.h"

#include "common/mem.h"
#include "common/rng.h"

enum { BITS = 32, DEGREE_MAX = 8 };

/* Dimensions 2 to 40 of new-joe-kuo-6. Dimension 1 has no polynomial. */
static const struct direction {
    uint16_t polynomial; /* over GF(2), primitive; bit i is the coefficient of x^i */
    uint8_t first[DEGREE_MAX];
} directions[] = {
    {3, {1}},
    {7, {1, 3}},
    {11, {1, 3, 1}},
    {13, {1, 1, 1}},
    {19, {1, 1, 3, 3}},
    {25, {1, 3, 5, 13}},
    {37, {1, 1, 5, 5, 17}},
    {41, {1, 1, 5, 5, 5}},
    {47, {1, 1, 7, 11, 19}},
    {55, {1, 1, 5, 1, 1}},
    {59, {1, 1, 1, 3, 11}},
    {61, {1, 3, 5, 5, 31}},
    {67, {1, 3, 3, 9, 7, 49}},
    {91, {1, 1, 1, 15, 21, 21}},
    {97, {1, 3, 1, 13, 27, 49}},
    {103, {1, 1, 1, 15, 7, 5}},
    {109, {1, 3, 1, 15, 13, 25}},
    {115, {1, 1, 5, 5, 19, 61}},
    {131, {1, 3, 7, 11, 23, 15, 103}},
    {137, {1, 3, 7, 13, 13, 15, 69}},
    {143, {1, 1, 3, 13, 7, 35, 63}},
    {145, {1, 3, 5, 9, 1, 25, 53}},
    {157, {1, 3, 1, 13, 9, 35, 107}},
    {167, {1, 3, 1, 5, 27, 61, 31}},
    {171, {1, 1, 5, 11, 19, 41, 61}},
    {185, {1, 3, 5, 3, 3, 13, 69}},
    {191, {1, 1, 7, 13, 1, 19, 1}},
    {193, {1, 3, 7, 5, 13, 19, 59}},
    {203, {1, 1, 3, 9, 25, 29, 41}},
    {211, {1, 3, 5, 13, 23, 1, 55}},
    {213, {1, 3, 7, 3, 13, 59, 17}},
    {229, {1, 3, 1, 3, 5, 53, 69}},
    {239, {1, 1, 5, 5, 23, 33, 13}},
    {241, {1, 1, 7, 7, 1, 61, 123}},
    {247, {1, 1, 7, 9, 13, 61, 49}},
    {253, {1, 3, 3, 5, 3, 55, 33}},
    {285, {1, 3, 1, 15, 31, 13, 49, 245}},
    {299, {1, 3, 5, 15, 31, 59, 63, 97}},
    {301, {1, 3, 1, 11, 11, 11, 77, 249}},
};

enum { BLOCK = 1 + COUNT_OF(directions) };

static uint32_t reverse(uint32_t x)
{
    x = (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
    x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
    x = (x & 0x0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f);
    return __builtin_bswap32(x);
}

/* Flips each bit by a hash of the key and the bits above it (S. Laine and T. Karras, "Stratified
 * sampling for stochastic transparency", 2011). With the bits reversed, `x ^= x * even` does that.
 * The constants are those of N. Vegdahl, "Building a better LK hash" (2021). Vegdahl takes the
 * addend and the factor from one word of 32 bits, this function from 64. */
static uint32_t scramble(uint32_t x, uint64_t key)
{
    x = reverse(x);
    x ^= x * 0x3d20adea;
    x += (uint32_t)key;
    x *= (uint32_t)(key >> 32) | 1;
    x ^= x * 0x05526c56;
    x ^= x * 0x53a22864;
    return reverse(x);
}

/* Returns coordinate `dim` of a point, 0 <= dim < BLOCK, in units of 2^-32. It is the exclusive or
 * of the direction numbers v[k] for all bits k that are set in the index (Joe & Kuo 2008). */
static uint32_t coordinate(size_t dim, uint32_t index)
{
    if (dim == 0)
        return reverse(index);
    const struct direction *d = &directions[dim - 1];
    int degree = 31 - __builtin_clz(d->polynomial);
    uint32_t v[BITS], x = 0;
    for (int k = 0; k < BITS && index >> k; k++) {
        if (k < degree) {
            v[k] = (uint32_t)d->first[k] << (BITS - 1 - k);
        } else {
            v[k] = v[k - degree] >> degree;
            for (int j = 1; j <= degree; j++)
                v[k] ^= (d->polynomial >> (degree - j) & 1) * v[k - j];
        }
        x ^= (index >> k & 1) * v[k];
    }
    return x;
}

void sobol_point(uint64_t seed, uint64_t index, size_t dims, double *u)
{
    uint64_t keys = rng_splitmix64(&seed) ^ (index >> BITS);
    uint32_t at = (uint32_t)index;
    for (size_t i = 0; i < dims; i++) {
        if (i % BLOCK == 0 && i > 0)
            at = scramble((uint32_t)index, rng_splitmix64(&keys));
        uint32_t x = scramble(coordinate(i % BLOCK, at), rng_splitmix64(&keys));
        u[i] = (x + 0.5) * 0x1p-32;
    }
}
