/* test_model_shape - defaults and limits of a shape, and numbers of parameters as users write
 * them. */
#include "launcher/estimate/model_shape.h"

#include "tests/unit/test.h"

static const struct model_shape small = {.layers = 2, .hidden = 8, .heads = 2, .vocab = 10};

TEST(zeros_become_the_usual_defaults)
{
    struct model_shape m = small;
    CHECK_INT(model_shape_complete(&m, NULL), 0);
    CHECK_INT(m.head_dim, 4);
    CHECK_INT(m.kv_heads, 2);
    CHECK_INT(m.intermediate, 32);
    CHECK_INT(m.norms, 2);
    /* Two matrices of 8 x 32, four of 8 x 8, two norms of 8. */
    CHECK_INT(model_shape_layer_params(&m), 2 * 256 + 4 * 64 + 2 * 8);
    /* Embedding and output of 10 x 8, one norm. */
    CHECK_INT(m.params, 2 * 784 + 80 + 80 + 8);
    CHECK_INT(m.largest_layer, 784);
}

TEST(a_large_vocabulary_is_the_largest_layer)
{
    struct model_shape m = small;
    m.vocab = 1000;
    CHECK_INT(model_shape_complete(&m, NULL), 0);
    CHECK_INT(m.largest_layer, 8000);
}

TEST(experts_have_a_router_and_a_matrix_each)
{
    struct model_shape one = small, eight = small;
    eight.experts = 8;
    CHECK_INT(model_shape_complete(&one, NULL), 0);
    CHECK_INT(model_shape_complete(&eight, NULL), 0);
    CHECK_INT(eight.experts_per_token, 1);
    CHECK_INT(model_shape_layer_params(&eight) - model_shape_layer_params(&one), 7 * 512 + 64);
}

TEST(fields_that_do_not_fit_are_named)
{
    static const struct {
        struct model_shape m;
        int code;
        const char *says;
    } cases[] = {
        {{.hidden = 8, .heads = 2, .vocab = 10}, -EINVAL, "layers: missing"},
        {{.layers = 2, .hidden = 8, .heads = 3, .vocab = 10},
         -EINVAL,
         "hidden size 8: not a multiple of 3 heads"},
        {{.layers = 2, .hidden = 8, .heads = 4, .kv_heads = 3, .vocab = 10},
         -EINVAL,
         "4 heads: not a multiple of 3 key-value heads"},
        {{.layers = -1, .hidden = 8, .heads = 2, .vocab = 10}, -ERANGE, "layers: -1"},
        {{.layers = 2, .hidden = 1 << 21, .heads = 2, .vocab = 10}, -ERANGE, "hidden size"},
        {{.layers = 2, .hidden = 1 << 20, .heads = 2, .vocab = 10}, -ERANGE, "intermediate size"},
        {{.layers = 2, .hidden = 8, .heads = 1 << 11, .head_dim = 1 << 10, .vocab = 1},
         -ERANGE,
         "2048 heads of 1024"},
        {{.layers = 2, .hidden = 8, .heads = 2, .vocab = 10, .experts = 2, .experts_per_token = 3},
         -EINVAL,
         "3 experts per token"},
        {{.layers = 10000, .hidden = 1 << 18, .heads = 1, .vocab = 1, .experts = 1 << 16},
         -ERANGE,
         "model: more than"},
        {{.kind = MODEL_PARAMS_ONLY}, -ERANGE, "parameters: 0"},
        {{.kind = MODEL_PARAMS_ONLY, .params = 5, .largest_layer = 6}, -ERANGE, "largest layer: 6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_shape m = cases[i].m;
        struct err e = {0};
        CHECK_INT(model_shape_complete(&m, &e), cases[i].code);
        CHECK_HAS(e.text, cases[i].says);
        CHECK(memcmp(&m, &cases[i].m, sizeof m) == 0); /* unchanged */
    }
}

TEST(numbers_of_parameters_have_powers_of_1000)
{
    static const struct {
        const char *text;
        int64_t params;
    } good[] = {{"7B", 7000000000},      {"2851e6", 2851000000}, {"350m", 350000000},
                {"1.5T", 1500000000000}, {"120576", 120576},     {"1000T", 1000000000000000}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t n = 0;
        CHECK_INT(model_shape_parse_params(&n, good[i].text, NULL), 0);
        CHECK_INT(n, good[i].params);
    }
    static const char *const bad[] = {"",   "B",   "7BB", "7GiB", "0",
                                      "-1", "nan", "inf", "1e99", "7 B"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t n = 7;
        CHECK(model_shape_parse_params(&n, bad[i], NULL) < 0);
        CHECK_INT(n, 7);
    }
}
