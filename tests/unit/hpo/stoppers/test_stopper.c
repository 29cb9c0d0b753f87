#include "hpo/stoppers/stopper.h"

#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "common/strbuf.h"
#include "hpo/stoppers/stopper_internal.h"
#include "tests/unit/kit_stopper.h"
#include "tests/unit/test.h"

enum { MAX = 64 };

static struct trial *trials[MAX];
static int count;

static void put(struct trial *t, double step, double value, bool maximize)
{
    AUTO(json) json_t *v = json_object();
    json_object_set_new(v, "m", json_number(value));
    trial_report(t, step, v, "m", maximize);
}

static void report(struct trial *t, double step, double value)
{
    put(t, step, value, false);
}

/* A trial of these values, at steps 1, 2, … */
static struct trial *add(bool ended, int n, const double *values, bool maximize)
{
    AUTO(json) json_t *params = json_object();
    struct trial *t = trials[count] = trial_new(count, params, 0);
    count++;
    t->state = ended ? TRIAL_DONE : TRIAL_RUNNING;
    t->lease = 1;
    for (int i = 0; i < n; i++)
        put(t, i + 1, values[i], maximize);
    return t;
}
#define ADD(ended, ...) \
    add(ended, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}, false)

static bool stops(struct stopper *rule, bool maximize, struct trial *t)
{
    struct trial_view view = {(const struct trial *const *)trials, (size_t)count};
    return stopper_judge(rule, maximize, &view, t) == STOPPER_STOP;
}

static void check_bands(const char *rule, int n, const int *want)
{
    AUTO(stopper) struct stopper *s = kit_stopper(rule);
    for (int i = 1, k = -1; i <= 200; i++) {
        while (k + 1 < n && want[k + 1] <= i)
            k++;
        CHECK_INT(stopper_hyperband_band(s, i), k < 0 ? 0 : want[k]);
    }
}
#define HYPERBAND "{'type':'hyperband',"

TEST(bands_are_wandbs)
{
    check_bands(HYPERBAND "'max_iter':27,'s':2,'eta':3}", 2, (int[]){3, 9});
    check_bands(HYPERBAND "'max_iter':81,'s':4,'eta':3}", 4, (int[]){1, 3, 9, 27});
    check_bands(HYPERBAND "'max_iter':100,'s':3,'eta':4}", 3, (int[]){1, 6, 25});
    check_bands(HYPERBAND "'min_iter':3,'eta':3}", 4, (int[]){3, 9, 27, 81});
    check_bands(HYPERBAND "'min_iter':1,'eta':1.5}", 13,
                (int[]){1, 2, 3, 5, 7, 11, 17, 25, 38, 57, 86, 129, 194});
    check_bands(HYPERBAND "'max_iter':27,'s':2,'eta':3,'min_iter':1}", 2,
                (int[]){3, 9}); /* max_iter wins */
    check_bands(HYPERBAND "'min_iter':8,'max_iter':60,'eta':2}", 3, (int[]){8, 16, 32});
    check_bands(HYPERBAND "'min_iter':3,'max_iter':27,'eta':3}", 2, (int[]){3, 9});
}

static const char worked[] = HYPERBAND "'max_iter':5,'s':2,'eta':2}";

TEST(hyperband_stops_in_the_worked_case_only_b)
{
    AUTO(stopper) struct stopper *rule = kit_stopper(worked);
    ADD(true, 10, 9);
    struct trial *b = ADD(false, 10, 10), *c = ADD(false, 10, 8, 8), *d = ADD(false, 10, 7, 7);
    ADD(true, 10, 6, 6);
    CHECK(stops(rule, false, b));
    CHECK(!stops(rule, false, c));
    CHECK(!stops(rule, false, d));
}

TEST(hyperband_maximizes_by_the_same_rule)
{
    AUTO(stopper) struct stopper *rule = kit_stopper(worked);
    for (int i = 0; i < 5; i++) {
        double v[] = {-10, (double[]){-9, -10, -8, -7, -6}[i]};
        add(i == 0 || i == 4, 2, v, true);
    }
    CHECK(stops(rule, true, trials[1]));
    CHECK(!stops(rule, true, trials[2]));
}

