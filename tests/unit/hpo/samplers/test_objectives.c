#include "hpo/samplers/sampler.h"

#include <math.h>

#include "common/json.h"
#include "tests/unit/test.h"

static const struct sampler_objective objectives[] = {
    {.metric = "loss"},
    {.metric = "accuracy", .maximize = true},
    {.metric = "seconds"},
};

static void report(struct trial *t, double step, const char *values)
{
    AUTO(json) json_t *v = json_loads(values, 0, NULL);
    t->lease = 1;
    trial_report(t, step, v, "loss", false);
}

static struct trial *trial(void)
{
    AUTO(json) json_t *params = json_object();
    return trial_new(0, params, 0);
}

TEST(the_first_goal_has_the_value_that_counts_and_the_others_their_last)
{
    AUTO(trial) struct trial *t = trial();
    double y[3];
    report(t, 1, "{\"loss\":0.5,\"accuracy\":0.7,\"seconds\":2}");
    report(t, 2, "{\"loss\":0.75,\"accuracy\":0.25}");
    CHECK(sampler_values(objectives, 3, t, y));
    CHECK_NEAR(y[0], 0.5, 0);
    CHECK_NEAR(y[1], -0.25, 0); /* maximised: negated */
    CHECK_NEAR(y[2], 2, 0);
    struct sampler_objective last = {.metric = "loss", .last = true};
    CHECK(sampler_values(&last, 1, t, y));
    CHECK_NEAR(y[0], 0.75, 0);
}

TEST(a_trial_that_lacks_a_finite_value_for_a_goal_has_none)
{
    static const char *const lacking[] = {
        "{\"accuracy\":0.7,\"seconds\":2}",
        "{\"loss\":0.5,\"seconds\":2}",
        "{\"loss\":\"nan\",\"accuracy\":0.7,\"seconds\":2}",
        "{\"loss\":0.5,\"accuracy\":0.7,\"seconds\":\"inf\"}",
    };
    for (size_t i = 0; i < COUNT_OF(lacking); i++) {
        AUTO(trial) struct trial *t = trial();
        double y[3] = {7, 8, 9};
        report(t, 1, lacking[i]);
        CHECK(!sampler_values(objectives, 3, t, y));
        CHECK(y[0] == 7 && y[1] == 8 && y[2] == 9);
    }
    AUTO(trial) struct trial *t = trial(); /* has reported nothing */
    double y[1];
    CHECK(!sampler_values(objectives, 1, t, y));
}
