/* space: points, coordinates and counts of spaces with conditions and constraints; random spaces
 * are compared with counting one by one. */
#include <errno.h>
#include <math.h>
#include <time.h>

#include "common/json.h"
#include "common/rng.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "tests/unit/test.h"

static struct space *of_yaml(const char *yaml, bool grid, struct err *e)
{
    struct err own = {0}, *why = e ? e : &own;
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    AUTO(space) struct space *s = NULL;
    AUTO(strv) char **notices = NULL;
    if (yaml_read(&d, yaml, strlen(yaml), "s.yaml", NULL, why) < 0)
        FAIL("%s: %s", why->text, yaml);
    struct config_node root = config_node_root(d),
                       parameters = config_node_member(&root, "parameters");
    struct config_node when = config_node_member(&root, "when"),
                       list = config_node_member(&root, "constraints");
    if (space_read(&s, &parameters, grid, &notices, why) < 0 ||
        (when.value && space_add_conditions(s, &when, why) < 0) ||
        (list.value && space_add_constraints(s, &list, why) < 0)) {
        if (!e)
            FAIL("%s: %s", why->text, yaml);
        return NULL;
    }
    return TAKE(s);
}

static char *sample_line(const struct space *s, const double *u)
{
    AUTO(json) json_t *p = space_sample(s, u);
    return json_line(p);
}

static const char net[] =
    "parameters:\n"
    "  layers: {min: 1, max: 4}\n"
    "  optimizer:\n"
    "    parameters:\n"
    "      kind: {values: [sgd, adam]}\n"
    "      sgd: {parameters: {momentum: {values: [0.8, 0.9]}, nesterov: {values: [true, false]}}}\n"
    "      beta: {values: [1, 2, 3]}\n"
    "  width: {distribution: q_uniform, min: 8, max: 32, q: 8}\n"
    "when:\n"
    "  optimizer.beta: {param: optimizer.kind, in: [adam]}\n"
    "  optimizer.sgd: [{param: optimizer.kind, in: [sgd]}, {param: layers, in: [2, 3, 4]}]\n"
    "  optimizer.sgd.nesterov: {param: optimizer.sgd.momentum, in: [0.9]}\n";

TEST(a_group_without_active_parameters_is_not_there)
{
    AUTO(space) struct space *s = of_yaml(net, false, NULL);
    CHECK_INT(space_dims(s), 6);
    CHECK_STR(space_name(s, 0), "layers");
    CHECK_STR(space_name(s, 3), "optimizer.sgd.momentum");
    double one[] = {0.1, 0, 0, 0, 0, 0}, many[] = {0.9, 0, 0, 0.9, 0, 0},
           adam[] = {0, 1, 1, 0, 0, 0};
    AUTO(free) char *a = sample_line(s, one), *b = sample_line(s, many), *c = sample_line(s, adam);
    CHECK_STR(a, "{\"layers\":1,\"optimizer\":{\"kind\":\"sgd\"},\"width\":8}");
    CHECK_STR(b, "{\"layers\":4,\"optimizer\":{\"kind\":\"sgd\",\"sgd\":{\"momentum\":0.9,"
                 "\"nesterov\":true}},\"width\":8}");
    CHECK_STR(c, "{\"layers\":1,\"optimizer\":{\"beta\":3,\"kind\":\"adam\"},\"width\":8}");
}

/* kind sgd: 1 layer, or 3 others with momentum .8, or .9 and two values of nesterov; adam: 4
 * layers, 3 betas. Four widths, the last of which is not in the grid. */
TEST(each_active_configuration_counts_once)
{
    for (int grid = 0; grid < 2; grid++) {
        AUTO(space) struct space *s = of_yaml(net, grid, NULL);
        CHECK_INT(space_count(s), (1 + 3 * 3 + 4 * 3) * (grid ? 3 : 4));
        AUTO(json) json_t *seen = json_object();
        for (int i = 0; i < (int)space_count(s); i++) {
            AUTO(json) json_t *p = space_point(s, i);
            AUTO(free) char *key = distribution_key(p);
            CHECK(space_has(s, p) && !json_object_get(seen, key));
            json_object_set_new(seen, key, json_null());
        }
    }
}