TEST(hyperband_keeps_a_trial_that_is_alone_or_before_the_first_band)
{
    AUTO(stopper) struct stopper *rule = kit_stopper(HYPERBAND "'min_iter':3,'eta':3}");
    struct trial *t = ADD(false, 9, 9);
    CHECK(!stops(rule, false, t));
    struct trial *u = ADD(false, 9, 9, 9);
    CHECK(!stops(rule, false, u));
}

TEST(strict_hyperband_judges_at_the_band_and_the_other_by_the_best_so_far)
{
    AUTO(stopper) struct stopper *rule = kit_stopper(HYPERBAND "'min_iter':2,'eta':3}");
    for (int i = 0; i < 4; i++)
        ADD(true, 5, 1, 1);
    struct trial *t = ADD(false, 5, 4, 0.5); /* bad at the band, the best of all afterwards */
    CHECK(stops(rule, false, t));
    AUTO(stopper)
    struct stopper *lenient = kit_stopper(HYPERBAND "'min_iter':2,'eta':3,'strict':false}");
    CHECK(!stops(lenient, false, t));
}

TEST(hyperband_stops_a_trial_that_passed_when_later_ones_are_better)
{
    AUTO(stopper) struct stopper *rule = kit_stopper(HYPERBAND "'min_iter':1,'eta':2}");
    struct trial *t = ADD(false, 5);
    CHECK(!stops(rule, false, t));
    ADD(false, 3);
    CHECK(!stops(rule, false, t)); /* index 1 of 3 5: equal is kept */
    ADD(false, 2);
    CHECK(stops(rule, false, t)); /* index 1 of 2 3 5 */
}

TEST(median_compares_the_best_with_the_means_of_done_trials_up_to_the_step)
{
    AUTO(stopper) struct stopper *rule = kit_stopper("{'type':'median','min_trials':3}");
    ADD(true, 4, 2, 0, 0); /* mean up to step 2: 3 */
    ADD(true, 6, 2);       /* 4 */
    ADD(true, 9, 1);       /* 5 */
    ADD(false, 0, 0);      /* runs: does not count */
    struct trial *at = ADD(false, 8, 4), *above = ADD(false, 8, 4.5), *best = ADD(false, 3, 9);
    CHECK(!stops(rule, false, at)); /* equal is kept */
    CHECK(stops(rule, false, above));
    CHECK(!stops(rule, false, best));
    ADD(true, 1, 1); /* now 1 3 4 5: the middle is 3.5 */
    CHECK(stops(rule, false, at));
}

TEST(a_trial_that_is_done_and_breaks_a_constraint_is_not_compared)
{
    AUTO(json) json_t *v = json_loads("{\"type\":\"median\",\"min_trials\":1}", 0, NULL);
    const struct outcomes bounds = {.at = {{"ms", -INFINITY, 50}}, .count = 1};
    struct config_node n = config_node_of_json(v);
    AUTO(stopper) struct stopper *rule = NULL;
    CHECK(stopper_new(&rule, &n, &bounds, NULL) == 0);
    struct trial *fast = ADD(true, 5, 5), *slow = ADD(true, 1, 1);
    json_object_set_new(fast->metrics, "ms", json_integer(20));
    json_object_set_new(slow->metrics, "ms", json_integer(80));
    CHECK(!stops(rule, false, ADD(false, 4, 4))); /* better than 5; the 1 does not count */
    json_object_set_new(slow->metrics, "ms", json_integer(40));
    CHECK(stops(rule, false, ADD(false, 4, 4))); /* worse than the middle, 3 */
}

