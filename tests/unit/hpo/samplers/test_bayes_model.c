#include "hpo/samplers/bayes_model.h"

#include "common/json.h"
#include "common/rng.h"
#include "tests/unit/kit_trials.h"

enum { COLS = 3, PROBES = 9 };

static const size_t groups[COLS] = {0, 1, 2};
static const struct kernel_shape shape = {.cols = COLS, .groups = COLS, .group = groups};

static double smooth(const double *x)
{
    return sin(6 * x[0]) + (x[1] - 0.4) * (x[1] - 0.4) + 0.3 * x[2];
}

static void point(struct rng *r, double *x)
{
    for (int c = 0; c < COLS; c++)
        x[c] = rng_unit(r);
}

/* Adds n observations of the smooth function, and a wrong one from time to time. */
static void observe_some(struct bayes_data *d, struct rng *r, size_t n, double wrong)
{
    for (size_t i = 0; i < n; i++) {
        double x[COLS];
        point(r, x);
        double y = smooth(x);
        bayes_model_data_add(d, COLS, x, rng_unit(r) < wrong ? y + 2 : y, 0);
    }
}

static void observe(struct bayes_data *d, struct rng *r, size_t n)
{
    observe_some(d, r, n, 0);
}

struct posterior {
    double mean[PROBES], var[PROBES];
};

/* The predictions of a model at fixed points. */
static struct posterior probe(struct bayes_model *m)
{
    struct posterior p;
    double x[COLS * PROBES];
    struct rng r;
    rng_seed(&r, 99, 0);
    for (int i = 0; i < COLS * PROBES; i++)
        x[i] = rng_unit(&r);
    gp_predict(m->gp, &(struct kernel_points){x, PROBES, PROBES}, p.mean, p.var, NULL, NULL);
    return p;
}

static void check_same(const struct posterior *a, const struct posterior *b, const char *what,
                       size_t n)
{
    for (int i = 0; i < PROBES; i++)
        if (a->mean[i] != b->mean[i] || a->var[i] != b->var[i])
            FAIL("%s, %zu observations: %.17g +- %.17g, then %.17g +- %.17g", what, n, a->mean[i],
                 a->var[i], b->mean[i], b->var[i]);
}

static void check_finite(struct bayes_model *m)
{
    struct posterior p = probe(m);
    for (int i = 0; i < PROBES; i++)
        CHECK(isfinite(p.mean[i]) && isfinite(p.var[i]) && p.var[i] > 0);
}

/* ---- predictions ---------------------------------------------------------------------------- */

TEST(observations_keep_their_columns_while_there_come_more)
{
    struct bayes_data d = {0};
    for (size_t i = 0; i < 1000; i++) {
        double x[COLS] = {(double)i, (double)i + 0.25, (double)i + 0.5};
        CHECK_INT(bayes_model_data_add(&d, COLS, x, -(double)i, 2 * (double)i), i);
    }
    for (size_t i = 0; i < 1000; i++) {
        for (size_t c = 0; c < COLS; c++)
            CHECK_NEAR(d.x[c * d.cap + i], (double)i + 0.25 * (double)c, 0);
        CHECK(d.y[i] == -(double)i && d.var[i] == 2 * (double)i);
    }
    bayes_model_data_free(&d);
    CHECK_INT(d.n, 0);
}

TEST(with_each_observation_it_knows_the_function_better)
{
    static const size_t sizes[] = {5, 15, 40, 100};
    static const double bounds[] = {2, 0.5, 0.1, 0.02};
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    struct bayes_data d = {0};
    struct rng r, s;
    rng_seed(&r, 1, 0);
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        while (d.n < sizes[k]) {
            observe(&d, &r, 1);
            CHECK(bayes_model_update(m, &d, d.n));
            CHECK_INT(m->gp->n, d.n);
        }
        double off = 0;
        rng_seed(&s, 2, 0);
        for (int i = 0; i < 100; i++) {
            double x[COLS], mean, var;
            point(&s, x);
            gp_predict(m->gp, &(struct kernel_points){x, 1, 1}, &mean, &var, NULL, NULL);
            off += fabs(mean - output_transform_value(&m->transform, smooth(x))) / 100;
        }
        printf("# %zu observations: %.4f deviations off\n", d.n, off);
        CHECK(off < bounds[k]);
    }
    bayes_model_data_free(&d);
}