TEST(huge_spaces_with_conditions_are_counted_without_being_listed)
{
    AUTO(space)
    struct space *s = of_yaml("parameters:\n"
                              "  a: {min: 1, max: 1000000}\n"
                              "  b: {min: 1, max: 1000000}\n"
                              "  c: {values: [x, y, z]}\n"
                              "when:\n"
                              "  b: [{param: c, in: [x]}, {param: a, in: [3, 5, 999999]}]\n",
                              true, NULL);
    double want = 2e6 + (1e6 - 3) + 3e6;
    CHECK_NEAR(space_count(s), want, 0);
    AUTO(json) json_t *seen = json_object();
    for (double i = 0; i < want; i += 997) {
        AUTO(json) json_t *p = space_point(s, i);
        AUTO(free) char *key = distribution_key(p);
        CHECK(space_has(s, p) && !json_object_get(seen, key));
        json_object_set_new(seen, key, json_null());
    }
    AUTO(json) json_t *last = space_point(s, want - 1);
    CHECK(space_has(s, last));
}

/* 2^64 sets of active pairs. */
TEST(independent_conditions_do_not_multiply_the_work)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "parameters:\n");
    for (int i = 0; i < 64; i++)
        strbuf_printf(&b, "  p%d: {values: [0, 1]}\n  q%d: {values: [0, 1, 2]}\n", i, i);
    strbuf_puts(&b, "when:\n");
    for (int i = 0; i < 64; i++)
        strbuf_printf(&b, "  q%d: {param: p%d, in: [1]}\n", i, i);
    AUTO(space) struct space *s = of_yaml(strbuf_str(&b), false, NULL);
    CHECK(isinf(space_count(s))); /* 4^64 */
    double u[128] = {0};
    AUTO(json) json_t *p = space_sample(s, u);
    CHECK_INT(json_object_size(p), 64);
}

/* ---- spaces made by chance ------------------------------------------------------------------ */

enum { PARAMS_MAX = 7 };

/* A random list of parameters that may depend on earlier ones. */
static json_t *random_list(struct rng *r, bool countable)
{
    json_t *list = json_array();
    size_t n = 1 + rng_below(r, PARAMS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = rng_below(r, countable ? 3 : 5), size = 1 + rng_below(r, 3);
        json_t *item = json_pack("{s:o}", "name", json_sprintf("p%zu", i));
        if (kind == 0)
            json_object_update_new(
                item, json_pack("{s:s, s:[i,s,b]}", "type", "cat", "choices", 1, "two", 1));
        else
            json_object_update_new(item, json_pack("{s:s, s:i, s:i, s:b}", "type",
                                                   kind < 3 ? "int" : "float", "low", 1, "high",
                                                   (int)size, "log", (int)(kind % 2)));
        json_t *conds = json_array();
        for (size_t k = rng_below(r, 3); i > 0 && k > 0; k--) {
            size_t on = rng_below(r, i);
            const json_t *parent = json_array_get(list, on);
            if (json_string_value(json_object_get(parent, "type"))[0] != 'f')
                json_array_append_new(
                    conds, json_pack("{s:o, s:[i]}", "param", json_sprintf("p%zu", on), "in", 1));
        }
        if (json_array_size(conds))
            json_object_set(item, "when", conds);
        json_decref(conds);
        json_array_append_new(list, item);
    }
    return list;
}

static struct space *of_list(const json_t *list, const json_t *constraints)
{
    struct config_node n = config_node_of_json(list), c = config_node_of_json(constraints);
    AUTO(space) struct space *s = NULL;
    struct err e = {0};
    AUTO(free) char *text = json_line(list);
    if (space_read_list(&s, &n, &e) < 0)
        FAIL("%s: %s", e.text, text);
    if (constraints && space_add_constraints(s, &c, &e) < 0)
        return NULL;
    return TAKE(s);
}

static void check_place(const struct space *s, double *u)
{
    size_t dims = space_dims(s);
    double back[PARAMS_MAX];
    bool active[PARAMS_MAX];
    struct err e = {0};
    AUTO(json) json_t *p = space_sample(s, u);
    space_snap(s, u, active);
    if (space_unit(s, p, back, &e) < 0)
        FAIL("%s", e.text);
    AUTO(json) json_t *again = space_sample(s, u);
    for (size_t i = 0; i < dims; i++) {
        CHECK_NEAR(back[i], u[i], 1e-12);
        CHECK(active[i] == (json_object_get(p, space_name(s, i)) != NULL));
        CHECK(active[i] || u[i] == 0.5);
        CHECK(!active[i] || space_distribution(s, i)->kind >= DISTRIBUTION_UNIFORM ||
              json_equal(json_object_get(p, space_name(s, i)),
                         json_object_get(again, space_name(s, i))));
    }
    CHECK_INT(json_object_size(p), json_object_size(again));
}

