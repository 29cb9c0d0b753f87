#include "hpo/search/stopper.h"

#include "common/json.h"
#include "tests/unit/test.h"

enum { MAX = 64 };

static struct trial *trials[MAX];
static int count;

/* A trial of these values, at steps 1, 2, … */
static struct trial *add(bool ended, int n, const double *values, bool maximize)
{
    AUTO(json) json_t *params = json_object();
    struct trial *t = trials[count] = trial_new(count, params, 0);
    count++;
    t->state = ended ? TRIAL_DONE : TRIAL_RUNNING;
    t->lease = 1;
    for (int i = 0; i < n; i++) {
        AUTO(json) json_t *v = json_pack("{s:f}", "m", values[i]);
        trial_report(t, i + 1, v, "m", maximize);
    }
    return t;
}
#define ADD(ended, ...) \
    add(ended, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}, false)

static bool stops(const struct spec_stop *rule, bool maximize, const struct trial *t)
{
    struct trial_view view = {(const struct trial *const *)trials, (size_t)count};
    return stopper_of(rule->type)->judge(rule, maximize, &view, t) == STOPPER_STOP;
}

static void check_bands(struct spec_stop rule, int n, const int *want)
{
    for (int i = 1, k = -1; i <= 200; i++) {
        while (k + 1 < n && want[k + 1] <= i)
            k++;
        CHECK_INT(stopper_hyperband_band(&rule, i), k < 0 ? 0 : want[k]);
    }
}
#define RULE(...)                                   \
    {                                               \
        .type = SPEC_STOPPER_HYPERBAND, __VA_ARGS__ \
    }

TEST(bands_are_wandbs)
{
    struct spec_stop rules[] = {RULE(.max_iter = 27, .s = 2, .eta = 3),
                                RULE(.max_iter = 81, .s = 4, .eta = 3),
                                RULE(.max_iter = 100, .s = 3, .eta = 4),
                                RULE(.min_iter = 3, .eta = 3),
                                RULE(.min_iter = 1, .eta = 1.5),
                                RULE(.max_iter = 27, .s = 2, .eta = 3, .min_iter = 1)};
    check_bands(rules[0], 2, (int[]){3, 9});
    check_bands(rules[1], 4, (int[]){1, 3, 9, 27});
    check_bands(rules[2], 3, (int[]){1, 6, 25});
    check_bands(rules[3], 4, (int[]){3, 9, 27, 81});
    check_bands(rules[4], 13, (int[]){1, 2, 3, 5, 7, 11, 17, 25, 38, 57, 86, 129, 194});
    check_bands(rules[5], 2, (int[]){3, 9}); /* max_iter wins */
}

static const struct spec_stop worked = RULE(.max_iter = 5, .s = 2, .eta = 2, .strict = true);

TEST(hyperband_stops_in_the_worked_case_only_b)
{
    ADD(true, 10, 9);
    struct trial *b = ADD(false, 10, 10), *c = ADD(false, 10, 8, 8), *d = ADD(false, 10, 7, 7);
    ADD(true, 10, 6, 6);
    CHECK(stops(&worked, false, b));
    CHECK(!stops(&worked, false, c));
    CHECK(!stops(&worked, false, d));
}

TEST(hyperband_maximizes_by_the_same_rule)
{
    for (int i = 0; i < 5; i++) {
        double v[] = {-10, (double[]){-9, -10, -8, -7, -6}[i]};
        add(i == 0 || i == 4, 2, v, true);
    }
    CHECK(stops(&worked, true, trials[1]));
    CHECK(!stops(&worked, true, trials[2]));
}

TEST(hyperband_keeps_a_trial_that_is_alone_or_before_the_first_band)
{
    struct spec_stop rule = RULE(.min_iter = 3, .eta = 3, .strict = true);
    struct trial *t = ADD(false, 9, 9);
    CHECK(!stops(&rule, false, t));
    struct trial *u = ADD(false, 9, 9, 9);
    CHECK(!stops(&rule, false, u));
}

TEST(strict_hyperband_judges_at_the_band_and_the_other_by_the_best_so_far)
{
    struct spec_stop rule = RULE(.min_iter = 2, .eta = 3, .strict = true);
    for (int i = 0; i < 4; i++)
        ADD(true, 5, 1, 1);
    struct trial *t = ADD(false, 5, 4, 0.5); /* bad at the band, best of all since */
    CHECK(stops(&rule, false, t));
    rule.strict = false;
    CHECK(!stops(&rule, false, t));
}

TEST(hyperband_stops_a_trial_that_passed_when_later_ones_are_better)
{
    struct spec_stop rule = RULE(.min_iter = 1, .eta = 2, .strict = true);
    struct trial *t = ADD(false, 5);
    CHECK(!stops(&rule, false, t));
    ADD(false, 3);
    CHECK(!stops(&rule, false, t)); /* index 1 of 3 5: equal is kept */
    ADD(false, 2);
    CHECK(stops(&rule, false, t)); /* index 1 of 2 3 5 */
}

TEST(median_compares_the_best_with_the_means_of_done_trials_up_to_the_step)
{
    struct spec_stop rule = {.type = SPEC_STOPPER_MEDIAN, .min_iter = 1, .min_trials = 3};
    ADD(true, 4, 2, 0, 0); /* mean up to step 2: 3 */
    ADD(true, 6, 2);       /* 4 */
    ADD(true, 9, 1);       /* 5 */
    ADD(false, 0, 0);      /* runs: does not count */
    struct trial *at = ADD(false, 8, 4), *above = ADD(false, 8, 4.5), *best = ADD(false, 3, 9);
    CHECK(!stops(&rule, false, at)); /* equal is kept */
    CHECK(stops(&rule, false, above));
    CHECK(!stops(&rule, false, best));
    ADD(true, 1, 1); /* now 1 3 4 5: the middle is 3.5 */
    CHECK(stops(&rule, false, at));
}

TEST(median_waits_for_min_iter_and_min_trials)
{
    struct spec_stop rule = {.type = SPEC_STOPPER_MEDIAN, .min_iter = 3, .min_trials = 2};
    ADD(true, 1, 1, 1);
    struct trial *t = ADD(false, 5, 5, 5);
    CHECK(!stops(&rule, false, t)); /* one done trial */
    ADD(true, 1, 1, 1);
    CHECK(stops(&rule, false, t));
    struct trial *young = ADD(false, 5, 5);
    CHECK(!stops(&rule, false, young));
}

TEST(median_maximizes)
{
    struct spec_stop rule = {.type = SPEC_STOPPER_MEDIAN, .min_iter = 1, .min_trials = 1};
    double done[] = {4, 6}, low[] = {1, 4.5}, high[] = {5.5};
    add(true, 2, done, true);
    struct trial *l = add(false, 2, low, true), *h = add(false, 1, high, true);
    CHECK(stops(&rule, true, l));
    CHECK(!stops(&rule, true, h));
}
