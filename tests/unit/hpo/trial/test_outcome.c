#include "hpo/trial/outcome.h"

#include <math.h>

#include "common/json.h"
#include "tests/unit/test.h"

static bool feasible(const struct outcomes *o, const char *metrics)
{
    AUTO(json) json_t *m = json_loads(metrics, 0, NULL);
    CHECK(m);
    return outcome_feasible(o, m);
}

TEST(the_excess_is_the_distance_beyond_the_bound_that_is_broken)
{
    const struct outcome_bound both = {"x", 1, 3}, most = {"x", -INFINITY, 3};
    CHECK_NEAR(outcome_excess(&both, 5), 2, 0);
    CHECK_NEAR(outcome_excess(&both, 0.5), 0.5, 0);
    CHECK_NEAR(outcome_excess(&both, 2.5), -0.5, 0);
    CHECK_NEAR(outcome_excess(&both, 3), 0, 0);
    CHECK_NEAR(outcome_excess(&most, -100), -103, 0);
    CHECK(outcome_excess(&most, NAN) == INFINITY && outcome_excess(&most, -INFINITY) == INFINITY);
}

TEST(a_trial_is_feasible_if_each_metric_was_reported_and_is_within_its_bounds)
{
    const struct outcomes o = {.at = {{"ms", -INFINITY, 50}, {"acc", 0.9, INFINITY}}, .count = 2};
    CHECK(feasible(&o, "{\"ms\":50,\"acc\":0.9,\"loss\":1}"));
    CHECK(!feasible(&o, "{\"ms\":50.1,\"acc\":0.9}"));
    CHECK(!feasible(&o, "{\"ms\":5,\"acc\":0.89}"));
    CHECK(!feasible(&o, "{\"ms\":5}"));
    CHECK(!feasible(&o, "{\"ms\":\"nan\",\"acc\":1}"));
    CHECK(!feasible(&o, "{\"ms\":\"-inf\",\"acc\":1}"));
    CHECK(feasible(NULL, "{}") && feasible(&(struct outcomes){0}, "{}"));
}
