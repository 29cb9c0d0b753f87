#include "hpo/samplers/bayes_plateau.h"

#include <math.h>

#include "common/mem.h"
#include "common/rng.h"
#include "tests/unit/test.h"

static void check_text(const double *y, size_t n, double skill, const char *want)
{
    AUTO(free) char *text = bayes_plateau_text(bayes_plateau(y, n, skill), n);
    CHECK_STR(text ? text : "none", want);
}

TEST(equal_values_say_nothing_also_in_single_precision)
{
    static const double equal[] = {2.302585, 2.302585, 2.302584, 2.302586}, zeros[] = {0, 0, 0},
                        small[] = {2.3025, 2.3026, 2.3027, 2.3028};
    check_text(equal, 4, 0.9, "the first 4 values are equal: exploring");
    check_text(zeros, 3, (double)NAN, "the first 3 values are equal: exploring");
    check_text(small, 4, 0.9, "none");
}

TEST(one_value_is_no_plateau)
{
    static const double one[] = {3};
    check_text(one, 1, (double)NAN, "none");
    check_text(one, 0, (double)NAN, "none");
}

TEST(a_floor_that_half_of_the_values_share_says_nothing)
{
    static const double floor[] = {10, 10, 10, 12, 15, 11}, fewer[] = {10, 10, 11, 12, 15, 11},
                        better[] = {10, 10, 10, 9, 15, 11};
    check_text(floor, 6, 0.9, "half or more of the first 6 values are the best one: exploring");
    check_text(fewer, 6, 0.9, "none");
    check_text(better, 6, 0.9, "none");
}

TEST(noise_is_what_the_model_cannot_predict_and_no_value_stands_out_of)
{
    double y[40];
    struct rng r;
    rng_seed(&r, 1, 2);
    for (size_t i = 0; i < 40; i++)
        y[i] = rng_unit(&r) + rng_unit(&r) + rng_unit(&r);
    check_text(y, 40, 0.1, "the first 40 values say no more than their mean: exploring");
    check_text(y, 40, 0.3, "none");
    check_text(y, 15, 0.1, "none"); /* too few to say */
    check_text(y, 40, (double)NAN, "none");
    y[17] = -8;
    check_text(y, 40, 0.1, "none");
}
