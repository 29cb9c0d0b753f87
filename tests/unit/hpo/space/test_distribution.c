#include "hpo/space/distribution.h"

#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "tests/unit/test.h"

/* Not freed before the test's process ends. */
static struct distribution *dist(const char *json)
{
    struct distribution *d = NULL;
    struct err e = {0};
    static char **notices;
    json_t *v = json_loads(json, JSON_DECODE_ANY, NULL);
    struct config_node n = config_node_of_json(v);
    if (distribution_read(&d, &n, &notices, &e) < 0)
        FAIL("%s: %s", json, e.text);
    json_decref(v);
    strv_free(notices);
    notices = NULL;
    return d;
}

static double at(const struct distribution *d, double u)
{
    AUTO(json) json_t *v = distribution_quantile(d, u);
    CHECK(json_is_number(v));
    return json_number_value(v);
}

#define RANGE(name, rest) "{\"distribution\": \"" name "\", " rest "}"

/* From the definitions, computed with scipy 1.x. */
static const struct {
    const char *dist;
    double u[4]; /* values at 0.1, 0.25, 0.5, 0.9 */
} vectors[] = {
    {RANGE("int_uniform", "\"min\": 1, \"max\": 10"), {1, 3, 5, 9}},
    {RANGE("q_uniform", "\"min\": 0, \"max\": 1, \"q\": 0.3"), {0, 0.3, 0.6, 0.9}},
    {RANGE("uniform", "\"min\": -1, \"max\": 3"), {-0.6, 0, 1, 2.6}},
    {RANGE("log_uniform_values", "\"min\": 1e-5, \"max\": 0.1"),
     {2.511886432e-05, 1e-4, 1e-3, 0.03981071706}},
    {RANGE("inv_log_uniform_values", "\"min\": 1e-5, \"max\": 0.1"),
     {2.511886432e-05, 1e-4, 1e-3, 0.03981071706}},
    {RANGE("log_uniform", "\"min\": -2, \"max\": 2"),
     {0.20189651799465538, 0.36787944117144233, 1, 4.953032424395115}},
    {RANGE("inv_log_uniform", "\"min\": -2, \"max\": 2"),
     {0.20189651799465538, 0.36787944117144233, 1, 4.953032424395115}},
    {RANGE("q_log_uniform_values", "\"min\": 1, \"max\": 1000, \"q\": 10"), {0, 10, 30, 500}},
    {RANGE("normal", "\"mu\": 2, \"sigma\": 0.5"), {1.359224217, 1.662755125, 2, 2.640775783}},
    {RANGE("log_normal", "\"mu\": 0, \"sigma\": 1"), {0.2776062419, 0.5094162839, 1, 3.602224479}},
    {RANGE("q_log_normal", "\"q\": 1"), {0, 1, 1, 4}},
    {RANGE("beta", "\"a\": 2, \"b\": 5"),
     {0.09259525891, 0.1611629168, 0.2644499833, 0.5103163066}},
    {RANGE("q_beta", "\"a\": 2, \"b\": 5, \"q\": 0.1"), {0.1, 0.2, 0.3, 0.5}},
};
static const double us[] = {0.1, 0.25, 0.5, 0.9};

TEST(quantiles_are_those_of_the_definitions)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        AUTO(distribution) struct distribution *d = dist(vectors[i].dist);
        for (int k = 0; k < 4; k++)
            CHECK_NEAR(at(d, us[k]), vectors[i].u[k], fabs(vectors[i].u[k]) * 1e-9 + 1e-15);
    }
}

TEST(every_value_leads_back_to_a_place_in_the_cube_that_gives_it_again)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        AUTO(distribution) struct distribution *d = dist(vectors[i].dist);
        for (int k = 0; k <= 200; k++) {
            AUTO(json) json_t *v = distribution_quantile(d, k / 200.0);
            double x = json_number_value(v), u = distribution_unit(d, v);
            CHECK(isfinite(x) && u >= 0 && u <= 1);
            if (k > 0 && k < 200) /* in the tails many values have the same u */
                CHECK_NEAR(at(d, u), x, fabs(x) * 1e-7 + 1e-12);
        }
    }
}

