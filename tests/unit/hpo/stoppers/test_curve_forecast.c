#include "hpo/stoppers/curve_forecast.h"

#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "tests/unit/test.h"

enum { MAX = 256 };

static struct trial *trials[MAX];
static size_t count;

static struct trial *add(enum trial_state state)
{
    AUTO(json) json_t *params = json_object();
    struct trial *t = trials[count] = trial_new((int)count, params, 0);
    count++;
    t->state = state;
    t->lease = 1;
    return t;
}

static void put(struct trial *t, double step, double value, bool maximize)
{
    AUTO(json) json_t *v = json_pack("{s:f}", "m", value);
    trial_report(t, step, v, "m", maximize);
}

static struct trial_view view(void)
{
    return (struct trial_view){(const struct trial *const *)trials, count};
}

static struct curve_forecast *learn(int max_iter, bool maximize, bool last)
{
    struct trial_view v = view();
    return curve_forecast_new(max_iter, maximize, last, &v);
}

/* Losses a + b·t^-c with noise; the rng continues from curve to curve. */
struct law {
    double a, b, c;
};

static struct law draw(struct rng *r)
{
    return (struct law){0.05 + rng_unit(r), 1 + 2 * rng_unit(r), 0.3 + 0.7 * rng_unit(r)};
}

static double at(const struct law *l, double t, struct rng *r)
{
    return (l->a + l->b * pow(t, -l->c)) * (1 + 0.02 * (rng_unit(r) - 0.5));
}

TEST(a_trial_without_a_point_has_no_forecast)
{
    struct trial *t = add(TRIAL_RUNNING);
    AUTO(curve_forecast) struct curve_forecast *f = learn(10, false, false);
    double mean = -1, sd = -1;
    CHECK(!curve_forecast_trial(f, t, &mean, &sd));
    CHECK_NEAR(mean, -1, 0);
}

TEST(a_whole_trial_is_what_it_is)
{
    struct trial *done = add(TRIAL_DONE), *whole = add(TRIAL_PRUNED);
    for (int i = 1; i <= 8; i++) {
        if (i <= 4)
            put(done, i, 5.0 - i, false);
        put(whole, i, i == 3 ? 1 : 2, false);
    }
    AUTO(curve_forecast) struct curve_forecast *best = learn(8, false, false);
    AUTO(curve_forecast) struct curve_forecast *last = learn(8, false, true);
    double mean = 0, sd = -1;
    CHECK(curve_forecast_trial(best, done, &mean, &sd));
    CHECK_NEAR(mean, 1, 0);
    CHECK_NEAR(sd, 0, 0);
    CHECK(curve_forecast_trial(best, whole, &mean, &sd));
    CHECK_NEAR(mean, 1, 0);
    CHECK(curve_forecast_trial(last, whole, &mean, &sd));
    CHECK_NEAR(mean, 2, 0);
    CHECK_NEAR(sd, 0, 0);
}

TEST(forecasts_of_pruned_trials_are_as_far_off_as_they_say)
{
    struct rng r;
    rng_seed(&r, 7, 0);
    double final[MAX];
    for (int i = 0; i < 200; i++) { /* a third of the trials is whole */
        struct law l = draw(&r);
        struct trial *t = add(i % 3 ? TRIAL_PRUNED : TRIAL_DONE);
        int until = i % 3 ? 4 + i % 13 : 64;
        for (int s = 1; s <= until; s++)
            put(t, s, at(&l, s, &r), false);
        final[i] = l.a + l.b * pow(64, -l.c);
    }
    AUTO(curve_forecast) struct curve_forecast *f = learn(64, false, true);
    double naive = 0, ours = 0;
    int n = 0, within = 0;
    for (int i = 0; i < 200; i++) {
        double mean = 0, sd = 0;
        CHECK(curve_forecast_trial(f, trials[i], &mean, &sd));
        if (i % 3 == 0)
            continue;
        CHECK(sd > 0);
        n++;
        within += fabs(mean - final[i]) < 2 * sd;
        ours += fabs(log(mean / final[i]));
        naive += fabs(log(trial_value(trials[i], true) / final[i]));
    }
    if (within < 0.9 * n)
        FAIL("%d of %d are within two standard deviations", within, n);
    if (!(ours < 0.5 * naive))
        FAIL("mean error %.3f; without extrapolation %.3f", ours / n, naive / n);
}

