#include "hpo/samplers/bayes_features.h"

#include "common/rng.h"
#include "hpo/space/distribution.h"
#include "tests/unit/kit_trials.h"

enum { COLS = 16 };

/* The columns of params, as observations have them. */
static void columns_of(const struct bayes_features *b, const char *params, double *x)
{
    AUTO(json) json_t *p = kit_json(params);
    double u[COLS];
    struct err e = {0};
    if (space_unit(b->space, p, u, &e) < 0)
        FAIL("%s", e.text);
    bayes_features_columns(b, u, true, x, 1);
}

static void check_columns(const struct bayes_features *b, const char *params, const double *want)
{
    double x[COLS];
    columns_of(b, params, x);
    for (size_t c = 0; c < b->shape.cols; c++)
        if (fabs(x[c] - want[c]) > 1e-12)
            FAIL("%s: column %zu is %g, expected %g", params, c, x[c], want[c]);
}

TEST(a_number_is_one_column_its_place_in_the_cube)
{
    AUTO(space)
    struct space *s = kit_space("[{'name':'a','type':'float','low':2,'high':4},"
                                "{'name':'b','type':'float','low':0.001,'high':0.1,'log':true},"
                                "{'name':'c','type':'int','low':1,'high':4}]",
                                NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    CHECK_INT(b->shape.cols, 3);
    CHECK_INT(b->shape.groups, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(b->shape.group[i], i);
    CHECK(!b->shape.smooth && !b->dim[0].whole && !b->dim[1].whole && b->dim[2].whole);
    check_columns(b, "{'a':3.5,'b':0.01,'c':2}", (double[]){0.75, 0.5, 0.375});
}

TEST(numbers_in_a_list_stand_by_value_whatever_their_order_in_the_file)
{
    static const char *const orders[] = {"[16,32,64]", "[64,16,32]", "[32,64,16]"};
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        AUTO(free)
        char *list = xasprintf("[{'name':'w','type':'cat','choices':%s}]", orders[i]);
        AUTO(space) struct space *s = kit_space(list, NULL);
        AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
        CHECK(b->dim[0].ordered && !b->shape.smooth);
        CHECK_INT(b->shape.cols, 1);
        check_columns(b, "{'w':16}", (double[]){1.0 / 6});
        check_columns(b, "{'w':32}", (double[]){0.5});
        check_columns(b, "{'w':64}", (double[]){5.0 / 6});
    }
}

TEST(two_values_are_the_ends_of_one_column)
{
    AUTO(space)
    struct space *s = kit_space("[{'name':'t','type':'cat','choices':['adam','sgd']},"
                                "{'name':'n','type':'cat','choices':[64,16]}]",
                                NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    CHECK_INT(b->shape.cols, 2);
    CHECK(!b->dim[0].ordered && !b->dim[1].ordered);
    double x[4][2];
    columns_of(b, "{'t':'adam','n':16}", x[0]);
    columns_of(b, "{'t':'sgd','n':16}", x[1]);
    columns_of(b, "{'t':'sgd','n':64}", x[2]);
    CHECK_NEAR(fabs(x[0][0] - x[1][0]), 1, 0);
    CHECK_NEAR(x[0][1], x[1][1], 0);
    CHECK_NEAR(fabs(x[1][1] - x[2][1]), 1, 0);
}

TEST(three_values_or_more_have_a_column_each_and_are_one_group)
{
    AUTO(space)
    struct space *s = kit_space("[{'name':'a','type':'float','low':0,'high':1},"
                                "{'name':'k','type':'cat','choices':['x','y','z',4]},"
                                "{'name':'z','type':'float','low':0,'high':1}]",
                                NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    static const size_t groups[] = {0, 1, 1, 1, 1, 2};
    CHECK_INT(b->shape.cols, 6);
    CHECK_INT(b->shape.groups, 3);
    for (size_t c = 0; c < 6; c++)
        CHECK_INT(b->shape.group[c], groups[c]);
    check_columns(b, "{'a':0.25,'k':'x','z':0.5}", (double[]){0.25, 1, 0, 0, 0, 0.5});
    check_columns(b, "{'a':0.25,'k':'z','z':0.5}", (double[]){0.25, 0, 0, 1, 0, 0.5});
    check_columns(b, "{'a':0.25,'k':4,'z':0.5}", (double[]){0.25, 0, 0, 0, 1, 0.5});
}

static const char conditional[] =
    "[{'name':'m','type':'cat','choices':['svm','forest','knn']},"
    "{'name':'c','type':'float','low':0,'high':1,'when':{'param':'m','in':['svm']}},"
    "{'name':'d','type':'int','low':1,'high':9,'when':{'param':'m','in':['forest']}},"
    "{'name':'k','type':'cat','choices':['a','b'],'when':{'param':'m','in':['svm']}},"
    "{'name':'o','type':'cat','choices':[1,2,3],'when':{'param':'m','in':['svm']}},"
    "{'name':'r','type':'cat','choices':['p','q','r'],'when':{'param':'m','in':['svm']}}]";

TEST(what_is_inactive_stands_in_the_middle)
{
    AUTO(space) struct space *s = kit_space(conditional, NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    CHECK_INT(b->shape.cols, 3 + 1 + 1 + 1 + 1 + 3);
    check_columns(b, "{'m':'knn'}", (double[]){0, 0, 1, 0.5, 0.5, 0.5, 0.5, 0, 0, 0});
    check_columns(b, "{'m':'forest','d':1}", (double[]){0, 1, 0, 0.5, 1.0 / 18, 0.5, 0.5, 0, 0, 0});
    check_columns(b, "{'m':'svm','c':0.125,'k':'b','o':3,'r':'q'}",
                  (double[]){1, 0, 0, 0.125, 0.5, 1, 5.0 / 6, 0, 1, 0});
}

TEST(inactive_numbers_do_not_move_the_columns_exact_or_not)
{
    AUTO(space) struct space *s = kit_space(conditional, NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    struct rng r;
    rng_seed(&r, 1, 0);
    AUTO(json) json_t *knn = kit_json("{'m':'knn'}");
    double knn_u[6];
    struct err e = {0};
    CHECK_INT(space_unit(s, knn, knn_u, &e), 0);
    for (int i = 0; i < 50; i++) {
        double u[6] = {knn_u[0]}, x[COLS];
        for (int k = 1; k < 6; k++)
            u[k] = rng_unit(&r);
        bayes_features_columns(b, u, i % 2, x, 1);
        for (size_t c = 3; c < 10; c++)
            CHECK_NEAR(x[c], c < 7 ? 0.5 : 0, 0);
    }
}

TEST(exact_columns_are_those_of_the_value_and_the_others_move_with_u)
{
    AUTO(space)
    struct space *s = kit_space("{'q':{'distribution':'q_uniform','min':0,'max':10,'q':2.5},"
                                "'i':{'min':1,'max':4},'x':{'min':0.0,'max':1.0}}",
                                NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    size_t q = 1, i = 0, x = 2; /* by their names */
    CHECK(b->dim[q].whole && b->dim[i].whole && !b->dim[x].whole && !b->shape.smooth);
    double u[3], exact[3], near[3], settled[3];
    u[q] = 0.33;
    u[i] = 0.3;
    u[x] = 0.7;
    bayes_features_columns(b, u, true, exact, 1);
    bayes_features_columns(b, u, false, near, 1);
    for (size_t k = 0; k < 3; k++) {
        settled[k] = distribution_snap(space_distribution(s, k), u[k]);
        CHECK_NEAR(exact[k], settled[k], 0);
        CHECK_NEAR(near[k], u[k], 0);
    }
    CHECK_NEAR(exact[i], 0.375, 1e-12); /* 2 of 1 … 4 */
    CHECK(exact[q] != u[q] && exact[x] == u[x]);
}

TEST(equal_points_have_equal_columns_wherever_they_come_from)
{
    AUTO(space) struct space *s = kit_space(conditional, NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    struct rng r;
    rng_seed(&r, 2, 0);
    for (int i = 0; i < 300; i++) {
        double u[6], back[6], x[2][COLS];
        struct err e = {0};
        for (int k = 0; k < 6; k++)
            u[k] = rng_unit(&r);
        AUTO(json) json_t *p = space_sample(s, u);
        if (space_unit(s, p, back, &e) < 0)
            FAIL("%s", e.text);
        bayes_features_columns(b, u, true, x[0], 1);
        bayes_features_columns(b, back, true, x[1], 1);
        for (size_t c = 0; c < b->shape.cols; c++)
            CHECK_NEAR(x[0][c], x[1][c], 1e-15);
    }
}

TEST(columns_go_to_a_row_of_a_wider_matrix)
{
    AUTO(space) struct space *s = kit_space(conditional, NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    double u[6] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, x[COLS], wide[COLS * 5];
    for (size_t i = 0; i < COLS * 5; i++)
        wide[i] = -7;
    bayes_features_columns(b, u, true, x, 1);
    bayes_features_columns(b, u, true, wide + 3, 5);
    for (size_t i = 0; i < COLS * 5; i++)
        CHECK_NEAR(wide[i], i % 5 == 3 && i / 5 < b->shape.cols ? x[i / 5] : -7, 0);
}

TEST(a_space_of_plain_numbers_is_smooth)
{
    AUTO(space)
    struct space *s = kit_space("[{'name':'a','type':'float','low':2,'high':4},"
                                "{'name':'c','type':'int','low':3,'high':3}]",
                                NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    CHECK_INT(b->dims, 1); /* a constant has no coordinate */
    CHECK(b->shape.smooth);
}

TEST(the_value_at_u_is_the_one_that_a_sample_there_has)
{
    AUTO(space)
    struct space *s = kit_space("[{'name':'a','type':'cat','choices':['x','y','z','w','v']},"
                                "{'name':'b','type':'cat','choices':[3,1,2]}]",
                                NULL);
    AUTO(bayes_features) struct bayes_features *b = bayes_features_new(s);
    static const char *const names[] = {"x", "y", "z", "w", "v"};
    for (int i = 0; i <= 200; i++) {
        double u[2] = {i / 200.0 * 0.999 + 0.0003, 1 - i / 200.0 * 0.999 - 0.0003};
        AUTO(json) json_t *p = space_sample(s, u);
        CHECK_STR(kit_text(p, "a"), names[bayes_features_value(b, 0, u[0])]);
        CHECK_INT(kit_number(p, "b"), bayes_features_value(b, 1, u[1]) + 1);
    }
}
