/* sobol - points that fill the unit cube evenly: a Sobol sequence with Owen's scrambling.
 *
 * Of any 2^m points whose first index is a multiple of 2^m, each of 2^m equal intervals of every
 * coordinate has one, and so has each of 2^m equal boxes, of any shape, of the first two
 * coordinates; other pairs of coordinates come close to this. Over the seeds, each point is
 * uniformly distributed. */
#ifndef DROVER_SOBOL_H
#define DROVER_SOBOL_H

#include <stddef.h>
#include <stdint.h>

/* u[0 … dims - 1]: point number `index` of the sequence of `seed`, each in steps of 2^-32 and
 * strictly between 0 and 1. A pure function; with more dims, the first ones do not change. After
 * 2^32 points a new scrambling begins.
 *
 * Direction numbers: S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
 * two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), their file new-joe-kuo-6.
 * Scrambling by a hash, and more than 40 dims from blocks of 40 in which the points come in
 * shuffled order: B. Burley, "Practical hash-based Owen scrambling", JCGT 9 (2020), sections 3 and
 * 5. Cost O(dims log2(index)): about 35 ns per dim at index 1,000, and 170 ns from dim 40 on. */
void sobol_point(uint64_t seed, uint64_t index, size_t dims, double *u);

#endif