TEST(the_targets_are_the_warped_values_of_its_observations)
{
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, 3, 0);
    for (int round = 0; round < 60; round++) {
        observe(&d, &r, 1);
        CHECK(bayes_model_update(m, &d, d.n));
        double mean = 0, square = 0;
        for (size_t i = 0; i < d.n; i++) {
            double z = m->targets[i];
            CHECK_NEAR(z, output_transform_value(&m->transform, d.y[i]), 0);
            mean += z / (double)d.n;
            square += z * z / (double)d.n;
        }
        CHECK_NEAR(mean, 0, 1e-10);
        CHECK_NEAR(square, d.n > 1 ? 1 : 0, 1e-9);
    }
    bayes_model_data_free(&d);
}

TEST(a_forecast_of_wide_variance_says_less_than_a_certain_value)
{
    double far[2];
    for (int certain = 0; certain < 2; certain++) {
        AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
        struct bayes_data d = {0};
        struct rng r;
        rng_seed(&r, 5, 0);
        observe(&d, &r, 20);
        double x[COLS] = {0.5, 0.5, 0.5}, mean, var;
        bayes_model_data_add(&d, COLS, x, 3, certain ? 0 : 9);
        CHECK(bayes_model_update(m, &d, certain ? 21 : 20));
        gp_predict(m->gp, &(struct kernel_points){x, 1, 1}, &mean, &var, NULL, NULL);
        far[certain] = fabs(mean - output_transform_value(&m->transform, 3));
        bayes_model_data_free(&d);
    }
    CHECK(far[1] < 0.2 && far[0] > 0.5);
}

/* The output transform that a fit to n points chooses. */
static enum output_transform_kind chosen(double (*f)(const double *x), int n)
{
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, 12, 0);
    for (int i = 0; i < n; i++) {
        double x[COLS];
        point(&r, x);
        bayes_model_data_add(&d, COLS, x, f(x), 0);
    }
    CHECK(bayes_model_update(m, &d, d.n));
    bayes_model_data_free(&d);
    return m->transform.kind;
}

static double steep(const double *x)
{
    return exp(4 * smooth(x));
}

/* A hole in a plain, deepest in its middle. */
static double hole(const double *x)
{
    return -exp(-4 * smooth(x));
}

TEST(what_is_steep_is_squashed_and_what_is_flat_but_for_a_hole_is_lifted)
{
    for (int n = 30; n <= 60; n += 30) {
        CHECK_INT(chosen(smooth, n), OUTPUT_TRANSFORM_NONE);
        CHECK_INT(chosen(hole, n), OUTPUT_TRANSFORM_LIFT);
    }
    CHECK_INT(chosen(steep, 60), OUTPUT_TRANSFORM_SQUASH);
}

TEST(while_observations_are_few_what_spans_orders_of_magnitude_is_taken_in_logarithms)
{
    CHECK_INT(chosen(steep, 15), OUTPUT_TRANSFORM_LOG);
    CHECK_INT(chosen(steep, 30), OUTPUT_TRANSFORM_LOG);
    CHECK_INT(chosen(steep, 31), OUTPUT_TRANSFORM_SQUASH);
}

/* ---- model state ---------------------------------------------------------------------------- */

struct feed { /* a sequence of observations */
    uint64_t seed;
    size_t to, step;  /* observations in all, and per update */
    size_t forecasts; /* forecasts after them, which change; in the first three of eight steps */
    double wrong;     /* the share of surprises */
};

/* Feeds a model, and compares it at each step with a new one that has the last saved state. */
static void check_restart(const struct feed *f)
{
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    AUTO(json) json_t *saved = NULL;
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, f->seed, 0);
    for (size_t certain = 0; certain + f->step <= f->to;) {
        d.n = certain;
        observe_some(&d, &r, f->step, f->wrong);
        certain = d.n;
        for (size_t i = 0; i < f->forecasts && certain / f->step % 8 < 3; i++) {
            double x[COLS];
            point(&r, x);
            bayes_model_data_add(&d, COLS, x, smooth(x) + 0.3 * rng_unit(&r), 0.04);
        }
        CHECK(bayes_model_update(m, &d, certain));
        if (m->unsaved) {
            json_decref(saved);
            saved = bayes_model_save(m);
            CHECK(saved && !m->unsaved);
        }
        /* The state as a store keeps it. */
        AUTO(free) char *text = json_line(saved);
        AUTO(json) json_t *read = json_loads(text, 0, NULL);
        AUTO(bayes_model) struct bayes_model *again = bayes_model_new(&shape);
        CHECK(bayes_model_restore(again, read));
        CHECK(!again->unsaved);
        CHECK(bayes_model_update(again, &d, certain));
        struct posterior a = probe(m), b = probe(again);
        char what[96];
        snprintf(what, sizeof what, "seed %d, %zu at a time, %zu forecasts", (int)f->seed, f->step,
                 f->forecasts);
        check_same(&a, &b, what, d.n);
    }
    bayes_model_data_free(&d);
}

