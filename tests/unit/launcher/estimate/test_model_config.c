/* test_model_config - the parameters of public models, and files that are wrong. The numbers are
 * those that `transformers` counts for a model made of such a config.json. */
#include "launcher/estimate/model_config.h"

#include "tests/unit/test.h"

static struct model_shape parse(const char *text)
{
    struct model_shape m = {0};
    struct err e = {0};
    if (model_config_parse(&m, text, strlen(text), &e) < 0)
        FAIL("%s: %s", text, e.text);
    return m;
}

static const char bert[] =
    "'model_type': 'bert', 'hidden_size': 768, 'num_hidden_layers': 12, 'vocab_size': 30522, "
    "'num_attention_heads': 12, 'intermediate_size': 3072, 'max_position_embeddings': 512, "
    "'type_vocab_size': 2, 'hidden_dropout_prob': 0.1";
static const char llama[] =
    "'model_type': 'llama', 'hidden_size': 64, 'num_hidden_layers': 2, 'vocab_size': 100, "
    "'num_attention_heads': 4, 'intermediate_size': 96, 'max_position_embeddings': 512";

/* Returns {FIELDS, MORE} as JSON, with " for '. */
static struct model_shape with(const char *fields, const char *more)
{
    char text[1024];
    snprintf(text, sizeof text, "{%s%s}", fields, more);
    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return parse(text);
}

TEST(public_models_have_their_known_parameters)
{
    static const struct {
        const char *name;
        int64_t params;
    } cases[] = {
        {"gpt2", 124439808},          {"gpt2-medium", 354823168},    {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},      {"bert-base", 109482240},      {"bert-large", 335141888},
        {"roberta-base", 124645632},  {"llama-2-7b", 6738415616},    {"llama-2-13b", 13015864320},
        {"llama-2-70b", 68976648192}, {"llama-3-8b", 8030261248},    {"llama-3-70b", 70553706496},
        {"mistral-7b", 7241732096},   {"mixtral-8x7b", 46702792704}, {"qwen2-0.5b", 494032768},
        {"qwen2-7b", 7615616512},     {"gemma-2b", 2506172416},      {"gemma-7b", 8537680896},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_shape m = {0};
        CHECK_INT(model_config_named(&m, cases[i].name, NULL), 0);
        CHECK_STR(m.name, cases[i].name);
        CHECK_INT(m.params, cases[i].params);
    }
}

TEST(families_without_a_named_model_have_their_known_parameters)
{
    struct model_shape phi =
        with(/* phi-2 */
             "'model_type': 'phi', 'hidden_size': 2560, 'num_hidden_layers': 32, 'vocab_size': "
             "51200, "
             "'num_attention_heads': 32, 'num_key_value_heads': null, 'intermediate_size': 10240, "
             "'max_position_embeddings': 2048",
             "");
    CHECK_INT(phi.params, 2779683840);
    struct model_shape gemma2 =
        with(/* gemma-2-2b */
             "'model_type': 'gemma2', 'hidden_size': 2304, 'num_hidden_layers': 26, "
             "'num_attention_heads': 8, 'num_key_value_heads': 4, 'head_dim': 256, "
             "'intermediate_size': 9216, 'vocab_size': 256000",
             "");
    CHECK_INT(gemma2.params, 2614341888);
    struct model_shape qwen3 =
        with(/* Qwen3-0.6B */
             "'model_type': 'qwen3', 'hidden_size': 1024, 'num_hidden_layers': 28, "
             "'num_attention_heads': 16, 'num_key_value_heads': 8, 'head_dim': 128, "
             "'intermediate_size': 3072, 'vocab_size': 151936, 'tie_word_embeddings': true",
             "");
    CHECK_INT(qwen3.params, 596049920);
    struct model_shape opt =
        with(/* opt-125m */
             "'model_type': 'opt', 'hidden_size': 768, 'num_hidden_layers': 12, 'vocab_size': "
             "50272, "
             "'num_attention_heads': 12, 'ffn_dim': 3072, 'max_position_embeddings': 2048, "
             "'word_embed_proj_dim': 768",
             "");
    CHECK_INT(opt.params, 125239296);
    struct model_shape neox =
        with(/* pythia-160m */
             "'model_type': 'gpt_neox', 'hidden_size': 768, 'num_hidden_layers': 12, "
             "'num_attention_heads': 12, 'intermediate_size': 3072, 'vocab_size': 50304",
             "");
    CHECK_INT(neox.params, 162322944);
}

