#include "hpo/model/sobol.h"

#include <math.h>
#include <stdbool.h>

#include "common/mem.h"
#include "common/rng.h"
#include "tests/unit/test.h"

enum { DIMS = 40 };

static const uint64_t seeds[] = {0, 1, 2, 42, UINT64_MAX};

/* n points, starting with number `from`. The caller frees them. */
static double *points(uint64_t seed, uint64_t from, size_t n, size_t dims)
{
    double *u = xcalloc(n * dims, sizeof *u);
    for (size_t i = 0; i < n; i++)
        sobol_point(seed, from + i, dims, u + i * dims);
    return u;
}

/* The smallest t for which the 2^m points are a (t, m, 2)-net in the dims a and b: every box of
 * 2^-k by 2^-(m - t - k) has 2^t points (Niederreiter 1992, definition 4.1). */
static int net_quality(const double *u, size_t dims, int m, size_t a, size_t b)
{
    for (int t = 0;; t++) {
        bool even = true;
        for (int k = 0; k <= m - t && even; k++) {
            int in[1 << 10] = {0};
            double across = 1 << k, up = 1 << (m - t - k);
            for (int i = 0; i < 1 << m; i++) {
                const double *p = u + (size_t)i * dims;
                even &= ++in[(int)(p[a] * across) * (int)up + (int)(p[b] * up)] <= 1 << t;
            }
        }
        if (even)
            return t;
    }
}

TEST(every_block_of_a_power_of_two_has_one_point_in_each_interval_of_each_coordinate)
{
    static const struct {
        int m;
        uint64_t block;
    } cases[] = {{0, 5}, {1, 0}, {2, 3}, {5, 1}, {8, 0}, {8, 77}, {10, 0}, {10, 3}};
    for (size_t s = 0; s < COUNT_OF(seeds); s++) {
        for (size_t c = 0; c < COUNT_OF(cases); c++) {
            size_t n = (size_t)1 << cases[c].m, dims = 100;
            AUTO(free) double *u = points(seeds[s], cases[c].block * n, n, dims);
            for (size_t d = 0; d < dims; d++) {
                AUTO(free) char *in = xcalloc(n, 1);
                for (size_t i = 0; i < n; i++)
                    CHECK_INT(in[(size_t)(u[i * dims + d] * (double)n)]++, 0);
            }
        }
    }
}

TEST(every_block_is_an_even_net_in_the_first_two_coordinates)
{
    for (size_t s = 0; s < COUNT_OF(seeds); s++) {
        for (int m = 1; m <= 10; m++) {
            AUTO(free) double *u = points(seeds[s], (uint64_t)s << m, (size_t)1 << m, 2);
            CHECK_INT(net_quality(u, 2, m, 0, 1), 0);
        }
    }
}

TEST(pairs_of_coordinates_are_as_even_as_joe_and_kuos)
{
    /* Sums over all pairs of t for the first 2^8 points, from the unscrambled points of SciPy
     * 1.12.0 (stats.qmc.Sobol(d, scramble=False)), which has the same direction numbers. */
    static const struct {
        size_t dims;
        int sum;
    } want[] = {{5, 11}, {20, 389}, {40, 1752}};
    AUTO(free) double *u = points(7, 0, 256, DIMS);
    for (size_t c = 0; c < COUNT_OF(want); c++) {
        int sum = 0;
        for (size_t a = 0; a < want[c].dims; a++)
            for (size_t b = a + 1; b < want[c].dims; b++)
                sum += net_quality(u, DIMS, 8, a, b);
        CHECK_INT(sum, want[c].sum);
    }
}

TEST(each_half_of_every_coordinate_meets_each_half_of_the_others_once)
{
    /* Sobol's property A, which Joe and Kuo's numbers have: the first 2^d points of d dims lie in
     * the 2^d boxes of the halves, one in each. */
    for (size_t d = 1; d <= 14; d++) {
        size_t n = (size_t)1 << d;
        AUTO(free) double *u = points(3, 0, n, d);
        AUTO(free) char *in = xcalloc(n, 1);
        for (size_t i = 0; i < n; i++) {
            size_t box = 0;
            for (size_t k = 0; k < d; k++)
                box = 2 * box + (u[i * d + k] >= 0.5);
            CHECK_INT(in[box]++, 0);
        }
    }
}

/* The L2 star discrepancy, squared (T. Warnock 1972). */
static double discrepancy(const double *u, size_t n, size_t dims)
{
    double one = 0, two = 0;
    for (size_t i = 0; i < n; i++) {
        double p = 1;
        for (size_t k = 0; k < dims; k++)
            p *= (1 - u[i * dims + k] * u[i * dims + k]) / 2;
        one += p;
        for (size_t j = 0; j < n; j++) {
            p = 1;
            for (size_t k = 0; k < dims; k++)
                p *= 1 - fmax(u[i * dims + k], u[j * dims + k]);
            two += p;
        }
    }
    double count = (double)n;
    return pow(3, -(double)dims) - 2 / count * one + two / (count * count);
}

