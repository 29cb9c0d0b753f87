#include "hpo/model/acquisition.h"

#include <float.h>
#include <gsl/gsl_integration.h>
#include <math.h>

#include "hpo/model/output_transform.h"
#include "tests/unit/test.h"

/* ---- expected improvement ------------------------------------------------------------------- */

static double improvement(double z, void *mean_and_best)
{
    const double *p = mean_and_best; /* best - mean, in deviations */
    return (p[0] - z) * exp(-z * z / 2) / sqrt(2 * M_PI);
}

/* E[max(best - f, 0)] by quadrature, in deviations. */
static double integrated(double z)
{
    gsl_integration_workspace *w = gsl_integration_workspace_alloc(1000);
    gsl_function f = {improvement, &z};
    double sum = 0, error = 0;
    gsl_integration_qagil(&f, z, 0, 1e-10, 1000, w, &sum, &error);
    gsl_integration_workspace_free(w);
    return sum;
}

TEST(log_ei_is_the_integral_s_logarithm)
{
    static const double z[] = {-8, -5, -2, -1.001, -0.999, -0.3, 0, 1, 4, 20};
    double slope[2];
    for (size_t i = 0; i < sizeof z / sizeof *z; i++) {
        double s = 0.7, got = acquisition_log_ei(1.5, 1.5 - z[i] * s, s, slope);
        CHECK_NEAR(got, log(integrated(z[i]) * s), 1e-8);
    }
}

TEST(log_ei_has_its_slopes_everywhere)
{
    for (double z = -200; z < 50; z += 0.37) {
        double slope[2], other[2], h = 1e-5 * fmax(1, fabs(z)), sd = 0.8, mean = -z * 0.8;
        double at = acquisition_log_ei(0, mean, sd, slope);
        CHECK(isfinite(at));
        double up = acquisition_log_ei(0, mean + h, sd, other),
               down = acquisition_log_ei(0, mean - h, sd, other);
        CHECK_NEAR(slope[0] / ((up - down) / (2 * h)), 1, 1e-4);
        h = 1e-6;
        up = acquisition_log_ei(0, mean, sd + h, other),
        down = acquisition_log_ei(0, mean, sd - h, other);
        CHECK_NEAR((slope[1] - (up - down) / (2 * h)) / (1 + fabs(slope[1])), 0, 1e-4);
    }
}

TEST(log_ei_falls_smoothly_where_ei_is_no_double)
{
    double slope[2], last = INFINITY;
    for (double mean = 0; mean < 1e6; mean = 1.01 * mean + 0.01) {
        double v = acquisition_log_ei(0, mean, 1e-3, slope);
        CHECK(isfinite(v) && v < last);
        CHECK(slope[0] < 0);
        last = v;
    }
}

/* ---- outputs -------------------------------------------------------------------------------- */

TEST(outputs_are_standardised_and_keep_their_order)
{
    static const double y[] = {3, -2, 1e9, 0.5, 7, 2, 1e4};
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++) {
        struct output_transform w;
        output_transform_fit(&w, (enum output_transform_kind)kind, y, 7);
        double mean = 0, square = 0;
        for (int i = 0; i < 7; i++) {
            mean += output_transform_value(&w, y[i]) / 7;
            square += output_transform_value(&w, y[i]) * output_transform_value(&w, y[i]) / 7;
            for (int j = 0; j < 7; j++)
                CHECK((y[i] < y[j]) ==
                      (output_transform_value(&w, y[i]) < output_transform_value(&w, y[j])));
        }
        CHECK_NEAR(mean, 0, 1e-12);
        CHECK_NEAR(square, 1, 1e-12);
        for (int i = 0; i < 7; i++) {
            double back = output_transform_inverse(&w, output_transform_value(&w, y[i]));
            CHECK_NEAR(back, y[i], 1e-6 * fmax(1, fabs(y[i])));
        }
    }
}

TEST(squashing_keeps_the_better_half_apart)
{
    static const double y[] = {0, 1, 2, 1e6, 1e6};
    struct output_transform plain, squash;
    output_transform_fit(&plain, OUTPUT_TRANSFORM_NONE, y, 5);
    output_transform_fit(&squash, OUTPUT_TRANSFORM_SQUASH, y, 5);
    CHECK(output_transform_value(&plain, 1) - output_transform_value(&plain, 0) < 1e-5);
    CHECK(output_transform_value(&squash, 1) - output_transform_value(&squash, 0) > 0.05);
    CHECK_NEAR(output_transform_value(&squash, 2) - output_transform_value(&squash, 1),
               output_transform_value(&squash, 1) - output_transform_value(&squash, 0), 1e-12);
}