TEST(while_little_is_known_a_forecast_is_as_wide_as_the_trials_differ)
{
    struct trial *t = NULL;
    for (int i = 0; i < 6; i++) {
        t = add(TRIAL_PAUSED);
        put(t, 1, exp(i + 1), false);
        put(t, 2, exp(i), false);
    }
    AUTO(curve_forecast) struct curve_forecast *f = learn(4, false, true);
    double mean = 0, sd = 0;
    CHECK(curve_forecast_trial(f, t, &mean, &sd));
    CHECK(sd > 0.5 * mean); /* ln of the values is spread by 1.9 */
}

TEST(one_point_stands_for_itself_with_the_spread_that_first_points_had)
{
    struct rng r;
    rng_seed(&r, 3, 0);
    for (int i = 0; i < 30; i++) {
        struct trial *t = add(TRIAL_DONE);
        double a = 0.5 + rng_unit(&r);
        for (int s = 1; s <= 16; s++)
            put(t, s, a * (1 + 1.0 / s), false); /* the first is 1.88 times the last */
    }
    struct trial *young = add(TRIAL_PRUNED);
    put(young, 1, 2, false);
    AUTO(curve_forecast) struct curve_forecast *f = learn(16, false, true);
    double mean = 0, sd = 0;
    CHECK(curve_forecast_trial(f, young, &mean, &sd));
    CHECK_NEAR(mean, 2 * 1.0625 / 2, 0.08); /* shrunk a little towards no change */
    CHECK(sd > 0 && sd < 0.4);
}

TEST(accuracies_stay_below_one_and_negative_rewards_rise)
{
    struct trial *acc = add(TRIAL_RUNNING);
    for (int s = 1; s <= 8; s++)
        put(acc, s, 1 - 0.5 / s, true);
    double mean = 0, sd = 0;
    {
        AUTO(curve_forecast) struct curve_forecast *f = learn(1000, true, true);
        CHECK(curve_forecast_trial(f, acc, &mean, &sd));
        CHECK(mean > 1 - 0.5 / 8 && mean < 1);
    }
    struct trial *reward = add(TRIAL_RUNNING);
    for (int s = 1; s <= 8; s++)
        put(reward, s, -1000 + 100 * log(s), true);
    AUTO(curve_forecast) struct curve_forecast *f = learn(16, true, true);
    CHECK(curve_forecast_trial(f, reward, &mean, &sd));
    CHECK_NEAR(mean, -1000 + 100 * log(8) + 0.7 * 100 * log(2), 30);
}

TEST(steps_from_nought_and_thousands_of_steps_are_times)
{
    struct trial *a = add(TRIAL_RUNNING), *b = add(TRIAL_RUNNING);
    for (int s = 0; s < 8; s++) {
        put(a, s, 1.0 / (s + 1), false);
        put(b, 1000 * (s + 1), 1.0 / (s + 1), false);
    }
    CHECK_NEAR(curve_forecast_time(a, 7), 8, 0);
    CHECK_NEAR(curve_forecast_time(b, 8000), 8000, 0);
    struct trial_view v = view();
    struct curve_forecast_scale s = curve_forecast_scale(0, false, &v);
    CHECK_NEAR(s.horizon, 8000, 0); /* the longest trial so far */
    s.horizon = 16;
    double za = curve_forecast_score(&s, a, 8);
    s.horizon = 16000;
    CHECK_NEAR(curve_forecast_score(&s, b, 8), za, 1e-12);
    CHECK_NEAR(za, log(1.0 / 8) - 0.7 * log(2), 1e-12);
}

TEST(nothing_is_hopeless_before_five_whole_curves_have_shown_what_forecasts_are_worth)
{
    struct rng r;
    rng_seed(&r, 5, 0);
    struct trial *bad = add(TRIAL_RUNNING);
    for (int s = 1; s <= 32; s++)
        put(bad, s, 3, false);
    for (int i = 0; i < 12; i++) {
        AUTO(curve_forecast) struct curve_forecast *f = learn(64, false, false);
        bool hopeless = curve_forecast_hopeless(f, bad);
        CHECK_INT(hopeless, i >= 5);
        struct trial *t = add(TRIAL_DONE);
        struct law l = {0.3, 1, 0.8};
        for (int s = 1; s <= 64; s++)
            put(t, s, at(&l, s, &r), false);
    }
}
