#include "hpo/space/space.h"

#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "common/yaml.h"
#include "hpo/space/distribution.h"
#include "tests/unit/test.h"

static struct space *space(const char *yaml, bool grid, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    struct space *s = NULL;
    AUTO(strv) char **notices = NULL;
    if (yaml_read(&d, yaml, strlen(yaml), "s.yaml", NULL, e) < 0)
        FAIL("%s", yaml);
    struct config_node n = config_node_root(d);
    if (space_read(&s, &n, grid, &notices, e) < 0 && !e)
        FAIL("not read: %s", yaml);
    return s;
}

static const char nested[] = "optimizer:\n"
                             "  parameters:\n"
                             "    momentum: {min: 0.0, max: 1.0}\n"
                             "    lr: {min: 0.0, max: 2.0}\n"
                             "epochs: {value: 27}\n"
                             "act: {values: [relu, tanh]}\n";

TEST(parameters_come_in_alphabetical_order_at_each_level)
{
    AUTO(space) struct space *s = space(nested, false, NULL);
    CHECK_INT(space_dims(s), 3);
    double u[] = {0.9, 0.25, 0.5};
    AUTO(json) json_t *p = space_sample(s, u);
    AUTO(free) char *text = json_line(p);
    CHECK_STR(text, "{\"act\":\"tanh\",\"epochs\":27,\"optimizer\":{\"lr\":0.5,\"momentum\":0.5}}");
    CHECK_STR(space_distribution(s, 0)->name, "categorical");
    CHECK_NEAR(space_distribution(s, 1)->b, 2, 0);
    CHECK_NEAR(space_distribution(s, 2)->b, 1, 0);
}

TEST(a_sample_leads_back_to_its_place)
{
    AUTO(space) struct space *s = space(nested, false, NULL);
    struct rng r;
    rng_seed(&r, 7, 0);
    for (int i = 0; i < 200; i++) {
        double u[3], v[3];
        for (int k = 0; k < 3; k++)
            u[k] = rng_unit(&r);
        AUTO(json) json_t *p = space_sample(s, u);
        CHECK_INT(space_unit(s, p, v, NULL), 0);
        CHECK_NEAR(v[0], u[0] < 0.5 ? 0.25 : 0.75, 1e-12);
        CHECK_NEAR(v[1], u[1], 1e-12);
        CHECK_NEAR(v[2], u[2], 1e-12);
    }
}

TEST(a_grid_counts_with_the_last_name_fastest)
{
    AUTO(space)
    struct space *s = space(
        "b: {values: [x, y]}\n"
        "a: {min: 1, max: 2}\n"
        "c: {parameters: {z: {value: 0}, q: {distribution: q_uniform, min: 0, max: 1, q: 0.5}}}\n",
        true, NULL);
    static const char *const want[] = {
        "{\"a\":1,\"b\":\"x\",\"c\":{\"q\":0.0,\"z\":0}}",
        "{\"a\":1,\"b\":\"x\",\"c\":{\"q\":0.5,\"z\":0}}",
        "{\"a\":1,\"b\":\"y\",\"c\":{\"q\":0.0,\"z\":0}}",
        "{\"a\":1,\"b\":\"y\",\"c\":{\"q\":0.5,\"z\":0}}",
        "{\"a\":2,\"b\":\"x\",\"c\":{\"q\":0.0,\"z\":0}}",
        "{\"a\":2,\"b\":\"x\",\"c\":{\"q\":0.5,\"z\":0}}",
        "{\"a\":2,\"b\":\"y\",\"c\":{\"q\":0.0,\"z\":0}}",
        "{\"a\":2,\"b\":\"y\",\"c\":{\"q\":0.5,\"z\":0}}",
    };
    CHECK_INT(space_count(s), 8);
    for (int i = 0; i < 8; i++) {
        AUTO(json) json_t *p = space_point(s, i);
        AUTO(free) char *text = json_line(p);
        CHECK_STR(text, want[i]);
        CHECK(space_has(s, p));
    }
}

TEST(a_space_with_a_real_parameter_is_not_countable)
{
    AUTO(space) struct space *s = space(nested, false, NULL);
    CHECK(isinf(space_count(s)));
    double u[] = {0, 0, 0};
    AUTO(json) json_t *p = space_sample(s, u);
    CHECK(!space_has(s, p));
}