TEST(lifting_keeps_the_worse_half_and_straightens_what_falls_faster_and_faster)
{
    /* M = 100, S = 1: 99 and 1 of 101 are ln 2 and ln 100 below M. */
    static const double y[] = {1, 99, 100, 100.5, 101};
    struct output_transform w;
    output_transform_fit(&w, OUTPUT_TRANSFORM_LIFT, y, 5);
    double unit = output_transform_value(&w, 101) - output_transform_value(&w, 100);
    CHECK_INT(w.kind, OUTPUT_TRANSFORM_LIFT);
    CHECK_NEAR((output_transform_value(&w, 100.5) - output_transform_value(&w, 100)) / unit, 0.5,
               1e-9);
    CHECK_NEAR((output_transform_value(&w, 100) - output_transform_value(&w, 99)) / unit, log(2),
               1e-9);
    CHECK_NEAR((output_transform_value(&w, 100) - output_transform_value(&w, 1)) / unit, log(100),
               1e-9);
}

TEST(in_logarithms_each_factor_above_the_least_is_one_step)
{
    /* min = -1, S = 1: the other values are ln 2, ln 4, ln 1e3 and ln 1e6 above the minimum. */
    static const double y[] = {2, 0, 1e6 - 2, -1, 998};
    struct output_transform w;
    output_transform_fit(&w, OUTPUT_TRANSFORM_LOG, y, 5);
    double least = output_transform_value(&w, -1),
           unit = (output_transform_value(&w, 0) - least) / log(2);
    CHECK_INT(w.kind, OUTPUT_TRANSFORM_LOG);
    CHECK_NEAR((output_transform_value(&w, 2) - least) / unit, log(4), 1e-9);
    CHECK_NEAR((output_transform_value(&w, 998) - least) / unit, log(1e3), 1e-9);
    CHECK_NEAR((output_transform_value(&w, 1e6 - 2) - least) / unit, log(1e6), 1e-9);
    CHECK_NEAR((least - output_transform_value(&w, -3)) / unit, 2, 1e-9); /* below it: unchanged */
}

TEST(without_anything_to_measure_by_nothing_is_bent)
{
    static const double worse[] = {0, 0, 0, 9, 10}, better[] = {-9, 5, 5, 5, 5, 6};
    struct output_transform w;
    output_transform_fit(&w, OUTPUT_TRANSFORM_LOG, worse, 5);
    CHECK_INT(w.kind, OUTPUT_TRANSFORM_NONE);
    output_transform_fit(&w, OUTPUT_TRANSFORM_SQUASH, worse, 5);
    CHECK_INT(w.kind, OUTPUT_TRANSFORM_NONE);
    output_transform_fit(&w, OUTPUT_TRANSFORM_LIFT, better, 6);
    CHECK_INT(w.kind, OUTPUT_TRANSFORM_NONE);
    output_transform_fit(&w, OUTPUT_TRANSFORM_LIFT, better, 1);
    CHECK_INT(w.kind, OUTPUT_TRANSFORM_NONE);
}

TEST(the_slope_of_an_output_is_that_of_differences)
{
    static const double y[] = {-300, 0, 1, 2, 30, 500};
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++) {
        struct output_transform w;
        output_transform_fit(&w, (enum output_transform_kind)kind, y, 6);
        CHECK_INT(w.kind, kind);
        for (int i = 0; i < 6; i++) {
            double at = y[i] + 0.1, h = 1e-6;
            double by =
                (output_transform_value(&w, at + h) - output_transform_value(&w, at - h)) / (2 * h);
            CHECK_NEAR(output_transform_slope(&w, at), by, 1e-8);
        }
    }
}

TEST(values_as_large_as_there_are_do_no_harm)
{
    static const double y[] = {-1.7e308, 0, 3, 1.7e308, 5};
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++) {
        struct output_transform w;
        output_transform_fit(&w, (enum output_transform_kind)kind, y, 5);
        for (int i = 0; i < 5; i++)
            CHECK(isfinite(output_transform_value(&w, y[i])) &&
                  isfinite(output_transform_slope(&w, y[i])));
        CHECK(output_transform_value(&w, y[0]) < output_transform_value(&w, y[1]));
    }
}