TEST(asha_compares_trials_behind_one_that_breaks_a_constraint)
{
    AUTO(json) json_t *v = json_loads("{\"type\":\"asha\",\"min_iter\":1,\"eta\":4}", 0, NULL);
    const struct outcomes bounds = {.at = {{"ms", -INFINITY, 50}}, .count = 1};
    struct config_node n = config_node_of_json(v);
    AUTO(stopper) struct stopper *rule = NULL;
    CHECK(stopper_new(&rule, &n, &bounds, NULL) == 0);
    for (int i = 0; i < 4; i++)
        stops(rule, false, ADD(false, 9, 9)); /* they take the rung */
    struct trial *slow = ADD(false, 1, 1);
    stops(rule, false, slow);
    slow->state = TRIAL_DONE;
    CHECK(!stops(rule, false, ADD(false, 2, 2))); /* the best of those that count */
    slow->state = TRIAL_RUNNING;
    CHECK(stops(rule, false, ADD(false, 1.5, 1.5)));
}

TEST(median_waits_for_min_iter_and_min_trials)
{
    AUTO(stopper)
    struct stopper *rule = kit_stopper("{'type':'median','min_iter':3,'min_trials':2}");
    ADD(true, 1, 1, 1);
    struct trial *t = ADD(false, 5, 5, 5);
    CHECK(!stops(rule, false, t)); /* one done trial */
    ADD(true, 1, 1, 1);
    CHECK(stops(rule, false, t));
    struct trial *young = ADD(false, 5, 5);
    CHECK(!stops(rule, false, young));
}

TEST(median_maximizes)
{
    AUTO(stopper) struct stopper *rule = kit_stopper("{'type':'median','min_trials':1}");
    double done[] = {4, 6}, low[] = {1, 4.5}, high[] = {5.5};
    add(true, 2, done, true);
    struct trial *l = add(false, 2, low, true), *h = add(false, 1, high, true);
    CHECK(stops(rule, true, l));
    CHECK(!stops(rule, true, h));
}

/* What stopper_unused() says; "": nothing. */
static const char *unused(const char *rule)
{
    static char text[200];
    AUTO(stopper) struct stopper *s = kit_stopper(rule);
    struct trial_view view = {(const struct trial *const *)trials, (size_t)count};
    AUTO(free) char *why = stopper_unused(s, &view);
    snprintf(text, sizeof text, "%s", why ? why : "");
    return text;
}

TEST(a_stopper_that_compared_no_trial_says_why)
{
    CHECK_STR(unused("{'type':'median','min_iter':10}"), ""); /* nothing was reported */
    for (int i = 0; i < 6; i++)
        ADD(true, 4, 3, 2, 1);
#define NO_EFFECT "early_terminate had no effect: "
    CHECK_STR(unused("{'type':'median','min_iter':10}"), NO_EFFECT "no trial reached report 10");
    CHECK_STR(unused(HYPERBAND "'min_iter':10}"), NO_EFFECT "no trial reached report 10");
    CHECK_STR(unused(HYPERBAND "'max_iter':100,'s':2,'eta':3}"),
              NO_EFFECT "no trial reached report 11");
    CHECK_STR(unused("{'type':'asha','min_iter':10}"), NO_EFFECT "no trial reached step 10");
    CHECK_STR(unused("{'type':'asha','like':'ray','s':3}"), NO_EFFECT "no trial reached step 64");
    CHECK_STR(unused("{'type':'curve','min_iter':10}"), NO_EFFECT "no trial reached step 10");
    CHECK_STR(unused("{'type':'median','min_trials':100}"),
              NO_EFFECT "min_trials is 100, and the number of trials that are done is 6");
    CHECK_STR(unused("{'type':'median','min_iter':4}"), "");
    CHECK_STR(unused(HYPERBAND "'max_iter':15,'s':2,'eta':2}"), ""); /* its bands are 3 and 7 */
    CHECK_STR(unused("{'type':'asha','min_iter':4}"), "");
    CHECK_STR(unused("{'type':'curve','min_iter':4}"), "");
    CHECK(stopper_unused(NULL, &(struct trial_view){0}) == NULL);
}

/* ---- asha ----------------------------------------------------------------------------------- */

