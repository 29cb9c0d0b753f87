/* test_model_keys - a field under each of its names, and what cannot be counted. */
#include "launcher/estimate/model_keys.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/test.h"

static json_t *object(const char *text)
{
    json_t *c = NULL;
    CHECK_INT(json_parse(&c, text, strlen(text), NULL), 0);
    return c;
}

TEST(a_field_has_several_names_and_the_first_one_counts)
{
    AUTO(json)
    json_t *c = object("{\"n_layer\": 3, \"d_model\": 8, \"num_heads\": 2, \"decoder_layers\": 5,"
                       " \"num_key_value_heads\": null, \"attention_bias\": true}");
    struct model_shape m = {.kv_heads = 7};
    CHECK_INT(model_keys_read(&m, c, NULL), 0);
    CHECK_INT(m.layers, 5);
    CHECK_INT(m.hidden, 8);
    CHECK_INT(m.heads, 2);
    CHECK_INT(m.kv_heads, 7);
    CHECK(m.qkv_bias && m.out_bias && !m.mlp_bias);
}

TEST(parts_of_a_layer_may_have_a_configuration_of_their_own)
{
    AUTO(json)
    json_t *c =
        object("{\"n_embed\": 64, \"attention_heads\": 4, \"attn_config\": {\"kv_n_heads\": 2},"
               " \"ffn_config\": {\"ffn_hidden_size\": 96, \"moe_num_experts\": 16,"
               " \"moe_top_k\": 4}, \"moe_num_shared_experts\": 2}");
    struct model_shape m = {0};
    CHECK_INT(model_keys_read(&m, c, NULL), 0);
    CHECK_INT(m.hidden, 64);
    CHECK_INT(m.heads, 4);
    CHECK_INT(m.kv_heads, 2);
    CHECK_INT(m.intermediate, 96);
    CHECK_INT(m.experts, 16);
    CHECK_INT(m.experts_per_token, 4);
    CHECK_INT(m.shared_width, 2 * 96);
}

TEST(experts_of_a_token_are_read_under_each_name)
{
    static const char *const names[] = {"num_experts_per_tok", "moe_k", "moe_topk",
                                        "top_k_experts"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        AUTO(json) json_t *c = json_pack("{s:i}", names[i], 6);
        struct model_shape m = {0};
        CHECK_INT(model_keys_read(&m, c, NULL), 0);
        CHECK_INT(m.experts_per_token, 6);
    }
}

TEST(dropouts_activations_and_soft_caps_are_read)
{
    AUTO(json)
    json_t *c = object("{\"hidden_act\": \"gelu\", \"hidden_activation\": \"gelu_pytorch_tanh\","
                       " \"dropout_rate\": 0.1, \"attn_logit_softcapping\": 50.0}");
    struct model_shape m = {0};
    CHECK_INT(model_keys_read(&m, c, NULL), 0);
    CHECK_INT(m.act, MODEL_ACT_GELU_TANH);
    CHECK(m.dropout && m.score_dropout && m.soft_caps && !m.soft_cap_logits);
}

TEST(wrong_types_and_other_kinds_of_layers_are_named)
{
    struct err e = {0};
    struct model_shape m = {0};
    AUTO(json) json_t *wrong = object("{\"n_layer\": \"x\"}");
    CHECK_INT(model_keys_read(&m, wrong, &e), -EINVAL);
    CHECK_HAS(e.text, "n_layer");
    AUTO(json) json_t *large = object("{\"n_layer\": 1073741824}");
    CHECK_INT(model_keys_read(&m, large, &e), -ERANGE);
    AUTO(json) json_t *state = object("{\"mamba_d_state\": 16}");
    CHECK_INT(model_keys_countable(state, &e), -ENOTSUP);
    CHECK_HAS(e.text, "'mamba_d_state': layers with a state");
    AUTO(json) json_t *off = object("{\"mamba_d_state\": null, \"depths\": false}");
    CHECK_INT(model_keys_countable(off, &e), 0);
}
