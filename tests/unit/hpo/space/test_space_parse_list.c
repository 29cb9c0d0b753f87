/* space_parse_list: the list form of a space, and conditions in it. */
#include <errno.h>
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "tests/unit/test.h"

static struct space *list(const char *json, struct err *e)
{
    struct err own = {0};
    AUTO(json) json_t *v = json_loads(json, 0, NULL);
    if (!v)
        FAIL("no JSON: %s", json);
    struct config_node n = config_node_of_json(v);
    struct space *s = NULL;
    if (space_read_list(&s, &n, e ? e : &own) < 0 && !e)
        FAIL("%s: %s", own.text, json);
    return s;
}

static const char svm[] =
    "[{\"name\":\"solver\",\"type\":\"cat\",\"choices\":[\"sgd\",\"adam\",\"lbfgs\"]},"
    "{\"name\":\"lr\",\"type\":\"float\",\"low\":1e-5,\"high\":1,\"log\":true,"
    "\"when\":{\"param\":\"solver\",\"in\":[\"sgd\",\"adam\"]}},"
    "{\"name\":\"momentum\",\"type\":\"cat\",\"choices\":[true,false],"
    "\"when\":{\"param\":\"solver\",\"in\":[\"sgd\"]}},"
    "{\"name\":\"nesterov\",\"type\":\"float\",\"low\":0,\"high\":1,"
    "\"when\":{\"param\":\"momentum\",\"in\":[true]}},"
    "{\"name\":\"width\",\"type\":\"int\",\"low\":1,\"high\":1000,\"log\":true}]";

TEST(a_list_gives_its_parameters_in_its_order)
{
    AUTO(space) struct space *s = list(svm, NULL);
    CHECK_INT(space_dims(s), 5);
    CHECK_STR(space_name(s, 0), "solver");
    double u[] = {0.1, 0.5, 0.2, 0.25, 0.9999};
    AUTO(json) json_t *p = space_sample(s, u);
    AUTO(free) char *text = json_line(p);
    CHECK_HAS(text, "{\"solver\":\"sgd\",\"lr\":0.0031622776601683");
    CHECK_HAS(text, ",\"momentum\":true,\"nesterov\":0.25,\"width\":1000}");
    CHECK(json_is_integer(json_object_get(p, "width")));
    CHECK(json_is_real(json_object_get(p, "nesterov")));
}

TEST(a_parameter_whose_condition_fails_is_not_there_nor_what_depends_on_it)
{
    AUTO(space) struct space *s = list(svm, NULL);
    double adam[] = {0.5, 0.5, 0.2, 0.25, 0}, lbfgs[] = {0.9, 0.1, 0.2, 0.25, 0};
    AUTO(json) json_t *p = space_sample(s, adam), *q = space_sample(s, lbfgs);
    CHECK_INT(json_object_size(p), 3);
    CHECK(json_object_get(p, "lr") && !json_object_get(p, "nesterov"));
    AUTO(free) char *text = json_line(q);
    CHECK_STR(text, "{\"solver\":\"lbfgs\",\"width\":1}");
    bool active[5];
    space_snap(s, lbfgs, active);
    CHECK(active[0] && !active[1] && !active[2] && !active[3] && active[4]);
    CHECK(lbfgs[1] == 0.5 && lbfgs[2] == 0.5 && lbfgs[3] == 0.5);
    CHECK_NEAR(lbfgs[0], 5.0 / 6, 1e-15);
}