TEST(asha_stops_what_is_not_finite_where_a_rung_is_reached)
{
    AUTO(stopper) struct stopper *rule = kit_stopper("{'type':'asha','min_iter':2,'eta':2}");
    struct trial *t = ADD(false, NAN);
    CHECK(!stops(rule, false, t));
    struct trial *u = ADD(false, 1, NAN);
    CHECK(stops(rule, false, u));
    AUTO(stopper)
    struct stopper *ray = kit_stopper("{'type':'asha','min_iter':2,'eta':2,'like':'ray'}");
    struct trial *v = ADD(false, 1, NAN);
    CHECK(!stops(ray, false, v)); /* Ray lets it continue */
}

TEST(asha_has_no_rung_beyond_max_iter_and_like_ray_ends_there)
{
    AUTO(stopper)
    struct stopper *rule = kit_stopper("{'type':'asha','min_iter':1,'max_iter':2,'eta':2}");
    struct trial *a = ADD(false, 1, 1, 1, 1), *b = ADD(false, 1, 1, 1, 9);
    CHECK(!stops(rule, false, a));
    CHECK(stops(rule, false, b)); /* by its newest value, at the rungs up to 2 */
    CHECK(stops(rule, false, b)); /* again, at the next rung */
    struct trial *d = ADD(false, 1, 1);
    CHECK(!stops(rule, false, d));
    report(d, 4, 9);
    CHECK(!stops(rule, false, d)); /* it has taken all rungs */
    AUTO(stopper)
    struct stopper *ray =
        kit_stopper("{'type':'asha','min_iter':1,'max_iter':2,'eta':2,'like':'ray'}");
    struct trial *c_ = ADD(false, 0, 0);
    CHECK(stops(ray, false, c_));
}

/* ---- curve ---------------------------------------------------------------------------------- */

static const char curve_rule[] = "{'type':'curve','min_iter':2,'eta':2,'keep':0.5,'max_iter':16}";

static enum stopper_verdict verdict(bool maximize, struct trial *t)
{
    AUTO(stopper) struct stopper *rule = kit_stopper(curve_rule);
    struct trial_view view = {(const struct trial *const *)trials, (size_t)count};
    return stopper_judge(rule, maximize, &view, t);
}

static int goes_on(bool last)
{
    AUTO(stopper) struct stopper *rule = kit_stopper(curve_rule);
    struct trial_view view = {(const struct trial *const *)trials, (size_t)count};
    return stopper_resume(rule, false, &view, last);
}

TEST(curve_pauses_at_a_rung_what_is_not_expected_among_the_best)
{
    struct trial *a = ADD(false, 4, 3.9);        /* nearly flat */
    CHECK_INT(verdict(false, a), STOPPER_PAUSE); /* half of one trial is none */
    a->state = TRIAL_PAUSED;
    struct trial *b = ADD(false, 6, 4.5); /* higher, but falls */
    CHECK_INT(verdict(false, b), STOPPER_CONTINUE);
    report(b, 3, 9);
    CHECK_INT(verdict(false, b), STOPPER_CONTINUE); /* 3 is not a rung */
    report(b, 4, 9);
    CHECK_INT(verdict(false, b), STOPPER_PAUSE);
    report(b, 17, 9);
    CHECK_INT(verdict(false, b), STOPPER_PAUSE); /* at 8, which it skipped */
    report(b, 18, 9);
    CHECK_INT(verdict(false, b), STOPPER_CONTINUE); /* no rung at the end or beyond */
}

TEST(curve_has_a_rung_before_an_end_of_twenty_million_steps)
{
    AUTO(stopper)
    struct stopper *rule = /* 20000001 is not a float */
        kit_stopper("{'type':'curve','min_iter':20000000,'eta':2,'keep':0.5,'max_iter':20000001}");
    struct trial *t = ADD(false, 4, 3.9);
    struct trial_view view = {(const struct trial *const *)trials, (size_t)count};
    report(t, 20000000, 3);
    CHECK_INT(stopper_judge(rule, false, &view, t), STOPPER_PAUSE);
}