/* Distributions for which doubles are coarse, or whose quantile saturates. */
static const char *const awkward[] = {
    RANGE("uniform", "\"min\": 1e10, \"max\": 10000000000.001"),
    RANGE("uniform", "\"min\": 0, \"max\": 1e-320"),
    RANGE("uniform", "\"min\": -1.7e308, \"max\": 1.7e308"),
    RANGE("log_uniform_values", "\"min\": 1000, \"max\": 1000.0000001"),
    RANGE("log_uniform_values", "\"min\": 1e-320, \"max\": 1"),
    RANGE("normal", "\"mu\": 1e10, \"sigma\": 1e-5"),
    RANGE("normal", "\"sigma\": 0"),
    RANGE("normal", "\"sigma\": 1e308"),
    RANGE("log_normal", "\"sigma\": 1000"),
    RANGE("log_normal", "\"mu\": 5, \"sigma\": 1e-9"),
    RANGE("beta", "\"a\": 1, \"b\": 0.02"),
    RANGE("beta", "\"a\": 0.02, \"b\": 0.02"),
    RANGE("beta", "\"a\": 100, \"b\": 100"),
    RANGE("beta", "\"a\": 1e5, \"b\": 1e5"),
    RANGE("q_normal", "\"mu\": 1, \"sigma\": 0.5, \"q\": 0.001"),
    RANGE("q_beta", "\"a\": 0.1, \"b\": 3, \"q\": 0.05"),
    RANGE("q_log_uniform", "\"min\": 0, \"max\": 5, \"q\": 1e-320"),
    RANGE("q_uniform", "\"min\": 0, \"max\": 5, \"q\": 1e308"),
    RANGE("int_log_uniform", "\"min\": 1, \"max\": 9007199254740991"),
    RANGE("int_log_uniform", "\"min\": 3, \"max\": 17"),
    RANGE("int_uniform", "\"min\": -9007199254740991, \"max\": 9007199254740991"),
    "{\"values\": [1, \"a\", 1.0, null, [2]], \"probabilities\": [0.1, 0.2, 0.3, 0.0, 0.4]}",
    "{\"value\": 7}",
};

/* Whether snapping u gives the u of its value, and does nothing the second time. */
static void check_settled(const char *text, double u)
{
    AUTO(distribution) struct distribution *d = dist(text);
    AUTO(json) json_t *v = distribution_quantile(d, u);
    double settled = distribution_snap(d, u);
    if (!(fabs(settled - distribution_unit(d, v)) <= 1e-12))
        FAIL("%s: u %.17g settles at %.17g, its value's place is %.17g", text, u, settled,
             distribution_unit(d, v));
    double x = distribution_number(d, u);
    if (json_is_number(v) ? x != json_number_value(v) : !isnan(x))
        FAIL("%s: at %.17g the number is %.17g", text, u, x);
    double i = distribution_index(d, u);
    AUTO(json) json_t *same = isnan(i) ? NULL : distribution_value(d, i);
    CHECK(isnan(i) == isinf(distribution_count(d)) && (!same || json_equal(same, v)));
}

TEST(a_place_is_settled_where_its_value_is_found_again)
{
    struct rng r;
    rng_seed(&r, 11, 0);
    for (size_t i = 0; i < COUNT_OF(vectors) + COUNT_OF(awkward); i++)
        for (int k = 0; k < 40; k++)
            check_settled(i < COUNT_OF(vectors) ? vectors[i].dist : awkward[i - COUNT_OF(vectors)],
                          k < 2 ? k : rng_unit(&r));
}