TEST(a_point_of_any_space_settles_where_its_parameters_lead_back)
{
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct rng r;
        rng_seed(&r, seed, 0);
        AUTO(json) json_t *list = random_list(&r, false);
        AUTO(space) struct space *s = of_list(list, NULL);
        for (int k = 0; k < 20; k++) {
            double u[PARAMS_MAX];
            for (size_t i = 0; i < PARAMS_MAX; i++)
                u[i] = k < 2 ? k : rng_unit(&r);
            check_place(s, u);
        }
    }
}

/* All different parameter sets, from all combinations of values. */
static json_t *all_points(const struct space *s)
{
    json_t *seen = json_object();
    size_t dims = space_dims(s), at[PARAMS_MAX] = {0}, i = 0;
    double u[PARAMS_MAX];
    do {
        for (i = 0; i < dims; i++)
            u[i] = distribution_neighbor(space_distribution(s, i), 0, (int)at[i]);
        AUTO(json) json_t *p = space_sample(s, u);
        AUTO(free) char *key = distribution_key(p);
        if (space_allows(s, u))
            json_object_set_new(seen, key, json_null());
        for (i = 0; i < dims && ++at[i] == (size_t)distribution_count(space_distribution(s, i));
             i++)
            at[i] = 0;
    } while (i < dims);
    return seen;
}

TEST(a_countable_space_has_exactly_the_points_that_its_places_give)
{
    int constrained = 0, empty = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct rng r;
        rng_seed(&r, seed, 1);
        AUTO(json) json_t *list = random_list(&r, true);
        size_t n = json_array_size(list);
        AUTO(json)
        json_t *rules =
            json_pack("[o]", json_sprintf("p%d == p%d or p%d != 1", (int)rng_below(&r, n),
                                          (int)rng_below(&r, n), (int)rng_below(&r, n)));
        bool with = rng_below(&r, 2) != 0;
        AUTO(space) struct space *s = of_list(list, with ? rules : NULL);
        constrained += with && s;
        empty += !s;
        if (!s)
            continue;
        AUTO(json) json_t *want = all_points(s), *got = json_object();
        if (space_count(s) != (double)json_object_size(want))
            FAIL("seed %d: %.0f points, not %zu", (int)seed, space_count(s),
                 json_object_size(want));
        for (int i = 0; i < (int)space_count(s); i++) {
            AUTO(json) json_t *p = space_point(s, i);
            AUTO(free) char *key = distribution_key(p);
            CHECK(space_has(s, p));
            json_object_set_new(got, key, json_null());
        }
        CHECK(json_equal(want, got));
    }
    printf("# %d with constraints, %d refused (nothing left, or types)\n", constrained, empty);
    CHECK(constrained > 50);
}

/* ---- constraints ---------------------------------------------------------------------------- */

static const char limited[] =
    "parameters:\n"
    "  layers: {min: 1, max: 64}\n"
    "  width: {distribution: q_log_uniform_values, min: 16, max: 2048, q: 16}\n"
    "  optimizer: {parameters: {lr: {distribution: log_uniform_values, min: 1e-5, max: 1}, "
    "kind: {values: [sgd, adam]}, momentum: {min: 0.0, max: 1.0}}}\n"
    "  weight-decay: {distribution: normal, mu: 0, sigma: 1}\n"
    "when: {optimizer.momentum: {param: optimizer.kind, in: [sgd]}}\n"
    "constraints:\n"
    "  - layers * width <= 4096\n"
    "  - optimizer.kind == 'adam' or optimizer.lr < 0.1\n"
    "  - 0.1 < optimizer.momentum < 0.3\n"
    "  - -1 <= `weight-decay` <= 1\n";

