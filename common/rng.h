/* rng - random numbers that are the same on every machine: xoshiro256++, seeded by splitmix64.
 *
 * Sources: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators", ACM Trans.
 * Math. Softw. 47 (2021), and their public-domain xoshiro256plusplus.c and splitmix64.c at
 * prng.di.unimi.it. Not for secrets. */
#pragma once

#include <stdint.h>

/* A copy of the struct continues the same sequence. */
struct rng {
    uint64_t s[4];
};

/* Seeds the generator. Streams of one seed are independent of each other: use one per trial or
 * purpose. */
void rng_seed(struct rng *r, uint64_t seed, uint64_t stream);
uint64_t rng_u64(struct rng *r);
/* Returns a number that is uniform in [0, 1), a multiple of 2^-53. */
double rng_unit(struct rng *r);
/* Returns a number that is uniform in 0 ... n - 1, without bias; n > 0. (D. Lemire, "Fast random
 * integer generation in an interval", ACM Trans. Model. Comput. Simul. 29 (2019), algorithm 5.) */
uint64_t rng_below(struct rng *r, uint64_t n);

/* Performs one step of splitmix64: advances `*state` and returns 64 bits mixed from it. For seeds
 * and hashes. */
uint64_t rng_splitmix64(uint64_t *state);