TEST(grid_refuses_what_has_no_points)
{
    static const char *const bad[] = {
        "x: {min: 0.0, max: 1.0}",
        "x: {distribution: log_uniform_values, min: 1, max: 2}",
        "x: {values: [1, 2], probabilities: [0.5, 0.5]}",
        "x: {distribution: q_normal}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = {0};
        CHECK(!space(bad[i], true, &e));
        CHECK_HAS(e.text, "s.yaml:1:1: method grid has no points for");
    }
    struct err e = {0};
    CHECK(!space("a: {min: 0, max: 1000000000}\nb: {min: 0, max: 1000000000}", true, &e));
    CHECK_HAS(e.text, "more than 2^53 points");
}

TEST(names_are_checked)
{
    struct err e = {0};
    CHECK(!space("9x: {value: 1}", false, &e));
    CHECK_HAS(e.text, "s.yaml:1:1: invalid parameter name '9x'");
    CHECK(!space("a b: {value: 1}", false, &e));
    CHECK(!space("x: {parameters: {y: {min: 2, max: 1}}}", false, &e));
    CHECK_HAS(e.text, "s.yaml:1:22: 'min' must be less");
    CHECK(!space("x: {parameters: {y: {value: 1}}, value: 2}", false, &e));
    CHECK_HAS(e.text, "unknown key 'value' in a group");
    CHECK(!space("{}", false, &e));
}

TEST(a_written_set_is_completed_and_put_in_order)
{
    AUTO(space) struct space *s = space(nested, false, NULL);
    AUTO(json)
    json_t *in =
        json_loads("{\"optimizer\":{\"momentum\":1,\"lr\":0.5},\"act\":\"relu\"}", 0, NULL);
    struct config_node n = config_node_of_json(in);
    AUTO(json) json_t *p = NULL;
    CHECK_INT(space_params(&p, s, &n, NULL), 0);
    AUTO(free) char *text = json_line(p);
    CHECK_STR(text, "{\"act\":\"relu\",\"epochs\":27,\"optimizer\":{\"lr\":0.5,\"momentum\":1}}");
}

TEST(a_written_set_that_does_not_fit_is_refused_by_name)
{
    AUTO(space) struct space *s = space(nested, false, NULL);
    static const char *const rows[][2] = {
        {"{\"act\":\"relu\"}", "the group 'optimizer' is missing"},
        {"{\"act\":\"relu\",\"optimizer\":{\"lr\":1}}", "/optimizer: the parameter 'momentum'"},
        {"{\"act\":\"gelu\",\"optimizer\":{\"lr\":1,\"momentum\":1}}", "'act' cannot be \"gelu\""},
        {"{\"act\":\"relu\",\"epochs\":3,\"optimizer\":{\"lr\":1,\"momentum\":1}}",
         "'epochs' cannot be 3"},
        {"{\"act\":\"relu\",\"optimizer\":{\"lr\":3,\"momentum\":1}}",
         "/optimizer/lr: 'lr' cannot be 3"},
        {"{\"acts\":\"relu\"}", "unknown key 'acts'"},
        {"{\"act\":\"relu\",\"optimizer\":3}", "must be a mapping"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO(json) json_t *in = json_loads(rows[i][0], 0, NULL);
        struct config_node n = config_node_of_json(in);
        json_t *p = NULL;
        double u[3] = {7, 7, 7};
        struct err e = {0};
        CHECK_INT(space_params(&p, s, &n, &e), -EINVAL);
        CHECK(!p);
        CHECK_HAS(e.text, rows[i][1]);
        CHECK_INT(space_unit(s, in, u, NULL), -EINVAL);
        CHECK(u[0] == 7 && u[2] == 7);
    }
}

TEST(a_space_is_written_out_with_every_distribution_named)
{
    AUTO(space) struct space *s = space(nested, false, NULL);
    AUTO(json) json_t *o = space_json(s);
    AUTO(free) char *text = json_line(json_object_get(o, "optimizer"));
    CHECK_STR(text,
              "{\"parameters\":{\"lr\":{\"distribution\":\"uniform\",\"min\":0.0,\"max\":2.0},"
              "\"momentum\":{\"distribution\":\"uniform\",\"min\":0.0,\"max\":1.0}}}");
}
