/* matern - the Matern kernel with smoothness 5/2 over arrays of squared distances, and the sums
 * over arrays that its derivatives need.
 *
 *      k(r) = (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)      Rasmussen & Williams 2006, eq. 4.17
 *
 * Written for vector units: exp() is a polynomial, exact to 2 units in the last place on [-708, 0].
 */
#ifndef DROVER_MATERN_H
#define DROVER_MATERN_H

#include <stddef.h>

/* k[i] = scale * k(sqrt(r2[i])); n values, each r2[i] >= 0 and finite. `k` may be `r2`. */
void matern_52(const double *r2, size_t n, double scale, double *k);

/* The same, and the derivative: slope[i] = scale * dk / d(r^2), which is <= 0 and finite at r =
 * 0. */
void matern_52_slope(const double *r2, size_t n, double scale, double *k, double *slope);

struct matern_line {           /* one coordinate */
    double at, inverse, scale; /* coordinate of a point; 1 / length; of the kernel */
};

/* k[i] += scale * k(|x[i] - at| inverse), and, if `slope` is not NULL, slope[i] as above. */
void matern_52_line(const struct matern_line *line, const double *x, size_t n, double *k,
                    double *slope);

/* r2[i] += ((x[i] - at) * inverse)^2 */
void matern_distance(const double *x, size_t n, double at, double inverse, double *r2);

/* The sum of w[i] (x[i] - at)^2. */
double matern_spread(const double *w, const double *x, size_t n, double at);

struct matern_weights { /* two per point */
    const double *a, *b;
};

/* sums[0] += the sum of a[i] s[i] (at - x[i]); sums[1] the same of b[i]. */
void matern_pull(const struct matern_weights *w, const double *s, const double *x, size_t n,
                 double at, double sums[2]);

#endif