TEST(curve_maximizes_negative_rewards)
{
    double flat[] = {-100, -99}, rising[] = {-200, -120};
    struct trial *a = add(false, 2, flat, true);
    a->state = TRIAL_PAUSED;
    struct trial *b = add(false, 2, rising, true);
    CHECK_INT(verdict(true, b), STOPPER_CONTINUE);
    struct trial *c_ = add(false, 2, flat, true);
    CHECK_INT(verdict(true, c_), STOPPER_PAUSE);
}

TEST(curve_goes_on_with_the_best_of_the_highest_rung_once_enough_got_there)
{
    struct trial *t[6];
    for (int i = 0; i < 4; i++) {
        t[i] = ADD(false, 9, 5.0 + i);
        t[i]->state = TRIAL_PAUSED;
        CHECK_INT(goes_on(false), i < 1 ? -1 : 0);
    }
    t[0]->state = TRIAL_RUNNING;
    CHECK_INT(goes_on(false), 1); /* the two best of four */
    t[1]->state = TRIAL_RUNNING;
    CHECK_INT(goes_on(false), -1);
    for (int i = 4; i < 6; i++) { /* better ones, at the next rung */
        t[i] = ADD(false, 2, 1.5, 1.2, 1.1 - i / 100.0);
        t[i]->state = TRIAL_PAUSED;
    }
    CHECK_INT(goes_on(false), 5);
}

TEST(curve_does_not_pause_twice_where_it_went_on)
{
    struct trial *t = ADD(false, 9, 8, 7);
    report(t, 4, 6);
    CHECK_INT(verdict(false, t), STOPPER_PAUSE);
    t->resumed_at = 4;
    t->lease++;
    for (int step = 1; step <= 7; step++) { /* from the start: it had no checkpoint */
        report(t, step, 10 - step);
        CHECK_INT(verdict(false, t), STOPPER_CONTINUE);
    }
    report(t, 8, 2);
    CHECK_INT(verdict(false, t), STOPPER_PAUSE);
}

TEST(curve_finishes_what_may_still_win_one_after_the_other)
{
    struct trial *a = ADD(false, 9, 5), *b = ADD(false, 9, 4), *c_ = ADD(false, 9, 8.9);
    a->state = b->state = c_->state = TRIAL_PAUSED;
    CHECK_INT(goes_on(true), b->id);
    b->state = TRIAL_RUNNING;
    CHECK_INT(goes_on(true), -1); /* a is not expected to beat it */
    for (int step = 3; step <= 16; step++)
        report(b, step, 7);
    b->state = TRIAL_DONE; /* it did not keep its promise */
    CHECK_INT(goes_on(true), a->id);
    a->state = TRIAL_PRUNED;
    CHECK_INT(goes_on(true), -1);
}

TEST(curve_stops_what_is_not_finite_at_a_rung_and_judges_none_by_one_point)
{
    struct trial *t = ADD(false, 9);
    CHECK_INT(verdict(false, t), STOPPER_CONTINUE);
    struct trial *far = ADD(false, NAN);
    report(far, 9, 3); /* its first point, past three rungs */
    CHECK_INT(verdict(false, far), STOPPER_CONTINUE);
    struct trial *u = ADD(false, 9, 8, 7);
    report(u, 4, NAN);
    CHECK_INT(verdict(false, u), STOPPER_STOP);
}

/* ---- decisions of the packages that define the rules ---------------------------------------- */

struct golden { /* a rule, and the reports of a set of curves at which it stopped the trial */
    int min_iter, max_iter, s;
    double eta;
    bool strict;
    int reports;
    const char *stops; /* their numbers, from 0 */
};
#include "tests/unit/data/stopper_golden.h"

/* The class Curves of stopper_golden.py: the sequence of reports. */
static struct curves {
    uint64_t rng;
    bool maximize, ties, nans;
    int trials, last, first, strides, made, active_count;
    struct curve {
        struct trial *trial;
        int step;
        double a, b;
    } active[8];
} c;

static double unit(void)
{
    return (double)(rng_splitmix64(&c.rng) >> 11) * 0x1p-53;
}

static int below(int n)
{
    return (int)(rng_splitmix64(&c.rng) % (uint64_t)n);
}