TEST(the_heads_of_bert_count)
{
    static const struct {
        const char *architecture;
        int64_t params;
        bool logits;
    } cases[] = {{"BertModel", 109482240, false},
                 {"BertForMaskedLM", 109514298, true},
                 {"BertForPreTraining", 110106428, true},
                 {"BertForSequenceClassification", 109483778, false},
                 {"BertForQuestionAnswering", 108893186, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[100];
        snprintf(more, sizeof more, ", 'architectures': ['%s']", cases[i].architecture);
        struct model_shape m = with(bert, more);
        CHECK_INT(m.params, cases[i].params);
        CHECK_INT(!m.no_logits, cases[i].logits);
        CHECK(m.dropout);
    }
    int64_t five = with(bert, ", 'architectures': ['BertForSequenceClassification'], 'id2label': "
                              "{'0': 'a', '1': 'b', '2': 'c', '3': 'd', '4': 'e'}")
                       .params;
    CHECK_INT(five, 109483778 + 3 * 769);
}

TEST(keys_of_llama_change_the_number_of_parameters)
{
    struct model_shape m = with(llama, "");
    CHECK(!m.dropout);
    CHECK_INT(with(llama, ", 'tie_word_embeddings': true").params, m.params - 6400);
    CHECK_INT(with(llama, ", 'num_key_value_heads': 2").params, m.params - 2 * 2 * 64 * 32);
    CHECK_INT(with(llama, ", 'attention_bias': true").params, m.params + 2 * 4 * 64);
    CHECK_INT(with(llama, ", 'mlp_bias': true").params, m.params + 2 * (2 * 96 + 64));
    CHECK_INT(with(llama, ", 'head_dim': 32").params, m.params + 2 * 4 * 64 * 64);
    struct model_shape classes =
        with(llama, ", 'architectures': ['LlamaForSequenceClassification']");
    CHECK(classes.no_logits);
    CHECK_INT(classes.params, m.params - 6400 + 2 * 64);
}

TEST(names_are_found_as_job_files_write_them)
{
    static const char *const names[] = {"ernie-gram", "ERNIE_Gram", "ernie gram (zh)",
                                        "paddle/ernie-gram"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model_shape m = {0};
        CHECK_INT(model_config_named(&m, names[i], NULL), 0);
        CHECK_INT(m.layers, 12);
        CHECK_INT(m.context, 512);
    }
    struct model_shape m = {0};
    struct err e = {0};
    CHECK_INT(model_config_named(&m, "llama-2-8b", &e), -ENOENT);
    CHECK_STR(e.hint, "--model llama-2-7b");
}

TEST(what_is_wrong_with_a_file_is_named)
{
    static const struct {
        const char *text;
        int code;
        const char *says;
    } cases[] = {
        {"", -EINVAL, "1:"},
        {"[]", -EINVAL, "model_type"},
        {"{}", -EINVAL, "model_type"},
        {"{'model_type': 7}", -EINVAL, "model_type"},
        {"{'model_type': 'mamba', 'state_size': 16}", -ENOTSUP, "'state_size'"},
        {"{'model_type': 'gpt2'}", -EINVAL,
         "'num_hidden_layers': missing or 0 (model_type 'gpt2')"},
        {"{'model_type': 'x', 'text_config': {}}", -EINVAL, "text_config: "},
        {"{'model_type': 'gpt2', 'n_layer': 2, 'n_embd': 1073741823}", -EINVAL, "missing"},
        {"{'model_type': 'gpt2', 'n_layer': 2, 'n_embd': 1073741823, 'n_head': 1, 'vocab_size': 5}",
         -ERANGE, "a width is above"},
        {"{'model_type': 'gpt2', 'n_layer': 'x'}", -EINVAL, "n_layer"},
        {"{'model_type': 'gpt2', 'n_layer': -1}", -ERANGE, "n_layer"},
        {"{'model_type': 'gpt2', 'n_layer': 99999999999}", -ERANGE, "n_layer"},
        {"{'model_type': 'gpt2', 'n_layer': 2, 'n_layer': 3}", -EINVAL, "n_layer"},
        {"{'model_type': 'gpt2', 'n_layer': 2, 'n_embd': 10, 'n_head': 3, 'vocab_size': 5}",
         -EINVAL, "not a multiple"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", cases[i].text);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        struct model_shape m = {0}, before = m;
        struct err e = {0};
        CHECK_INT(model_config_parse(&m, text, strlen(text), &e), cases[i].code);
        CHECK_HAS(e.text, cases[i].says);
        CHECK(memcmp(&m, &before, sizeof m) == 0);
    }
}