TEST(a_step_leads_to_the_next_value_and_not_beyond_the_last)
{
    static const char *const rows[] = {
        RANGE("q_uniform", "\"min\": 0.1, \"max\": 1, \"q\": 0.3"),
        RANGE("q_log_uniform_values", "\"min\": 1, \"max\": 64, \"q\": 8"),
        RANGE("q_beta", "\"a\": 2, \"b\": 5, \"q\": 0.1"),
        RANGE("int_log_uniform", "\"min\": 1, \"max\": 12"),
        "{\"min\": -3, \"max\": 4}",
        "{\"values\": [5, 6, 7], \"probabilities\": [0.8, 0.1, 0.1]}",
        "{\"value\": 7}",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(distribution) struct distribution *d = dist(rows[i]);
        double u = distribution_snap(d, 0);
        for (int k = 0; k < (int)distribution_count(d); k++) {
            CHECK_NEAR(distribution_index(d, u), k, 0);
            CHECK_NEAR(distribution_neighbor(d, u, 0), u, 0);
            CHECK_NEAR(distribution_neighbor(d, u, -1000), distribution_snap(d, 0), 0);
            u = distribution_neighbor(d, u, 1);
        }
        CHECK_NEAR(u, distribution_snap(d, 1), 0);
    }
    AUTO(distribution) struct distribution *n = dist(RANGE("q_normal", "\"q\": 0.5"));
    CHECK_NEAR(distribution_number(n, distribution_neighbor(n, 0.5, 3)), 1.5, 1e-12);
    AUTO(distribution) struct distribution *c = dist(vectors[2].dist);
    CHECK(isnan(distribution_neighbor(c, 0.5, 1)));
}

TEST(weights_decide_how_often_a_value_comes)
{
    AUTO(distribution)
    struct distribution *d =
        dist("{\"values\": [\"a\", \"b\", \"c\", \"d\"], \"probabilities\": [0.2, 0.3, 0.5, 0]}");
    static const char *const want[] = {"a", "b", "c", "c"};
    for (int k = 0; k < 4; k++) {
        AUTO(json) json_t *v = distribution_quantile(d, us[k]);
        CHECK_STR(json_string_value(v), want[k]);
        CHECK_STR(json_string_value(json_array_get(d->values, (size_t)(k < 3 ? k : 2))), want[k]);
    }
    AUTO(json) json_t *first = distribution_quantile(d, 0), *last = distribution_quantile(d, 1);
    CHECK_STR(json_string_value(first), "a");
    CHECK_STR(json_string_value(last), "c");
    CHECK_INT(distribution_count(d), 3); /* d has probability 0 */
}

TEST(ends_are_clamped)
{
    AUTO(distribution) struct distribution *i = dist("{\"min\": 3, \"max\": 7}");
    CHECK_INT(at(i, 0), 3);
    CHECK_INT(at(i, 1), 7);
    AUTO(distribution) struct distribution *c = dist("{\"values\": [1, 2, 3]}");
    CHECK_INT(at(c, 0), 1);
    CHECK_INT(at(c, 1), 3);
    AUTO(distribution) struct distribution *l = dist(vectors[3].dist);
    CHECK(at(l, 0) == 1e-5 && at(l, 1) == 0.1);
    AUTO(distribution)
    struct distribution *n = dist("{\"distribution\": \"log_normal\", \"sigma\": 1000}");
    CHECK(isfinite(at(n, 1)) && at(n, 0) >= 0);
    AUTO(distribution) struct distribution *big = dist("{\"min\": -1.7e308, \"max\": 1.7e308}");
    CHECK(isfinite(at(big, 0.3)));
}