static void start_curve(void)
{
    if (c.made == c.trials)
        return;
    AUTO(json) json_t *params = json_object();
    struct trial *t = trials[c.made] = trial_new(c.made, params, 0);
    t->state = TRIAL_RUNNING;
    t->lease = 1;
    double a = unit(), b = 4 * unit();
    c.active[c.active_count++] = (struct curve){t, -1, a, b};
    count = ++c.made;
}

static void start_curves(int seed)
{
    for (int i = 0; i < count; i++)
        trial_free(trials[i]);
    c = (struct curves){.rng = (uint64_t)seed};
    c.maximize = below(2) == 1;
    c.trials = 4 + below(21);
    int workers = 1 + below(8);
    c.last = 5 + below(160);
    c.ties = below(3) == 0;
    c.nans = below(4) == 0;
    c.first = below(2);
    c.strides = (int[]){1, 1, 4, 25}[below(4)];
    for (int i = 0; i < workers; i++)
        start_curve();
}

static struct curve *next_report(void)
{
    struct curve *t = &c.active[below(c.active_count)];
    int stride = 1 + below(c.strides);
    t->step = t->step < 0 ? c.first : t->step + stride;
    double v = t->a + t->b / (1 + t->step);
    v += 0.2 * (unit() - 0.5);
    if (c.ties)
        v = floor(v * 10) / 10;
    v = unit() < (c.nans ? 0.1 : 0) ? (double)NAN : c.maximize ? -v : v;
    put(t->trial, t->step, v, c.maximize);
    return t;
}

/* The rule of `g`; `type`: the beginning of its JSON. */
static struct stopper *golden_rule(const char *type, const struct golden *g)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%s,'eta':%.17g", type, g->eta);
    if (g->min_iter)
        strbuf_printf(&b, ",'min_iter':%d", g->min_iter);
    if (g->max_iter)
        strbuf_printf(&b, ",'max_iter':%d", g->max_iter);
    if (g->s)
        strbuf_printf(&b, ",'s':%d", g->s);
    if (strstr(type, "hyperband"))
        strbuf_printf(&b, ",'strict':%s", g->strict ? "true" : "false");
    strbuf_putc(&b, '}');
    return kit_stopper(strbuf_str(&b));
}

static void replay(const char *type, const struct golden *g, int seed)
{
    const char *next = g->stops;
    AUTO(stopper) struct stopper *rule = golden_rule(type, g);
    start_curves(seed);
    for (int n = 0; n < g->reports; n++) {
        struct curve *t = next_report();
        bool want = *next && atoi(next) == n, got = stops(rule, c.maximize, t->trial);
        if (got != want)
            FAIL("set %d, report %d, trial %d at step %d: %s", seed, n, t->trial->id, t->step,
                 got ? "stopped" : "not stopped");
        if (want)
            next += strcspn(next, " ") + (strchr(next, ' ') != NULL);
        if (!want && t->step < c.last)
            continue;
        t->trial->state = want ? TRIAL_PRUNED : TRIAL_DONE;
        memmove(t, t + 1, (size_t)(c.active + --c.active_count - t) * sizeof *t);
        start_curve();
    }
    CHECK_INT(c.active_count, 0);
}

#define REPLAY(goldens, type)                      \
    for (size_t i = 0; i < COUNT_OF(goldens); i++) \
    replay(type, &goldens[i], (int)i)

TEST(asha_decides_as_optuna_on_random_curves)
{
    REPLAY(optuna_golden, "{'type':'asha'");
}

TEST(asha_like_ray_decides_as_ray_on_random_curves)
{
    REPLAY(ray_golden, "{'type':'asha','like':'ray'");
}

TEST(hyperband_decides_as_wandb_on_random_curves)
{
    REPLAY(wandb_golden, "{'type':'hyperband'");
}

/* ---- the value of `early_terminate` --------------------------------------------------------- */

