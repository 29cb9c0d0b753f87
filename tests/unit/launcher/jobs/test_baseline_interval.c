/* test_baseline_interval - quantiles of Student's t, and intervals that R's t.test() prints for its
 * data sets. */
#include "launcher/jobs/baseline.h"

#include <gsl/gsl_cdf.h>

#include "tests/unit/test.h"

TEST(quantiles_are_those_of_the_tables_and_of_gsl)
{
    static const struct {
        double freedom, quantile; /* two-sided 95 %, as statistical tables print it */
    } table[] = {{1, 12.706}, {2, 4.303}, {5, 2.571}, {10, 2.228}, {30, 2.042}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        CHECK_NEAR(baseline_quantile(table[i].freedom), table[i].quantile, 5.1e-4);
    for (double freedom = 1; freedom < 5000; freedom *= 1.13) {
        double expected = gsl_cdf_tdist_Pinv(0.975, freedom);
        CHECK_NEAR(baseline_quantile(freedom) / expected, 1, 1e-8);
    }
}

TEST(intervals_are_those_of_r)
{
    static const struct {
        struct baseline_sample a, b;
        double low, high;
    } cases[] = {
        /* t.test(extra ~ group, sleep) */
        {{2.33, 2.002249, 10}, {0.75, 1.789010, 10}, -3.3654832, 0.2054832},
        /* t.test(mpg ~ am, mtcars) */
        {{24.39231, 6.166504, 13}, {17.14737, 3.833966, 19}, -11.280194, -3.209684},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double low = 0, high = 0;
        CHECK(baseline_interval(&low, &high, &cases[i].a, &cases[i].b));
        CHECK_NEAR(low, cases[i].low, 1e-5);
        CHECK_NEAR(high, cases[i].high, 1e-5);
        CHECK(baseline_interval(&low, &high, &cases[i].b, &cases[i].a));
        CHECK_NEAR(low, -cases[i].high, 1e-5);
    }
}

TEST(equal_values_have_an_interval_without_width)
{
    double low = 0, high = 0;
    CHECK(baseline_interval(&low, &high, &(struct baseline_sample){5, 0, 9},
                            &(struct baseline_sample){4, 0, 2}));
    CHECK_NEAR(low, -1, 0);
    CHECK_NEAR(high, -1, 0);
}

TEST(one_value_has_no_interval)
{
    double low = 7, high = 7;
    const struct baseline_sample one = {1, 0, 1}, two = {1, 1, 2};
    CHECK(!baseline_interval(&low, &high, &one, &two));
    CHECK(!baseline_interval(&low, &high, &two, &one));
    CHECK_NEAR(low + high, 14, 0);
}