TEST(extreme_shapes_give_finite_values)
{
    static const char *const rows[] = {
        RANGE("normal", "\"sigma\": 1e308"),
        RANGE("q_normal", "\"sigma\": 1e308, \"q\": 1e308"),
        RANGE("log_normal", "\"sigma\": 710"),
        RANGE("q_log_uniform", "\"min\": 0, \"max\": 5, \"q\": 1e-320"),
        RANGE("q_uniform", "\"min\": 0, \"max\": 5, \"q\": 1e308"),
        RANGE("beta", "\"a\": 1e-320, \"b\": 5"),
        RANGE("beta", "\"a\": 1e5, \"b\": 1e-5"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(distribution) struct distribution *d = dist(rows[i]);
        for (int k = 0; k <= 10; k++) {
            AUTO(json) json_t *v = distribution_quantile(d, k / 10.0);
            CHECK(v && isfinite(json_number_value(v)) && !isnan(distribution_unit(d, v)));
        }
    }
}

TEST(beta_holds_its_quantile_for_extreme_shapes)
{
    static const double shapes[] = {0.02, 0.1, 0.5, 1, 3, 50, 2000};
    for (int i = 0; i < 49; i++) {
        AUTO(json)
        json_t *v = json_pack("{s:s, s:f, s:f}", "distribution", "beta", "a", shapes[i % 7], "b",
                              shapes[i / 7]);
        AUTO(free) char *text = json_line(v);
        AUTO(distribution) struct distribution *d = dist(text);
        double before = 0;
        for (int k = 0; k <= 50; k++) {
            double x = at(d, k / 50.0);
            CHECK(x >= before && x <= 1);
            before = x;
        }
    }
}

TEST(a_distribution_is_inferred_as_wandb_does)
{
    static const char *const rows[][2] = {
        {"{\"value\": [1, {}]}", "constant"},         {"{\"values\": [1]}", "categorical"},
        {"{\"min\": 1, \"max\": 10}", "int_uniform"}, {"{\"min\": 1, \"max\": 10.0}", "uniform"},
        {"{\"min\": 0.5, \"max\": 10}", "uniform"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO(distribution) struct distribution *d = dist(rows[i][0]);
        CHECK_STR(d->name, rows[i][1]);
    }
}

TEST(q_written_as_an_integer_gives_integers)
{
    AUTO(distribution)
    struct distribution *w = dist(RANGE("q_uniform", "\"min\": 0, \"max\": 64, \"q\": 8"));
    AUTO(distribution)
    struct distribution *r = dist(RANGE("q_uniform", "\"min\": 0, \"max\": 64, \"q\": 8.0"));
    AUTO(distribution) struct distribution *n = dist(RANGE("q_uniform", "\"min\": 0, \"max\": 64"));
    AUTO(json)
    json_t *vw = distribution_quantile(w, .3), *vr = distribution_quantile(r, .3),
           *vn = distribution_quantile(n, .3);
    CHECK(json_is_integer(vw) && json_is_real(vr) && json_is_real(vn));
    CHECK_INT(json_integer_value(vw), 16);
}

TEST(a_grid_of_q_uniform_leaves_the_end_out)
{
    AUTO(distribution)
    struct distribution *d = dist(RANGE("q_uniform", "\"min\": 0, \"max\": 0.9, \"q\": 0.3"));
    CHECK_INT(distribution_grid_count(d), 3);
    CHECK_INT(distribution_count(d), 4);
    AUTO(json) json_t *last = distribution_grid_value(d, 2);
    CHECK_NEAR(json_number_value(last), 0.6, 1e-12);
    AUTO(json) json_t *end = distribution_value(d, 3);
    CHECK_NEAR(json_number_value(end), 0.9, 1e-12);
    CHECK(distribution_has(d, end, false) && !distribution_has(d, end, true));
    CHECK(distribution_has(d, last, true));
    AUTO(distribution)
    struct distribution *i = dist(RANGE("q_uniform", "\"min\": 1, \"max\": 10, \"q\": 4"));
    AUTO(json) json_t *v = distribution_grid_value(i, 2);
    CHECK(json_is_integer(v));
    CHECK_INT(json_integer_value(v), 9);
}

TEST(equal_values_are_counted_once)
{
    AUTO(distribution)
    struct distribution *d = dist("{\"values\": [3, 3.0, true, 1, {\"b\": 1, \"a\": 2}, "
                                  "{\"a\": 2.0, \"b\": 1}]}");
    CHECK_INT(distribution_count(d), 4);
    CHECK_INT(at(d, 0.3), 3); /* twice as often as the others */
    AUTO(json) json_t *three = json_real(3);
    CHECK_NEAR(distribution_unit(d, three), 1.0 / 6, 1e-12);
    AUTO(json) json_t *none = json_integer(4);
    CHECK(isnan(distribution_unit(d, none)));
}

TEST(values_out_of_the_bounds_have_no_place)
{
    AUTO(distribution) struct distribution *d = dist("{\"min\": 1, \"max\": 10}");
    AUTO(json) json_t *out = json_integer(11), *half = json_real(2.5), *s = json_string("2");
    CHECK(isnan(distribution_unit(d, out)) && isnan(distribution_unit(d, half)) &&
          isnan(distribution_unit(d, s)));
    AUTO(distribution) struct distribution *l = dist(vectors[3].dist);
    AUTO(json) json_t *edge = json_real(1e-5), *below = json_real(9e-6), *minus = json_real(-1);
    CHECK(!isnan(distribution_unit(l, edge)) && isnan(distribution_unit(l, below)) &&
          isnan(distribution_unit(l, minus)));
}

TEST(a_value_that_is_a_multiple_but_for_its_last_digits_becomes_it)
{
    static const struct {
        const char *dist;
        bool grid;
        double written, exact;
    } rows[] = {
        {RANGE("q_uniform", "\"min\": 0, \"max\": 1, \"q\": 0.1"), false, 0.3, 3 * 0.1},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 1, \"q\": 0.1"), false, 0.5, 0.5},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 1, \"q\": 0.1"), false, 0.31, 0.31},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 1, \"q\": 0.1"), false, 0.3 + 1e-14, 0.3 + 1e-14},
        {RANGE("q_uniform", "\"min\": -1, \"max\": 1, \"q\": 0.1"), false, -0.7, -7 * 0.1},
        {RANGE("q_uniform", "\"min\": -1, \"max\": 1, \"q\": 0.1"), true, -0.3, -1 + 7 * 0.1},
        {RANGE("q_uniform", "\"min\": 0.05, \"max\": 1, \"q\": 0.1"), true, 0.3, 0.3},
        {RANGE("q_normal", "\"q\": 0.01"), false, 0.57, 57 * 0.01},
        {RANGE("uniform", "\"min\": 0, \"max\": 1"), false, 0.3, 0.3},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(distribution) struct distribution *d = dist(rows[i].dist);
        AUTO(json) json_t *written = json_real(rows[i].written);
        AUTO(json) json_t *exact = distribution_exact(d, written, rows[i].grid);
        CHECK_NEAR(json_real_value(exact), rows[i].exact, 0);
    }
}

