#include "hpo/model/matern.h"

#include <math.h>

#include "common/rng.h"
#include "tests/unit/test.h"

enum { MOST = 131, GUARD = 4 };
static const double guard = -12345;

/* The kernel at a = sqrt(5) r; and its derivative by r^2. */
static long double kernel(double a)
{
    return (1 + a + (long double)a * a / 3) * expl(-(long double)a);
}

static long double derivative(double a)
{
    return -(5.0L / 6) * (1 + (long double)a) * expl(-(long double)a);
}

static void check(double got, long double want, double relative, const char *what, double at)
{
    if (!(fabsl((long double)got - want) <= relative * fabsl(want)))
        FAIL("%s at %.17g is %.17g, expected %.17Lg", what, at, got, want);
}

/* n squared distances, small and large. */
static void distances(uint64_t seed, double *r2, size_t n)
{
    struct rng r;
    rng_seed(&r, seed, 0);
    for (size_t i = 0; i < n; i++)
        r2[i] = i % 11 == 3 ? 0 : pow(10, -18 + 23 * rng_unit(&r));
}

TEST(values_and_slopes_agree_with_libm_for_squares_from_0_to_1e5_and_arrays_of_any_length)
{
    double r2[MOST], k[MOST + GUARD], slope[MOST + GUARD];
    for (size_t n = 0; n <= MOST; n++) {
        distances(n, r2, n);
        for (size_t i = 0; i < GUARD; i++)
            k[n + i] = slope[n + i] = guard;
        matern_52(r2, n, 1.7, k);
        for (size_t i = 0; i < n; i++)
            check(k[i], 1.7 * kernel(sqrt(5 * r2[i])), 1e-14, "k", r2[i]);
        matern_52_slope(r2, n, 1.7, k, slope);
        for (size_t i = 0; i < n; i++) {
            check(k[i], 1.7 * kernel(sqrt(5 * r2[i])), 1e-14, "k with slope", r2[i]);
            check(slope[i], 1.7 * derivative(sqrt(5 * r2[i])), 1e-14, "slope", r2[i]);
        }
        matern_52(r2, n, 1, r2); /* in place */
        for (size_t i = 0; i < n; i++)
            check(r2[i], k[i] / 1.7L, 1e-14, "k in place", r2[i]);
        for (size_t i = 0; i < GUARD; i++)
            CHECK(k[n + i] == guard && slope[n + i] == guard);
    }
}

TEST(values_agree_with_libm_on_a_fine_grid)
{
    for (double a = 0; a < 707; a += 0.0137) {
        double r2 = a * a / 5, k = 0, slope = 0, rounded = sqrt(5 * r2);
        matern_52_slope(&r2, 1, 1, &k, &slope);
        check(k, kernel(rounded), 1e-14, "k", r2);
        check(slope, derivative(rounded), 1e-14, "slope", r2);
    }
}

TEST(what_is_very_far_has_covariance_0_and_never_less)
{
    double r2[] = {1e5, 1.0025e5, 1.0026e5, 1e6, 1e20, 1e200, 1e300}, k[7], slope[7];
    matern_52_slope(r2, 7, 1, k, slope);
    for (int i = 0; i < 7; i++) {
        CHECK(k[i] >= 0 && k[i] < 1e-290);
        CHECK(slope[i] <= 0 && slope[i] > -1e-290);
        CHECK(r2[i] < 2e5 || k[i] == 0);
    }
}

TEST(at_distance_0_the_kernel_is_its_scale_and_the_slope_is_finite)
{
    double r2 = 0, k, slope;
    matern_52_slope(&r2, 1, 3, &k, &slope);
    CHECK_NEAR(k, 3, 0);
    CHECK_NEAR(slope, -2.5, 1e-15);
}

TEST(slopes_agree_with_differences)
{
    for (double x = 1e-3; x < 100; x *= 1.37) {
        double h = 1e-5 * x, r2[] = {x - h, x, x + h}, k[3], slope[3];
        matern_52_slope(r2, 3, 0.8, k, slope);
        CHECK_NEAR(slope[1], (k[2] - k[0]) / (2 * h), 1e-8 * fabs(slope[1]) + 1e-10);
    }
}

