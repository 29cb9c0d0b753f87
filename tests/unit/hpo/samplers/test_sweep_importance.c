/* Shares of functions whose shares are known, from trials of every kind of search. */
#include "hpo/samplers/sweep_importance.h"

#include "common/rng.h"
#include "hpo/samplers/sampler.h"
#include "tests/unit/kit_sampler.h"
#include "tests/unit/kit_trials.h"

static const struct sampler_objective minimise = {.metric = "y"};
static const char cube[] = "[{'name':'a','type':'float','low':0,'high':1},"
                           "{'name':'b','type':'float','low':0,'high':1},"
                           "{'name':'c','type':'float','low':0,'high':1}]";

/* Of the variance a decides 99 %, b 1 % and c nothing: a square has the variance 4/45 h^4 around
 * the middle of a side of 2 h. */
static double valley(const json_t *p)
{
    return 10 * pow(kit_number(p, "a") - 0.5, 2) + pow(kit_number(p, "b") - 0.5, 2);
}

/* a and b matter together only: each total is 1, alone they decide nothing. */
static double saddle(const json_t *p)
{
    return (kit_number(p, "a") - 0.5) * (kit_number(p, "b") - 0.5);
}

static void search(const struct space *sp, const char *method, size_t n,
                   double (*f)(const json_t *), struct sweep_importance *out, size_t resamples)
{
    struct sampler_task task = {
        .space = sp, .seed = 7, .objectives = &minimise, .objective_count = 1};
    AUTO(sampler) struct sampler *s = sampler_new(kit_sampler(method), &task);
    size_t dims = space_dims(sp);
    AUTO(free) double *u = xcalloc(n * dims + n, sizeof *u);
    double *y = u + n * dims;
    for (size_t i = 0; i < n; i++) {
        struct trial_view v = kit_view();
        struct trial *t = kit_add(sampler_next(s, &v));
        struct err e = {0};
        y[i] = f(t->params);
        CHECK_INT(space_unit(sp, t->params, u + i * dims, &e), 0);
        kit_done(t, y[i]);
    }
    CHECK(sweep_importance(sp, u, y, n, resamples, out));
    kit_clear();
}

TEST(what_decides_the_variance_comes_first_however_the_trials_were_chosen)
{
    static const char *const methods[] = {"random", "sobol", "bayes"};
    AUTO(space) struct space *sp = kit_space(cube, NULL);
    struct sweep_importance of[3];
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        search(sp, methods[i], 60, valley, of, 20);
        printf("# %s: %.3f (%.3f to %.3f) %.3f %.3f; alone %.3f; region %.2f %.2f %.2f\n",
               methods[i], of[0].total, of[0].low, of[0].high, of[1].total, of[2].total,
               of[0].first, of[0].region, of[1].region, of[2].region);
        CHECK_NEAR(of[0].total, 0.99, 0.02);
        CHECK_NEAR(of[0].first, 0.99, 0.03);
        CHECK_NEAR(of[1].total, 0.01, 0.01);
        CHECK(of[2].total < 0.01);
        CHECK(of[0].low <= of[0].total && of[0].total <= of[0].high);
        CHECK(of[1].region > 10 * of[1].total); /* near the best a is settled, and b matters */
        CHECK(of[0].from > 0.3 && of[0].from < 0.5 && of[0].to > 0.5 && of[0].to < 0.7);
    }
}

static double falling(const json_t *p)
{
    return -2 * kit_number(p, "a") + kit_number(p, "b") + 4 * pow(kit_number(p, "c") - 0.5, 2);
}

TEST(the_trend_says_which_values_are_better)
{
    AUTO(space) struct space *sp = kit_space(cube, NULL);
    struct sweep_importance of[3];
    search(sp, "random", 60, falling, of, 10);
    CHECK(of[0].trend < -0.7 && of[1].trend > 0.2 && fabs(of[2].trend) < 0.1);
    CHECK(of[0].high - of[0].low >= 0.02); /* the margin of the estimate, on both sides */
}

TEST(an_interaction_is_in_the_total_share_alone)
{
    AUTO(space) struct space *sp = kit_space(cube, NULL);
    struct sweep_importance of[3];
    search(sp, "sobol", 100, saddle, of, 0);
    CHECK_NEAR(of[0].total, 1, 0.1);
    CHECK_NEAR(of[1].total, 1, 0.1);
    CHECK(of[0].first < 0.1 && of[1].first < 0.1 && of[2].total < 0.05);
    CHECK(of[0].low == of[0].total && of[0].high == of[0].total);
}

static const char tree[] =
    "[{'name':'m','type':'cat','choices':['svm','forest']},"
    "{'name':'c','type':'float','low':0,'high':1,'when':{'param':'m','in':['svm']}},"
    "{'name':'d','type':'int','low':1,'high':9,'when':{'param':'m','in':['forest']}}]";

/* Half of the space has the variance of 2 c, 1/3. m alone: the means are 2 and 0. Total of m: the
 * variance between the two at the same c, 1 + 1/12 + ...; d matters nowhere. */
static double branches(const json_t *p)
{
    return *kit_text(p, "m") == 's' ? 1 + 2 * kit_number(p, "c") : 0;
}

TEST(conditions_and_categories_have_their_shares)
{
    static const char *const methods[] = {"random", "bayes"};
    AUTO(space) struct space *sp = kit_space(tree, NULL);
    struct sweep_importance of[3];
    for (size_t i = 0; i < 2; i++) {
        search(sp, methods[i], 80, branches, of, 0);
        printf("# %s: m %.3f, alone %.3f, c %.3f, d %.3f\n", methods[i], of[0].total, of[0].first,
               of[1].total, of[2].total);
        /* V = 1/2 (4 + 1/3) - 1 = 7/6; m alone 1 / V; m in all E[(1 + 2c)^2] / 4 / V = 13/14 */
        CHECK_NEAR(of[0].first, 6.0 / 7, 0.06);
        CHECK_NEAR(of[0].total, 13.0 / 14, 0.06);
        CHECK_NEAR(of[1].total, 1.0 / 7, 0.05); /* 1/2 1/3 / V */
        CHECK(of[2].total < 0.02);
        CHECK(of[0].from == of[0].to && of[0].from > 0.5); /* the forest */
    }
}

static double huge(const json_t *p)
{
    return 1.7e308 * (kit_number(p, "a") > 0.5 ? 1 : -1);
}

static double tiny(const json_t *p)
{
    return 1e-300 * kit_number(p, "b");
}

TEST(values_of_any_size_have_shares)
{
    AUTO(space) struct space *sp = kit_space(cube, NULL);
    struct sweep_importance of[3];
    search(sp, "sobol", 40, huge, of, 3);
    CHECK(of[0].total > 0.9 && of[1].total < 0.1 && of[2].total < 0.1);
    search(sp, "sobol", 40, tiny, of, 3);
    CHECK(of[1].total > 0.99 && of[0].total < 0.01 && of[2].total < 0.01);
}

static struct rng generator;

static double noise(const json_t *p)
{
    return rng_unit(&generator);
}

TEST(noise_is_decided_by_nothing)
{
    AUTO(space) struct space *sp = kit_space(cube, NULL);
    struct sweep_importance of[3];
    int none = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        rng_seed(&generator, seed, 3);
        search(sp, "random", 60, noise, of, 5);
        none += of[0].total == 0 && of[1].total == 0 && of[2].total == 0 && of[0].high == 0;
    }
    printf("# nothing in %d of 8\n", none);
    CHECK(none >= 6); /* now and then chance has a pattern */
}
