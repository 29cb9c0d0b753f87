/* rng - counter-based random numbers.
 *
 * A number depends only on a key and a counter. So a sample gets the same dropout mask and pixel
 * shift on any rank, in any order, on the CPU and on the GPU.
 *
 * The numbers are made by splitmix64's finaliser (Steele, Lea, Flood 2014: "Fast splittable
 * pseudorandom number generators"). */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define RNG_FN static inline __host__ __device__
#else
#define RNG_FN static inline
#endif

/* splitmix64's finaliser. */
RNG_FN uint64_t rng_mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Returns the random number at position `counter` of the sequence that `key` selects. */
RNG_FN uint64_t rng_at(uint64_t key, uint64_t counter)
{
    return rng_mix(rng_mix(key) ^ counter);
}

/* Returns a number that is uniform in [0, 1), a multiple of 2^-24. */
RNG_FN float rng_unit(uint64_t key, uint64_t counter)
{
    return (float)(rng_at(key, counter) >> 40) * 0x1p-24f;
}