TEST(a_value_from_outside_takes_the_form_of_the_distribution)
{
    static const struct {
        const char *dist;
        bool grid;
        const char *written, *form;
    } rows[] = {
        {RANGE("int_uniform", "\"min\": 1, \"max\": 5"), false, "3.0", "3"},
        {RANGE("int_uniform", "\"min\": 1, \"max\": 5"), true, "3.0", "3"},
        {RANGE("int_log_uniform", "\"min\": 1, \"max\": 500"), false, "32.0", "32"},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 10, \"q\": 2"), false, "4.0", "4"},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 10, \"q\": 2"), true, "4.0", "4"},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 10, \"q\": 2"), true, "10.0", "10"},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 10, \"q\": 2"), false, "3.0", "3"},
        {RANGE("q_uniform", "\"min\": 0, \"max\": 10, \"q\": 2.0"), false, "4", "4"},
        {RANGE("q_normal", "\"mu\": 0, \"sigma\": 9, \"q\": 2"), false, "4.0", "4"},
        {RANGE("uniform", "\"min\": 0, \"max\": 10"), false, "4", "4"},
        {RANGE("log_normal", "\"mu\": 0, \"sigma\": 1"), false, "4", "4"},
        {"{\"values\": [16, 32]}", false, "32.0", "32"},
        {"{\"values\": [1.0, \"1\"]}", false, "1", "1.0"},
        {"{\"values\": [\"1\", 1]}", true, "\"1\"", "\"1\""},
        {"{\"values\": [[64, 64], [32]]}", false, "[64.0,64]", "[64,64]"},
        {"{\"values\": [{\"a\": 1, \"b\": null}]}", false, "{\"b\": null, \"a\": 1.0}",
         "{\"a\":1,\"b\":null}"},
        {"{\"value\": 7}", false, "7.0", "7"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(distribution) struct distribution *d = dist(rows[i].dist);
        AUTO(json) json_t *written = json_loads(rows[i].written, JSON_DECODE_ANY, NULL);
        AUTO(json) json_t *form = distribution_exact(d, written, rows[i].grid);
        AUTO(free) char *line = json_line(form);
        CHECK_STR(line, rows[i].form);
    }
}