TEST(restored_it_says_bit_by_bit_the_same_one_observation_at_a_time)
{
    for (uint64_t seed = 0; seed < 2; seed++)
        check_restart(
            &(struct feed){.seed = seed, .to = KIT_SEEDS > 1 ? 130 : 60, .step = 1, .wrong = 0.1});
}

TEST(restored_it_says_bit_by_bit_the_same_when_several_come_at_once)
{
    check_restart(&(struct feed){.seed = 2, .to = 140, .step = 7, .wrong = 0.1});
    check_restart(&(struct feed){.seed = 3, .to = 90, .step = 3, .wrong = 0.1});
}

TEST(what_was_learnt_is_a_few_kilobytes_and_nothing_before_there_is_a_fit)
{
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    CHECK(!m->unsaved && !bayes_model_save(m));
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, 6, 0);
    observe(&d, &r, 30);
    CHECK(bayes_model_update(m, &d, d.n) && m->unsaved);
    AUTO(json) json_t *saved = bayes_model_save(m);
    AUTO(free) char *text = json_line(saved);
    CHECK(!m->unsaved && strlen(text) < 1024);
    CHECK(bayes_model_update(m, &d, d.n) && !m->unsaved); /* nothing new */
    bayes_model_data_free(&d);
}

#define NINE "[0,0,0,0,0,0,0,0,0]"
#define THREE NINE "," NINE "," NINE

TEST(nonsense_is_not_restored_and_changes_nothing)
{
    static const char *const bad[] = {
        "null",
        "[]",
        "3",
        "'text'",
        "{}",
        "{'n':8,'warp':0}",
        "{'n':8,'warp':0,'params':null}",
        "{'n':8,'warp':0,'params':[]}",
        "{'n':8,'warp':0,'params':[[],[]]}",
        "{'n':8,'warp':0,'params':[" THREE
        "]}", /* the state of a version without OUTPUT_TRANSFORM_LOG */
        "{'n':8,'warp':0,'params':[" THREE ",[0,0,0,0,0,0,0,0]]}",
        "{'n':8,'warp':0,'params':[" THREE ",[0,0,0,0,0,0,0,0,0,0]]}",
        "{'n':8,'warp':0,'params':[" THREE "," NINE ",[]]}",
        "{'n':8,'warp':4,'params':[" THREE "," NINE "]}",
        "{'n':8,'warp':-1,'params':[" THREE "," NINE "]}",
        "{'n':0,'warp':0,'params':[" THREE "," NINE "]}",
        "{'n':-8,'warp':0,'params':[" THREE "," NINE "]}",
        "{'n':'8','warp':0,'params':[" THREE "," NINE "]}",
    };
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, 7, 0);
    observe(&d, &r, 25);
    CHECK(bayes_model_update(m, &d, d.n));
    struct posterior before = probe(m);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(json) json_t *learnt = kit_json(bad[i]);
        if (bayes_model_restore(m, learnt))
            FAIL("restored: %s", bad[i]);
        struct posterior after = probe(m);
        check_same(&before, &after, bad[i], d.n);
    }
    CHECK(!bayes_model_restore(m, NULL));
    bayes_model_data_free(&d);
}

/* ---- many ----------------------------------------------------------------------------------- */

TEST(a_choice_has_the_best_third_the_newest_third_and_the_rest_evenly)
{
    enum { N = 1500, MOST = 1000 };
    struct bayes_data d = {0};
    size_t rows[N];
    double x[COLS] = {0};
    for (int i = 0; i < N; i++) /* values 0 … N - 1 in some order */
        bayes_model_data_add(&d, COLS, x, i * 7 % N, 0);
    CHECK_INT(bayes_model_data_choose(&d, N, MOST, rows), MOST);
    static bool has[N];
    for (size_t i = 0; i < MOST; i++) {
        CHECK(i == 0 || rows[i] > rows[i - 1]);
        has[(int)d.y[rows[i]]] = true;
    }
    int gap = 0, widest = 0;
    for (int v = 0; v < N; v++) {
        gap = has[v] ? 0 : gap + 1;
        widest = gap > widest ? gap : widest;
        CHECK(has[v] || v >= MOST / 3);
    }
    for (int i = N - MOST / 3; i < N; i++)
        CHECK(has[i * 7 % N]);
    CHECK(widest < 8);
    CHECK_INT(bayes_model_data_choose(&d, 900, MOST, rows), 900);
    CHECK_INT(rows[899], 899);
    for (size_t most = 1; most < 40; most++)
        CHECK(bayes_model_data_choose(&d, N, most, rows) <= most);
    bayes_model_data_free(&d);
}

