/* test_model_types - known types, and the guess for the others. The counts are in
 * tests/e2e/estimate_models.jsonl. */
#include "launcher/estimate/model_types.h"

#include <string.h>

#include "tests/unit/test.h"

static struct model_type guess(const char *text)
{
    AUTO(json) json_t *c = NULL;
    CHECK_INT(json_parse(&c, text, strlen(text), NULL), 0);
    return model_types_guess(c);
}

TEST(types_are_found_by_their_whole_name)
{
    CHECK(model_types_find("llama"));
    CHECK(!model_types_find("llam"));
    CHECK_INT(model_types_defaults("llama")->vocab, 32000);
    CHECK(!model_types_defaults("gpt2"));
}

TEST(the_keys_of_an_unknown_type_tell_its_kind)
{
    CHECK(guess("{\"rms_norm_eps\": 1e-6}").base.gated);
    CHECK(guess("{\"layer_norm_epsilon\": 1e-6}").base.norm_bias);
    CHECK_INT(guess("{\"type_vocab_size\": 2}").learned_positions, 0);
    CHECK(guess("{\"patch_size\": 16}").base.no_logits);
    CHECK(guess("{}").base.approximate);
    CHECK(guess("{\"activation_function\": \"swiglu\"}").base.gated); /* a decoder */
    CHECK(!guess("{\"encoder_layers\": 2, \"activation_function\": \"swish\"}").base.gated);
    CHECK(!guess("{\"rms_norm_eps\": 1e-6, \"hidden_act\": \"xielu\"}").base.gated);
}