TEST(what_makes_no_sense_is_an_error_that_says_why)
{
    static const char *const rows[][3] = {
        {"{\"distribution\": \"log_uniform_value\", \"min\": 1, \"max\": 2}",
         "unknown distribution 'log_uniform_value'", "log_uniform_values"},
        {"{\"min\": 1, \"max\": 1}", "'min' must be less than 'max'", "value: 1"},
        {"{\"min\": 2, \"max\": 1}", "'min' must be less than 'max'", ""},
        {"{\"min\": 1, \"mox\": 2}", "'distribution' is missing", ""},
        {"{\"min\": 1, \"max\": 2, \"q\": 1}", "'distribution' is missing", "q_uniform"},
        {"{\"min\": 1, \"max\": \"x\"}", "'max' must be a number, not a string", ""},
        {"{\"values\": [1], \"min\": 1}", "unknown key 'min'", ""},
        {"{\"values\": []}", "at least one value", ""},
        {"{\"values\": [1, 2], \"probabilities\": [1]}", "a list of 2", ""},
        {"{\"values\": [1, 2], \"probabilities\": [0.5, 0.4]}", "sum to 0.9", ""},
        {"{\"values\": [1, 2], \"probabilities\": [1.5, -0.5]}", "0 or more", ""},
        {RANGE("categorical_w_probabilities", "\"values\": [1]"), "'probabilities' is missing", ""},
        {RANGE("int_uniform", "\"min\": 1, \"max\": 2.5"), "'max' of int_uniform", ""},
        {RANGE("log_uniform_values", "\"min\": 0, \"max\": 2"), "must be above 0", ""},
        {RANGE("log_uniform", "\"min\": 1, \"max\": 1000"), "exponents of e", "_values"},
        {RANGE("normal", "\"sigma\": -1"), "must not be negative", ""},
        {RANGE("beta", "\"a\": 0"), "must be above 0", ""},
        {RANGE("beta", "\"b\": 1e7"), "at most 100000", ""},
        {RANGE("q_normal", "\"q\": 9007199254740993"), "2^53 and above", ""},
        {"{\"min\": 0, \"max\": 9007199254740993}", "2^53 and above", ""},
        {RANGE("q_normal", "\"q\": 0"), "'q' must be above 0", ""},
        {RANGE("constant", "\"values\": 0"), "unknown key 'values'", "value"},
        {"0.1", "must be a mapping, not a real number", "{value: 0.1"},
        {"[1, 2]", "must be a mapping, not a list", "{values: [1,2]}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO(json) json_t *v = json_loads(rows[i][0], JSON_DECODE_ANY, NULL);
        CHECK(v);
        struct config_node n = config_node_of_json(v);
        struct distribution *d = NULL;
        struct err e = {0};
        char **notices = NULL;
        CHECK_INT(distribution_read(&d, &n, &notices, &e), -EINVAL);
        CHECK(!d);
        CHECK_HAS(e.text, rows[i][1]);
        CHECK_HAS(e.hint, rows[i][2]);
    }
}

TEST(exponents_that_look_like_values_are_told)
{
    AUTO(json)
    json_t *v = json_loads(RANGE("log_uniform", "\"min\": 0.0001, \"max\": 0.1"), 0, NULL);
    struct config_node n = config_node_of_json(v);
    AUTO(distribution) struct distribution *d = NULL;
    AUTO(strv) char **notices = NULL;
    CHECK_INT(distribution_read(&d, &n, &notices, NULL), 0);
    CHECK_INT(strv_len(notices), 1);
    CHECK_HAS(notices[0], "1.0001 to 1.10517");
}

TEST(what_was_read_is_written_out_again)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        AUTO(distribution) struct distribution *d = dist(vectors[i].dist);
        AUTO(json) json_t *o = distribution_json(d);
        AUTO(free) char *text = json_line(o);
        AUTO(distribution) struct distribution *again = dist(text);
        CHECK_STR(again->name, d->name);
        CHECK_NEAR(again->a, d->a, 1e-12);
        CHECK_NEAR(again->b, d->b, 1e-12);
        CHECK(again->q == d->q && again->whole == d->whole);
    }
}