static bool meets(const json_t *p)
{
    const json_t *o = json_object_get(p, "optimizer"), *m = json_object_get(o, "momentum");
    double area = json_number_value(json_object_get(p, "layers")) *
                  json_number_value(json_object_get(p, "width"));
    bool adam = strcmp(json_string_value(json_object_get(o, "kind")), "adam") == 0;
    double lr = json_number_value(json_object_get(o, "lr")), x = json_number_value(m);
    return area <= 4096 && (adam || lr < 0.1) && (!m || (x > 0.1 && x < 0.3)) && adam == !m &&
           fabs(json_number_value(json_object_get(p, "weight-decay"))) <= 1;
}

TEST(drawn_points_meet_all_constraints_and_settled_ones_still_do)
{
    AUTO(space) struct space *s = of_yaml(limited, false, NULL);
    struct rng r;
    rng_seed(&r, 3, 0);
    int refused = 0;
    for (int i = 0; i < 10000; i++) {
        double u[6], any[6];
        space_draw(s, &r, u);
        AUTO(json) json_t *p = space_sample(s, u);
        CHECK(meets(p));
        space_snap(s, u, NULL);
        CHECK(space_allows(s, u));
        for (int k = 0; k < 6; k++)
            any[k] = rng_unit(&r);
        AUTO(json) json_t *q = space_sample(s, any);
        CHECK(space_allows(s, any) == meets(q));
        refused += !meets(q);
    }
    CHECK(refused > 3000);
}

TEST(a_part_too_small_to_be_hit_is_reached_from_a_point_that_is_known)
{
    AUTO(space)
    struct space *s = of_yaml("parameters:\n  x: {min: 0.0, max: 1.0}\n  y: {min: 0.0, max: 1.0}\n"
                              "constraints: [abs(x - y) < 1e-4, abs(x - 0.5) < 0.05]\n",
                              false, NULL);
    struct rng r;
    rng_seed(&r, 3, 0);
    for (int i = 0; i < 20; i++) {
        double u[2];
        space_draw(s, &r, u);
        CHECK(fabs(u[0] - u[1]) < 1e-4 && fabs(u[0] - 0.5) < 0.05);
    }
}

TEST(a_written_set_has_to_meet_the_constraints)
{
    AUTO(space) struct space *s = of_yaml(limited, false, NULL);
    AUTO(json)
    json_t *in = json_pack("{s:i, s:i, s:{s:f, s:s}, s:f}", "layers", 64, "width", 2048,
                           "optimizer", "lr", 0.5, "kind", "adam", "weight-decay", 0.5);
    struct config_node n = config_node_of_json(in);
    json_t *out = NULL;
    struct err e = {0};
    double u[6];
    CHECK_INT(space_params(&out, s, &n, &e), -EINVAL);
    CHECK_HAS(e.text, "this set violates the constraint 'layers * width <= 4096'");
    CHECK_INT(space_unit(s, in, u, &e),
              0); /* a set that is not in the grid has coordinates even so */
    CHECK(!space_allows(s, u));
}

/* 3 * 0.1 is 0.30000000000000004. */
TEST(a_written_multiple_of_q_gets_all_its_digits_unless_a_constraint_holds_for_it_alone)
{
    static const struct {
        const char *rule;
        double x;
    } rows[] = {{"x < 2", 3 * 0.1}, {"x <= 0.3", 0.3}, {"x > 0.3", 3 * 0.1}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(free)
        char *yaml =
            xasprintf("parameters: {x: {distribution: q_uniform, min: 0, max: 1, q: 0.1}}\n"
                      "constraints: ['%s']\n",
                      rows[i].rule);
        AUTO(space) struct space *s = of_yaml(yaml, false, NULL);
        AUTO(json) json_t *in = json_pack("{s:f}", "x", 0.3), *out = NULL;
        struct config_node n = config_node_of_json(in);
        CHECK_INT(space_params(&out, s, &n, NULL), 0);
        CHECK_NEAR(json_real_value(json_object_get(out, "x")), rows[i].x, 0);
    }
}

/* The set is written as it is, since only 0.3 satisfies the constraint; k is an integer even so. */
TEST(a_set_has_the_form_of_the_space_also_if_its_numbers_stay_as_written)
{
    static const char yaml[] =
        "parameters: {k: {min: 1, max: 9}, x: {distribution: q_uniform, min: 0, max: 1, q: 0.1}}\n"
        "constraints: ['x <= 0.3']\n";
    AUTO(space) struct space *s = of_yaml(yaml, false, NULL);
    AUTO(json) json_t *in = json_pack("{s:f, s:f}", "k", 3.0, "x", 0.3), *out = NULL;
    struct config_node n = config_node_of_json(in);
    CHECK_INT(space_params(&out, s, &n, NULL), 0);
    AUTO(free) char *line = json_line(out);
    CHECK_STR(line, "{\"k\":3,\"x\":0.3}");
}