TEST(one_coordinate_by_itself_is_the_same_as_the_general_way)
{
    double x[MOST], r2[MOST], k[MOST], slope[MOST], line[MOST + GUARD], own[MOST + GUARD];
    double again[MOST];
    struct rng r;
    rng_seed(&r, 7, 0);
    for (size_t n = 0; n <= MOST; n++) {
        struct matern_line l = {rng_unit(&r), pow(10, 3 * rng_unit(&r) - 1), 0.1 + rng_unit(&r)};
        for (size_t i = 0; i < n; i++) {
            x[i] = i % 9 == 5 ? l.at : rng_unit(&r);
            r2[i] = 0;
            line[i] = again[i] = 0.25;
        }
        for (size_t i = 0; i < GUARD; i++)
            line[n + i] = own[n + i] = guard;
        matern_distance(x, n, l.at, l.inverse, r2);
        matern_52_slope(r2, n, l.scale, k, slope);
        matern_52_line(&l, x, n, line, own);
        matern_52_line(&l, x, n, again, NULL);
        for (size_t i = 0; i < n; i++) {
            double a = sqrt(5 * r2[i]); /* rounded differently: an error of a in exp(-a) */
            CHECK_NEAR(line[i], 0.25 + k[i], 4e-16 + 1e-15 * (a + 8) * k[i]);
            CHECK_NEAR(again[i], line[i], 4e-16);
            check(own[i], slope[i], 1e-15 * (a + 8), "slope of a line", x[i]);
        }
        for (size_t i = 0; i < GUARD; i++)
            CHECK(line[n + i] == guard && own[n + i] == guard);
    }
}

TEST(sums_over_arrays_of_any_length_are_those_of_plain_loops)
{
    double a[MOST], b[MOST], s[MOST], x[MOST];
    struct rng r;
    rng_seed(&r, 8, 0);
    for (size_t n = 0; n <= MOST; n++) {
        double at = rng_unit(&r), sums[2] = {1, -2};
        long double spread = 0, pull[2] = {1, -2};
        for (size_t i = 0; i < n; i++) {
            a[i] = rng_unit(&r) - 0.5;
            b[i] = rng_unit(&r) - 0.5;
            s[i] = rng_unit(&r) - 0.5;
            x[i] = rng_unit(&r);
            spread += (long double)a[i] * (x[i] - at) * (x[i] - at);
            pull[0] += (long double)a[i] * s[i] * (at - x[i]);
            pull[1] += (long double)b[i] * s[i] * (at - x[i]);
        }
        double tolerance = 1e-16 * (double)(n + 4);
        CHECK_NEAR(matern_spread(a, x, n, at), (double)spread, tolerance);
        matern_pull(&(struct matern_weights){a, b}, s, x, n, at, sums);
        CHECK_NEAR(sums[0], (double)pull[0], tolerance);
        CHECK_NEAR(sums[1], (double)pull[1], tolerance);
    }
}

TEST(squared_distances_add_up_over_columns)
{
    double x[MOST], r2[MOST + 1];
    struct rng r;
    rng_seed(&r, 9, 0);
    for (size_t n = 0; n <= MOST; n += 3) {
        double at[2] = {rng_unit(&r), rng_unit(&r)}, by[2] = {0.3, 40};
        for (size_t i = 0; i < n; i++) {
            x[i] = rng_unit(&r);
            r2[i] = 0;
        }
        r2[n] = guard;
        for (int c = 0; c < 2; c++)
            matern_distance(x, n, at[c], by[c], r2);
        for (size_t i = 0; i < n; i++) {
            double first = (x[i] - at[0]) * by[0], second = (x[i] - at[1]) * by[1];
            check(r2[i], (long double)first * first + (long double)second * second, 1e-15, "r2",
                  x[i]);
        }
        CHECK_NEAR(r2[n], guard, 0);
    }
}
