/* matern - the Matern kernel with smoothness 5/2 for arrays of squared distances, and the sums that
 * derivatives of covariances need.
 *
 *      k(r) = (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)      Rasmussen & Williams 2006, eq. 4.17
 *
 * The code is written for vector units: exp() is a polynomial, exact to 2 units in the last place
 * on [-708, 0]. */
#pragma once

#include <stddef.h>

/* Computes k[i] = scale * k(sqrt(r2[i])) for n values. Each r2[i] is finite and >= 0. `k` may be
 * `r2`. */
void matern_52(const double *r2, size_t n, double scale, double *k);

/* The same, and also computes the derivative slope[i] = scale * dk / d(r^2). It is <= 0, and finite
 * even at r = 0. */
void matern_52_slope(const double *r2, size_t n, double scale, double *k, double *slope);

struct matern_line {           /* a kernel of one coordinate */
    double at, inverse, scale; /* coordinate of a point; 1 / length; factor of the kernel */
};

/* Adds scale * k(|x[i] - at| inverse) to k[i]. If `slope` is not NULL, also sets slope[i] as
 * matern_52_slope() does. */
void matern_52_line(const struct matern_line *line, const double *x, size_t n, double *k,
                    double *slope);

/* Adds ((x[i] - at) * inverse)^2 to r2[i]. */
void matern_distance(const double *x, size_t n, double at, double inverse, double *r2);

/* Returns the sum of w[i] (x[i] - at)^2. */
double matern_spread(const double *w, const double *x, size_t n, double at);

struct matern_weights { /* two weights per point */
    const double *a, *b;
};

/* Adds the sum of a[i] s[i] (at - x[i]) to sums[0], and the sum of b[i] s[i] (at - x[i]) to
 * sums[1]. */
void matern_pull(const struct matern_weights *w, const double *s, const double *x, size_t n,
                 double at, double sums[2]);