TEST(of_more_than_a_thousand_observations_it_has_a_choice_and_then_grows)
{
    enum { N = 1200, MOST = 1000 };
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, 8, 0);
    observe(&d, &r, N);
    /* The fit itself is not tested here: a restored state saves the time. */
    AUTO(json)
    json_t *learnt = kit_json("{'n':1200,'warp':0,'params':[[0,0,0,0,0,0,0,0,-3],"
                              "[0,0,0,0,0,0,0,0,-3],[0,0,0,0,0,0,0,0,-3],"
                              "[0,0,0,0,0,0,0,0,-3]]}");
    CHECK(bayes_model_restore(m, learnt));
    CHECK(bayes_model_update(m, &d, N));
    CHECK_INT(m->gp->n, MOST);
    observe(&d, &r, 5);
    CHECK(bayes_model_update(m, &d, d.n));
    CHECK_INT(m->gp->n, MOST + 5);
    check_finite(m);
    bayes_model_data_free(&d);
}

/* ---- odd values ----------------------------------------------------------------------------- */

/* A model of n points whose values are f(i). */
static void check_odd(double (*value)(int i), const char *what)
{
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, 10, 0);
    for (int i = 0; i < 40; i++) {
        double x[COLS];
        point(&r, x);
        bayes_model_data_add(&d, COLS, x, value(i), 0);
        if (!bayes_model_update(m, &d, d.n))
            FAIL("%s: no model of %zu", what, d.n);
        check_finite(m);
        AUTO(json) json_t *saved = bayes_model_save(m);
        if (!bayes_model_restore(m, saved) || !bayes_model_update(m, &d, d.n))
            FAIL("%s: what it learnt from %zu is refused", what, d.n);
    }
    bayes_model_data_free(&d);
}

static double constant(int i)
{
    (void)i;
    return 42;
}

static double nearly_constant(int i)
{
    return 1 + 1e-15 * (i % 3);
}

static double tiny(int i)
{
    return 1e-310 * (i % 7);
}

static double one_is_huge(int i)
{
    return i == 12 ? 1e12 : i % 5;
}

TEST(constant_and_nearly_constant_and_tiny_values_make_a_model)
{
    check_odd(constant, "constant");
    check_odd(nearly_constant, "nearly constant");
    check_odd(tiny, "tiny");
}

TEST(one_value_that_is_far_from_all_others_makes_a_model)
{
    check_odd(one_is_huge, "one is 1e12");
}

TEST(the_same_point_with_different_values_makes_a_model_that_says_their_mean)
{
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
    struct bayes_data d = {0};
    struct rng r;
    rng_seed(&r, 11, 0);
    observe(&d, &r, 20);
    double x[COLS] = {0.5, 0.5, 0.5}, mean, var;
    for (int i = 0; i < 20; i++) {
        bayes_model_data_add(&d, COLS, x, i % 2, 0);
        CHECK(bayes_model_update(m, &d, d.n));
        check_finite(m);
    }
    gp_predict(m->gp, &(struct kernel_points){x, 1, 1}, &mean, &var, NULL, NULL);
    double ends[2] = {output_transform_value(&m->transform, 0),
                      output_transform_value(&m->transform, 1)};
    CHECK_NEAR(mean, (ends[0] + ends[1]) / 2, 0.2 * (ends[1] - ends[0]));
    bayes_model_data_free(&d);
}

TEST(a_point_that_is_not_finite_makes_no_model_and_no_crash)
{
    static const double bad[] = {NAN, INFINITY};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&shape);
        struct bayes_data d = {0};
        double good[COLS] = {0.5, 0.25, 0.5}, x[COLS] = {0.5, bad[i], 0.5};
        bayes_model_data_add(&d, COLS, good, 1, 0);
        CHECK(bayes_model_update(m, &d, d.n));
        bayes_model_data_add(&d, COLS, x, 2, 0);
        CHECK(!bayes_model_update(m, &d, d.n));
        bayes_model_data_free(&d);
    }
}