TEST(each_rule_has_its_keys_and_defaults)
{
    static const struct {
        const char *json, *all; /* `all`: with every default in place */
    } rows[] = {
        {"{'type':'asha'}", "{\"type\":\"asha\",\"eta\":4.0,\"like\":\"optuna\"}"},
        {"{'type':'asha','like':'ray','s':1,'max_iter':81}",
         "{\"type\":\"asha\",\"min_iter\":1,\"max_iter\":81,\"eta\":4.0,\"s\":1,\"like\":\"ray\"}"},
        {"{'type':'asha','like':'optuna','min_iter':3,'eta':3}",
         "{\"type\":\"asha\",\"min_iter\":3,\"eta\":3.0,\"like\":\"optuna\"}"},
        {"{'type':'curve'}", "{\"type\":\"curve\",\"min_iter\":2,\"eta\":2.0,\"keep\":0.33}"},
        {"{'type':'curve','min_iter':4,'max_iter':81,'eta':1.5,'keep':1}",
         "{\"type\":\"curve\",\"min_iter\":4,\"max_iter\":81,\"eta\":1.5,\"keep\":1.0}"},
        {"{'type':'hyperband','max_iter':27,'s':2}",
         "{\"type\":\"hyperband\",\"max_iter\":27,\"eta\":3.0,\"s\":2,\"strict\":true}"},
        {"{'type':'median'}", "{\"type\":\"median\",\"min_iter\":1,\"min_trials\":5}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(stopper) struct stopper *s = kit_stopper(rows[i].json);
        AUTO(json) json_t *all = stopper_json(s), *want = json_loads(rows[i].all, 0, NULL);
        AUTO(free) char *text = json_line(all);
        AUTO(stopper) struct stopper *again = kit_stopper(text);
        AUTO(json) json_t *all_again = stopper_json(again);
        if (!json_equal(all, want))
            FAIL("%s: %s", rows[i].json, text);
        CHECK(json_equal(all_again, all));
        CHECK_INT(stopper_max_iter(s), json_integer_value(json_object_get(want, "max_iter")));
        CHECK(stopper_pauses(s) == (strcmp(stopper_name(s), "curve") == 0));
    }
    AUTO(json) json_t *bad = json_loads("{\"type\":\"asha\",\"min_iter\":0}", 0, NULL);
    struct config_node n = config_node_of_json(bad);
    struct stopper *untouched = NULL;
    struct err e = {0};
    CHECK(stopper_new(&untouched, &n, NULL, &e) < 0 && !untouched);
    CHECK_HAS(e.text, "/min_iter: 'min_iter' must be from 1");
}

TEST(an_unknown_type_is_answered_with_the_nearest_or_with_all)
{
    struct err e = {0}, far = {0};
    struct stopper *s = NULL;
    AUTO(json) json_t *near = json_loads("{\"type\":\"hyperbond\"}", 0, NULL);
    AUTO(json) json_t *other = json_loads("{\"type\":\"successive\"}", 0, NULL);
    struct config_node n = config_node_of_json(near), o = config_node_of_json(other);
    CHECK(stopper_new(&s, &n, NULL, &e) < 0 && stopper_new(&s, &o, NULL, &far) < 0);
    CHECK_STR(e.hint, "\"type\":\"hyperband\"");
    CHECK_STR(far.hint, "hyperband, asha, curve or median");
}

TEST(no_name_is_another_stop_reason)
{
    const char *name = NULL, *help = NULL;
    for (size_t i = 0; (name = stopper_row(i, &help)); i++) {
        CHECK_INT(stop_reason_parse(name), STOP_REASON_EARLY);
        CHECK(help && strlen(help) <= 60);
    }
}

TEST(no_stopper_stops_nothing)
{
    struct trial *t = ADD(false, 9);
    struct trial_view view = {(const struct trial *const *)trials, (size_t)count};
    CHECK_INT(stopper_judge(NULL, false, &view, t), STOPPER_CONTINUE);
    CHECK_INT(stopper_resume(NULL, false, &view, false), -1);
    CHECK(!stopper_pauses(NULL) && !stopper_has_memory(NULL));
    CHECK_INT(stopper_max_iter(NULL), 0);
}