TEST(a_value_out_of_all_proportion_leaves_the_others_apart)
{
    double y[13];
    for (int i = 0; i < 12; i++)
        y[i] = (i * 7 % 12) / 11.0;
    for (int side = -1; side <= 1; side += 2) {
        struct output_transform w;
        y[12] = side * DBL_MAX;
        output_transform_fit(&w, side > 0 ? OUTPUT_TRANSFORM_SQUASH : OUTPUT_TRANSFORM_LIFT, y, 13);
        CHECK_INT(w.kind, side > 0 ? OUTPUT_TRANSFORM_SQUASH : OUTPUT_TRANSFORM_LIFT);
        for (int i = 0; i < 12; i++) {
            CHECK(side * (output_transform_value(&w, y[12]) - output_transform_value(&w, y[i])) >
                  1);
            for (int j = 0; j < 12; j++)
                CHECK(y[i] <= y[j] ||
                      output_transform_value(&w, y[i]) - output_transform_value(&w, y[j]) > 0.01);
            CHECK(output_transform_slope(&w, y[i]) > 0.1);
        }
        CHECK(output_transform_slope(&w, y[12]) > 0 &&
              isfinite(log(output_transform_slope(&w, y[12]))));
    }
}

TEST(a_value_that_is_only_very_large_is_taken_as_it_is)
{
    static const double y[] = {0, 1, 2, 3, 0.9e100};
    struct output_transform w;
    output_transform_fit(&w, OUTPUT_TRANSFORM_SQUASH, y, 5);
    CHECK(isinf(w.low) && isinf(w.high));
    CHECK(output_transform_value(&w, 0.9e100) > output_transform_value(&w, 0.8e100));
}

TEST(equal_outputs_become_nought)
{
    static const double y[] = {4, 4, 4};
    struct output_transform w;
    output_transform_fit(&w, OUTPUT_TRANSFORM_SQUASH, y, 3);
    CHECK_NEAR(output_transform_value(&w, 4), 0, 0);
    CHECK(isfinite(log(output_transform_slope(&w, 4))));
    static const double half[] = {1, 1, 1, 9};
    output_transform_fit(&w, OUTPUT_TRANSFORM_SQUASH, half, 4);
    CHECK(isfinite(output_transform_value(&w, 9)) &&
          output_transform_value(&w, 9) > output_transform_value(&w, 1));
    output_transform_fit(&w, OUTPUT_TRANSFORM_LIFT, y, 3);
    CHECK_NEAR(output_transform_value(&w, 4), 0, 0);
}

/* ---- the probability of a constraint -------------------------------------------------------- */

TEST(log_within_has_the_values_of_tables)
{
    static const struct {
        double low, high, mean, sd, p;
    } rows[] = {
        {-INFINITY, 0, 0, 1, 0.5},
        {-INFINITY, 3, 1, 2, 0.84134474606854293}, /* Phi(1) */
        {3, INFINITY, 1, 2, 0.15865525393145705},  /* Phi(-1) */
        {-1, 1, 0, 1, 0.68268949213708585},        /* one deviation */
        {1, 2, 0, 1, 0.13590512198327784},         /* Phi(2) - Phi(1) */
        {-2, -1, 0, 1, 0.13590512198327784},
    };
    double slope[2];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_NEAR(
            acquisition_log_within(rows[i].low, rows[i].high, rows[i].mean, rows[i].sd, slope),
            log(rows[i].p), 1e-12);
    /* ln Phi(-40), from tables of Mills' ratio: -804.608442013754 */
    CHECK_NEAR(acquisition_log_within(-INFINITY, 0, 40, 1, slope), -804.608442013754, 1e-8);
}

TEST(log_within_has_its_slopes_everywhere)
{
    static const double bounds[][2] = {{-INFINITY, 0}, {0, INFINITY}, {-0.3, 0.4}, {0, 0}};
    for (size_t k = 0; k < 4; k++)
        for (double mean = -60; mean < 60; mean += 0.37) {
            double slope[2], other[2], sd = 0.8, h = 1e-5, low = bounds[k][0], high = bounds[k][1];
            CHECK(isfinite(acquisition_log_within(low, high, mean, sd, slope)));
            CHECK(isfinite(slope[0]) && isfinite(slope[1]));
            if (low == high)
                continue; /* the limit is not smooth */
            double up = acquisition_log_within(low, high, mean + h, sd, other),
                   down = acquisition_log_within(low, high, mean - h, sd, other);
            CHECK_NEAR((slope[0] - (up - down) / (2 * h)) / (1 + fabs(slope[0])), 0, 1e-4);
            up = acquisition_log_within(low, high, mean, sd + h, other);
            down = acquisition_log_within(low, high, mean, sd - h, other);
            CHECK_NEAR((slope[1] - (up - down) / (2 * h)) / (1 + fabs(slope[1])), 0, 1e-3);
        }
}
