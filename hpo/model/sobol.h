/* sobol - points that fill the unit cube evenly: a Sobol sequence with Owen's scrambling.
 *
 * Take 2^m successive points whose first index is a multiple of 2^m, and divide the range of any
 * coordinate into 2^m equal intervals: each interval contains exactly one point. The same holds if
 * the square of the first two coordinates is divided into 2^m equal boxes of any shape; other pairs
 * of coordinates come close to this. Over all seeds, each point is uniformly distributed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Sets u[0 … dims - 1] to point number `index` of the sequence that belongs to `seed`. The
 * coordinates are strictly between 0 and 1, in steps of 2^-32. The result depends on the arguments
 * only, and the first coordinates do not depend on `dims`. After 2^32 points a new scrambling
 * begins.
 *
 * Direction numbers: S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
 * two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), their file new-joe-kuo-6. The
 * scrambling is by a hash. Coordinates after the first 40 come in blocks of 40, each with the
 * points in another order (B. Burley, "Practical hash-based Owen scrambling", JCGT 9 (2020),
 * sections 3 and 5). Costs O(dims log2(index)): at index 1,000 about 35 ns for each of the first 40
 * coordinates, and 170 ns for each later one. */
void sobol_point(uint64_t seed, uint64_t index, size_t dims, double *u);