TEST(discrepancy_is_far_below_that_of_random_points)
{
    static const struct {
        size_t n, dims;
        double share; /* relative to the expectation for random points */
    } cases[] = {{64, 2, 0.05}, {256, 2, 0.02}, {256, 5, 0.25}, {100, 6, 0.5}};
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        size_t n = cases[c].n, dims = cases[c].dims;
        double expected = (pow(2, -(double)dims) - pow(3, -(double)dims)) / (double)n, sum = 0;
        for (size_t s = 0; s < COUNT_OF(seeds); s++) {
            AUTO(free) double *u = points(seeds[s], 0, n, dims);
            sum += discrepancy(u, n, dims) / (double)COUNT_OF(seeds);
        }
        if (!(sum < cases[c].share * expected))
            FAIL("%zu points in %zu dims: %g of random", n, dims, sum / expected);
    }
}

/* Root mean square error over 200 seeds of the integral of a smooth function of two coordinates. */
static double integration_error(size_t n, size_t a, size_t b)
{
    double square = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        AUTO(free) double *u = points(seed, 0, n, b + 1);
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            const double *p = u + i * (b + 1);
            sum += p[a] * exp(p[a] * p[b]);
        }
        double error = sum / (double)n - (M_E - 2);
        square += error * error / 200;
    }
    return sqrt(square);
}

TEST(errors_of_smooth_integrals_fall_as_owens_scrambling_makes_them)
{
    /* n^-1.5 (A. Owen, Annals of Statistics 25, 1997), where random points have n^-0.5, and a shift
     * by exclusive or has n^-1. From 16 to 256 points: 64, 4 and 16 times. */
    CHECK(integration_error(16, 0, 1) / integration_error(256, 0, 1) > 40);
    CHECK(integration_error(16, 2, 5) / integration_error(256, 2, 5) > 40);
}

/* ---- seeds ---------------------------------------------------------------------------------- */

TEST(a_point_depends_on_seed_and_index_alone)
{
    double u[50], v[50], w[1000];
    for (uint64_t i = 0; i < 100; i += 7) {
        sobol_point(9, i, 50, u);
        sobol_point(9, i + 1, 50, v);
        sobol_point(9, i, 50, v);
        sobol_point(9, i, 1000, w);
        CHECK(memcmp(u, v, sizeof u) == 0);
        CHECK(memcmp(u, w, sizeof u) == 0); /* with more dims the first ones do not change */
    }
    sobol_point(1, 12345, 3, u); /* the same on every machine, and from version to version */
    CHECK_NEAR(u[0], 0.78383073804434389, 0);
    CHECK_NEAR(u[1], 0.039835252915509045, 0);
    CHECK_NEAR(u[2], 0.90179831383284181, 0);
}

TEST(points_lie_strictly_inside_the_cube)
{
    double u[1000];
    static const uint64_t at[] = {0, 1, 12345, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX};
    for (size_t s = 0; s < COUNT_OF(seeds); s++) {
        for (size_t i = 0; i < COUNT_OF(at); i++) {
            sobol_point(seeds[s], at[i], 1000, u);
            for (size_t k = 0; k < 1000; k++)
                CHECK(u[k] > 0 && u[k] < 1);
        }
    }
}

static double correlation(const double *x, const double *y, size_t n, size_t stride)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        mx += x[i * stride] / (double)n;
        my += y[i * stride] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double a = x[i * stride] - mx, b = y[i * stride] - my;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    return xy / sqrt(xx * yy);
}

TEST(blocks_of_coordinates_are_not_correlated)
{
    /* With 1,024 independent points the standard deviation is 1/32; 5 of them. */
    enum { N = 1024, D = 3 * DIMS };
    AUTO(free) double *u = points(0, 0, N, D);
    for (size_t k = 0; k < D; k++)
        CHECK_NEAR(correlation(u + k, u + (k + DIMS) % D, N, D), 0, 5 / 32.0);
}

TEST(seeds_are_not_correlated)
{
    /* Two scramblings of one coordinate agree or disagree in the first digit everywhere, which is
     * a correlation of +3/4 or -3/4: only their mean over seeds is near 0. */
    enum { N = 64, PAIRS = 400 };
    for (size_t k = 0; k < 60; k += 7) {
        double sum = 0;
        for (uint64_t seed = 0; seed < PAIRS; seed++) {
            AUTO(free) double *one = points(seed, 0, N, 60), *two = points(seed + 1, 0, N, 60);
            sum += correlation(one + k, two + k, N, 60);
        }
        CHECK_NEAR(sum / PAIRS, 0, 5 * 0.77 / sqrt(PAIRS));
    }
}

TEST(the_first_point_is_uniform_over_the_seeds)
{
    enum { N = 4000, CELLS = 20 };
    for (size_t k = 0; k < 60; k += 19) {
        int in[CELLS] = {0};
        for (uint64_t seed = 0; seed < N; seed++) {
            double u[60];
            sobol_point(seed, 0, 60, u);
            in[(int)(u[k] * CELLS)]++;
        }
        double chi2 = 0; /* 19 degrees of freedom: above 50 with probability 1e-4 */
        for (int c = 0; c < CELLS; c++)
            chi2 += pow(in[c] - N / CELLS, 2) / (N / CELLS);
        CHECK(chi2 < 50);
    }
}
