/* test_model_names - names as the hub has them. */
#include "launcher/estimate/model_names.h"

#include <string.h>

#include "tests/unit/test.h"

TEST(names_of_the_hub_are_found)
{
    static const char *const cases[][2] = {
        {"meta-llama/Llama-3.1-8B-Instruct", "llama-3-8b"},
        {"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
        {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"},
        {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
        {"Qwen/Qwen2.5-7B-Instruct", "qwen2-7b"},
        {"google-bert/bert-base-uncased", "bert-base"},
        {"google/gemma-2-9b-it", "gemma-2-9b"},
        {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
        {"openai-community/gpt2", "gpt2"},
        {"microsoft/phi-3-mini-4k-instruct", "phi-3-mini"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *known = NULL;
        CHECK(model_names_config(cases[i][0], &known));
        CHECK_STR(known, cases[i][1]);
    }
}

TEST(other_names_have_a_near_one_at_most)
{
    const char *known = NULL;
    CHECK(!model_names_config("my-net", &known) && !known);
    CHECK_STR(model_names_near("llama-2-8b"), "llama-2-7b");
}
