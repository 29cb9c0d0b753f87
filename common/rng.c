#include "common/rng.h"

#include <assert.h>

/* G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014;
 * the constants are those of Vigna's splitmix64.c. */
uint64_t rng_splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Each step is a bijection of 64 bits, so the streams of one seed have different states. The four
 * words are never all 0, which is the only state that xoshiro must not have. */
void rng_seed(struct rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t state = rng_splitmix64(&seed) ^ stream;
    state = rng_splitmix64(&state);
    for (int i = 0; i < 4; i++)
        r->s[i] = rng_splitmix64(&state);
}

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s, result = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double rng_unit(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    assert(n > 0);
    unsigned __int128 product = (unsigned __int128)rng_u64(r) * n;
    if ((uint64_t)product < n) {
        /* 2^64 mod n: with fewer low words, all results are equally likely */
        uint64_t uneven = -n % n;
        while ((uint64_t)product < uneven)
            product = (unsigned __int128)rng_u64(r) * n;
    }
    return (uint64_t)(product >> 64);
}