TEST(a_set_with_what_is_not_active_is_refused_and_the_condition_told)
{
    AUTO(space) struct space *s = list(svm, NULL);
    static const char *const rows[][2] = {
        {"{\"solver\":\"lbfgs\",\"width\":3,\"lr\":0.1}",
         "/lr: 'lr' is not part of this set: it is active only if 'solver' is in "
         "[\"sgd\",\"adam\"]"},
        {"{\"solver\":\"sgd\",\"width\":3,\"lr\":0.1,\"momentum\":false,\"nesterov\":0.5}",
         "only if 'momentum' is in [true]"},
        {"{\"solver\":\"sgd\",\"width\":3,\"lr\":0.1}", "the parameter 'momentum' is missing"},
        {"{\"width\":3,\"lr\":0.1}", "the parameter 'solver' is missing"},
        {"{\"solver\":\"sdg\",\"width\":3,\"lr\":0.1}", "'solver' cannot be \"sdg\""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(json) json_t *in = json_loads(rows[i][0], 0, NULL);
        double u[5];
        struct err e = {0};
        CHECK_INT(space_unit(s, in, u, &e), -EINVAL);
        CHECK_HAS(e.text, rows[i][1]);
    }
}

TEST(integers_on_a_logarithmic_scale_have_cells_of_equal_weight)
{
    AUTO(space)
    struct space *s =
        list("[{\"name\":\"n\",\"type\":\"int\",\"low\":1,\"high\":4,\"log\":true}]", NULL);
    const struct distribution *d = space_distribution(s, 0);
    CHECK_STR(d->name, "int_log_uniform");
    double total = log(4.5 / 0.5), edge = 0;
    for (int v = 1; v <= 4; v++) {
        double end = log((v + 0.5) / 0.5) / total;
        CHECK_NEAR(distribution_number(d, edge + 1e-9), v, 0);
        CHECK_NEAR(distribution_number(d, end - 1e-9), v, 0);
        CHECK_NEAR(distribution_snap(d, end - 1e-9), (edge + end) / 2, 1e-14);
        edge = end;
    }
    CHECK_NEAR(edge, 1, 1e-15);
    CHECK_INT(distribution_count(d), 4);
    CHECK_NEAR(distribution_number(d, distribution_neighbor(d, distribution_neighbor(d, 0, 2), -1)),
               2, 0);
}

TEST(bounds_that_are_equal_make_a_constant)
{
    AUTO(space)
    struct space *s = list("[{\"name\":\"a\",\"type\":\"int\",\"low\":3,\"high\":3},"
                           "{\"name\":\"b\",\"type\":\"float\",\"low\":2,\"high\":2}]",
                           NULL);
    CHECK_INT(space_dims(s), 0);
    CHECK_INT(space_count(s), 1);
    AUTO(json) json_t *p = space_sample(s, NULL), *q = space_point(s, 0);
    AUTO(free) char *text = json_line(p);
    CHECK_STR(text, "{\"a\":3,\"b\":2.0}");
    CHECK(json_equal(p, q));
}

#define X "{\"name\":\"x\",\"type\":\"int\",\"low\":1,\"high\":3}"
#define F "{\"name\":\"f\",\"type\":\"float\",\"low\":1,\"high\":3}"

TEST(what_a_list_cannot_mean_is_an_error_that_names_the_item)
{
    static const char *const rows[][3] = {
        {"[]", "a list of at least one", ""},
        {"{}", "a list of at least one", ""},
        {"[3]", "/0: the 'name' of a parameter is missing", ""},
        {"[{\"name\":\"\",\"type\":\"int\"}]", "'name'", ""},
        {"[" X "," X "]", "parameter 'x': /1: the name is used twice", ""},
        {"[{\"name\":\"x\"}]", "parameter 'x': /0: 'type' is missing", ""},
        {"[{\"name\":\"x\",\"type\":\"flaot\"}]", "unknown parameter type 'flaot'", "float"},
        {"[{\"name\":\"x\",\"type\":3}]", "unknown parameter type 'an integer'",
         "float, int or cat"},
        {"[{\"name\":\"x\",\"type\":\"int\",\"choises\":1}]", "unknown key 'choises'", "choices"},
        {"[{\"name\":\"x\",\"type\":\"int\",\"low\":1}]", "'high' is missing", ""},
        {"[{\"name\":\"x\",\"type\":\"int\",\"low\":1,\"high\":2.5}]", "'high' of an int", ""},
        {"[{\"name\":\"x\",\"type\":\"int\",\"low\":0,\"high\":9007199254740992}]", "2^53", ""},
        {"[{\"name\":\"x\",\"type\":\"float\",\"low\":2,\"high\":1}]",
         "'low' must not be above 'high'", ""},
        {"[{\"name\":\"x\",\"type\":\"float\",\"low\":\"1\",\"high\":2}]",
         "'low' must be a number, not a string", ""},
        {"[{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1,\"log\":true}]",
         "'low' must be above 0", ""},
        {"[{\"name\":\"x\",\"type\":\"int\",\"low\":0,\"high\":1,\"log\":true}]",
         "'low' must be above 0", ""},
        {"[{\"name\":\"x\",\"type\":\"int\",\"low\":0,\"high\":1,\"log\":1}]", "'log' must be", ""},
        {"[{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1,\"choices\":[1]}]",
         "'choices' requires type cat", ""},
        {"[{\"name\":\"x\",\"type\":\"cat\",\"choices\":[]}]", "'choices' must be a list", ""},
        {"[{\"name\":\"x\",\"type\":\"cat\"}]", "'choices' must be a list", ""},
        {"[{\"name\":\"x\",\"type\":\"cat\",\"choices\":[1],\"log\":true}]",
         "'log' is not valid for type cat", ""},
        {"[" X ",{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"z\",\"in\":[1]}}]",
         "parameter 'y': /1/when/param: unknown parameter 'z'", ""},
        {"[" X ",{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"x\",\"in\":[4]}}]",
         "parameter 'y': /1/when/in/0: 'x' never has the value 4", ""},
        {"[" X ",{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"x\",\"in\":2}}]",
         "'in' must be a list", "in: [2]"},
        {"[" X ",{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"x\",\"in\":[]}}]",
         "'in' must be a list", ""},
        {"[" X ",{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":{\"in\":[1]}}]",
         "a condition needs 'param'", "{param"},
        {"[" X ",{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":null}]",
         "a condition must be a mapping", ""},
        {"[" F ",{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"f\",\"in\":[1]}}]",
         "'y' cannot depend on 'f': it is neither categorical nor an integer", ""},
        {"[{\"name\":\"x\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"y\",\"in\":[1]}},"
         "{\"name\":\"y\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"x\",\"in\":[1]}}]",
         "the conditions of 'x' form a cycle", ""},
        {"[{\"name\":\"x\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":"
         "{\"param\":\"x\",\"in\":[1]}}]",
         "the conditions of 'x' form a cycle", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        if (list(rows[i][0], &e))
            FAIL("was read: %s", rows[i][0]);
        CHECK_HAS(e.text, rows[i][1]);
        CHECK_HAS(e.hint, rows[i][2]);
    }
}
