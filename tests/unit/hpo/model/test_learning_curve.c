#include "hpo/model/learning_curve.h"

#include <math.h>

#include "common/mem.h"
#include "common/rng.h"
#include "tests/unit/test.h"

TEST(the_link_follows_from_the_values_and_the_goal)
{
    CHECK_INT(learning_curve_link_for(0.01, 7, false), LEARNING_CURVE_LOG);
    CHECK_INT(learning_curve_link_for(0, 7, false), LEARNING_CURVE_LINEAR);
    CHECK_INT(learning_curve_link_for(-3, 7, false), LEARNING_CURVE_LINEAR);
    CHECK_INT(learning_curve_link_for(0, 1, true), LEARNING_CURVE_LOGIT);
    CHECK_INT(learning_curve_link_for(0.5, 93, true), LEARNING_CURVE_LINEAR); /* per cent */
    CHECK_INT(learning_curve_link_for(-0.1, 0.5, true), LEARNING_CURVE_LINEAR);
}

TEST(on_every_link_lower_is_better_and_values_come_back)
{
    static const struct {
        enum learning_curve_link link;
        bool maximize;
        double better, worse;
    } cases[] = {{LEARNING_CURVE_LOG, false, 0.1, 2},
                 {LEARNING_CURVE_LINEAR, false, -4, 3},
                 {LEARNING_CURVE_LINEAR, true, 80, -5},
                 {LEARNING_CURVE_LOGIT, true, 0.97, 0.2}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        enum learning_curve_link link = cases[i].link;
        bool max = cases[i].maximize;
        double a = learning_curve_z(link, max, cases[i].better),
               b = learning_curve_z(link, max, cases[i].worse);
        CHECK(a < b);
        CHECK_NEAR(learning_curve_y(link, max, a), cases[i].better, 1e-12);
        CHECK_NEAR(learning_curve_y(link, max, b), cases[i].worse, 1e-12);
    }
}

TEST(an_accuracy_of_nought_or_one_is_finite)
{
    CHECK_NEAR(learning_curve_z(LEARNING_CURVE_LOGIT, true, 1), -log(0.9999 / 0.0001), 1e-9);
    CHECK_NEAR(learning_curve_z(LEARNING_CURVE_LOGIT, true, 0), log(0.9999 / 0.0001), 1e-9);
}

TEST(a_line_in_the_logarithm_of_the_time_is_found_exactly)
{
    double t[7], z[7];
    for (int i = 0; i < 7; i++) {
        t[i] = 4 + 3 * i;
        z[i] = 2 - 0.3 * log(t[i]);
    }
    struct learning_curve_fit f = learning_curve_fit(t, z, 7);
    CHECK_NEAR(f.t, 22, 0);
    CHECK_NEAR(f.slope, -0.3, 1e-13);
    CHECK_NEAR(f.level, z[6], 1e-13);
    f = learning_curve_fit(t, z, 2);
    CHECK_NEAR(f.slope, -0.3, 1e-13);
    CHECK_NEAR(f.level, z[1], 1e-13);
}

/* By the normal equations of x = 0, ln 2, ln 4 against 3, 2, 2. */
TEST(a_noisy_line_is_the_one_of_least_squares)
{
    struct learning_curve_fit f = learning_curve_fit((double[]){1, 2, 4}, (double[]){3, 2, 2}, 3);
    CHECK_NEAR(f.slope, -0.5 / log(2), 1e-14);
    CHECK_NEAR(f.level, 7.0 / 3 - 0.5, 1e-14);
}

TEST(one_point_has_a_level_and_no_slope)
{
    struct learning_curve_fit f = learning_curve_fit((double[]){5}, (double[]){1.5}, 1);
    CHECK_NEAR(f.level, 1.5, 0);
    CHECK_NEAR(f.slope, 0, 0);
    CHECK_NEAR(learning_curve_at(&f, 500), 1.5, 0);
}

TEST(what_falls_is_expected_to_fall_on_more_slowly_and_what_rises_to_stay)
{
    struct learning_curve_fit f = {.t = 10, .level = 1, .slope = -0.5};
    CHECK_NEAR(learning_curve_at(&f, 80), 1 - 0.7 * 0.5 * log(8), 1e-14);
    CHECK_NEAR(learning_curve_at(&f, 10), 1, 0);
    CHECK_NEAR(learning_curve_at(&f, 5), 1, 0); /* past its end */
    f.slope = 0.5;
    CHECK_NEAR(learning_curve_at(&f, 80), 1, 0);
}

TEST(far_times_with_close_steps_keep_their_digits)
{
    double t[16], z[16];
    for (int i = 0; i < 16; i++) {
        t[i] = 1e9 + 1e3 * i;
        z[i] = 5 - 2 * log(t[i] / 1e9);
    }
    CHECK_NEAR(learning_curve_fit(t, z, 16).slope, -2, 1e-6);
}