#define PARAMS "parameters: {a: {min: 1, max: 9}, f: {min: 0.0, max: 1.0}}\n"

TEST(conditions_and_constraints_that_make_no_sense_are_refused_with_their_place)
{
    static const char *const rows[][3] = {
        {PARAMS "when: [1]\n", "s.yaml:2:1: 'when' must be a mapping", "when: {"},
        {PARAMS "when: {b: {param: a, in: [1]}}\n", "s.yaml:2:8: unknown parameter 'b'", ""},
        {PARAMS "when: {f: {param: a, in: [0]}}\n", "s.yaml:2:27: 'a' never has the value 0", ""},
        {PARAMS "when: {a: {param: f, in: [0]}}\n", "'a' cannot depend on 'f'", ""},
        {PARAMS "when: {f: {param: a, on: [1]}}\n", "unknown key 'on'", "in"},
        {PARAMS "when: {a: {param: a, in: [1]}}\n", "conditions of 'a' form a cycle", ""},
        {PARAMS "constraints: a > 1\n", "s.yaml:2:1: 'constraints' must be a list", "["},
        {PARAMS "constraints: [1]\n", "s.yaml:2:15: a constraint must be a string", ""},
        {PARAMS "constraints: [a > 1, f > aa]\n",
         "s.yaml:2:22: constraint 'f > aa': 1:5: unknown parameter 'aa'", "a"},
        {PARAMS "constraints: [a > 1, a < 9, a + f > 100]\n",
         "s.yaml:2:29: found no point that satisfies the constraints; 'a + f > 100' fails most",
         ""},
        {"parameters: {a: {min: 1, max: 9}}\nconstraints: [a > 8, a < 9]\n",
         "'a > 8' fails most often: at 8 of 9", ""},
        {"parameters: {a.b: {value: 1}, a: {parameters: {b: {value: 1}}}}\n"
         "constraints: [a.b == 1]\nwhen: {a.b: {param: a.b, in: [1]}}\n",
         "'a.b' is ambiguous: several parameters have this name", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        if (of_yaml(rows[i][0], false, &e))
            FAIL("was read: %s", rows[i][0]);
        CHECK_HAS(e.text, rows[i][1]);
        CHECK_HAS(e.hint, rows[i][2]);
    }
}

/* 40 dimensions of all kinds: the cost of the inner loop of a sampler. The bound fails only if
 * it is wrong by an order of magnitude, also with sanitizers and on a busy machine. */
TEST(settling_and_testing_a_point_is_cheap)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "parameters:\n  c: {values: [a, b, c]}\n");
    for (int i = 0; i < 13; i++)
        strbuf_printf(
            &b,
            "  i%02d: {min: 1, max: 100}\n  f%02d: {distribution: log_uniform_values, min: "
            "1e-5, max: 1}\n  q%02d: {distribution: q_uniform, min: 0, max: 1, q: 0.1}\n",
            i, i, i);
    strbuf_puts(&b, "when: {f00: {param: c, in: [a, b]}}\nconstraints: [i00 * i01 <= 4096]\n");
    AUTO(space) struct space *s = of_yaml(strbuf_str(&b), false, NULL);
    struct rng r;
    rng_seed(&r, 3, 0);
    double u[40], sum = 0;
    clock_t start = clock();
    for (int k = 0; k < 5000; k++) {
        for (int i = 0; i < 40; i++)
            u[i] = rng_unit(&r);
        space_snap(s, u, NULL);
        sum += u[7];
    }
    double settle_ns = (double)(clock() - start) / CLOCKS_PER_SEC / 5000 / 40 * 1e9;
    start = clock();
    for (int k = 0; k < 100000; k++) {
        u[1 + k % 39] = (double)(k % 97) / 97;
        sum += space_allows(s, u);
    }
    double allow_ns = (double)(clock() - start) / CLOCKS_PER_SEC / 100000 * 1e9;
    printf("# %.0f ns a dimension, %.0f ns a constraint (%g)\n", settle_ns, allow_ns, sum);
    CHECK_TIME(settle_ns < 2000 && allow_ns < 20000);
}
