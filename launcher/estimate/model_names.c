#include "launcher/estimate/model_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/mem.h"
#include "common/opt.h"

/* From the config.json that their authors publish. ERNIE-Gram's is that of PaddleNLP
 * (ernie-gram-zh). */
#define GPT2(layers, width, heads)                                                              \
    "{\"model_type\":\"gpt2\",\"n_layer\":" #layers ",\"n_embd\":" #width ",\"n_head\":" #heads \
    ",\"n_positions\":1024,\"vocab_size\":50257,\"attn_pdrop\":0.1}"

#define BERT_LIKE(type, layers, width, heads, inner, vocab, positions, types)                     \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":" #layers ",\"hidden_size\":" #width      \
    ",\"num_attention_heads\":" #heads ",\"intermediate_size\":" #inner ",\"vocab_size\":" #vocab \
    ",\"max_position_embeddings\":" #positions ",\"type_vocab_size\":" #types                     \
    ",\"hidden_dropout_prob\":0.1}"

#define DECODER(type, layers, width, heads, kv, inner, vocab, context, more)                 \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":" #layers ",\"hidden_size\":" #width \
    ",\"num_attention_heads\":" #heads ",\"num_key_value_heads\":" #kv                       \
    ",\"intermediate_size\":" #inner ",\"vocab_size\":" #vocab                               \
    ",\"max_position_embeddings\":" #context more "}"

#define TIED ",\"tie_word_embeddings\":true"

static const struct {
    const char *name;   /* lower case, with '-' */
    const char *config; /* what its config.json says of its shape */
} named[] = {
    {"gpt2", GPT2(12, 768, 12)},
    {"gpt2-medium", GPT2(24, 1024, 16)},
    {"gpt2-large", GPT2(36, 1280, 20)},
    {"gpt2-xl", GPT2(48, 1600, 25)},
    {"bert-base", BERT_LIKE("bert", 12, 768, 12, 3072, 30522, 512, 2)},
    {"bert-large", BERT_LIKE("bert", 24, 1024, 16, 4096, 30522, 512, 2)},
    {"roberta-base", BERT_LIKE("roberta", 12, 768, 12, 3072, 50265, 514, 1)},
    {"roberta-large", BERT_LIKE("roberta", 24, 1024, 16, 4096, 50265, 514, 1)},
    {"ernie-gram", BERT_LIKE("ernie", 12, 768, 12, 3072, 18018, 512, 2)},
    {"llama-2-7b", DECODER("llama", 32, 4096, 32, 32, 11008, 32000, 4096, )},
    {"llama-2-13b", DECODER("llama", 40, 5120, 40, 40, 13824, 32000, 4096, )},
    {"llama-2-70b", DECODER("llama", 80, 8192, 64, 8, 28672, 32000, 4096, )},
    {"llama-3-8b", DECODER("llama", 32, 4096, 32, 8, 14336, 128256, 8192, )},
    {"llama-3-70b", DECODER("llama", 80, 8192, 64, 8, 28672, 128256, 8192, )},
    {"mistral-7b", DECODER("mistral", 32, 4096, 32, 8, 14336, 32000, 32768, )},
    {"mixtral-8x7b", DECODER("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768, )},
    {"qwen2-0.5b", DECODER("qwen2", 24, 896, 14, 2, 4864, 151936, 32768, TIED)},
    {"qwen2-7b", DECODER("qwen2", 28, 3584, 28, 4, 18944, 152064, 32768, )},
    {"qwen2.5-1.5b", DECODER("qwen2", 28, 1536, 12, 2, 8960, 151936, 32768, TIED)},
    {"qwen2.5-3b", DECODER("qwen2", 36, 2048, 16, 2, 11008, 151936, 32768, TIED)},
    {"qwen2.5-14b", DECODER("qwen2", 48, 5120, 40, 8, 13824, 152064, 32768, )},
    {"qwen2.5-32b", DECODER("qwen2", 64, 5120, 40, 8, 27648, 152064, 32768, )},
    {"qwen2.5-72b", DECODER("qwen2", 80, 8192, 64, 8, 29568, 152064, 32768, )},
    {"qwen3-0.6b", DECODER("qwen3", 28, 1024, 16, 8, 3072, 151936, 40960, TIED)},
    {"qwen3-1.7b", DECODER("qwen3", 28, 2048, 16, 8, 6144, 151936, 40960, TIED)},
    {"qwen3-4b", DECODER("qwen3", 36, 2560, 32, 8, 9728, 151936, 40960, TIED)},
    {"qwen3-8b", DECODER("qwen3", 36, 4096, 32, 8, 12288, 151936, 40960, )},
    {"qwen3-14b", DECODER("qwen3", 40, 5120, 40, 8, 17408, 151936, 40960, )},
    {"qwen3-32b", DECODER("qwen3", 64, 5120, 64, 8, 25600, 151936, 40960, )},
    {"qwen3-30b-a3b", DECODER("qwen3_moe", 48, 2048, 32, 4, 6144, 151936, 40960,
                              ",\"num_experts\":128,\"num_experts_per_tok\":8,"
                              "\"moe_intermediate_size\":768,\"head_dim\":128")},
    {"llama-3.2-1b", DECODER("llama", 16, 2048, 32, 8, 8192, 128256, 131072, TIED)},
    {"llama-3.2-3b", DECODER("llama", 28, 3072, 24, 8, 8192, 128256, 131072, TIED)},
    {"tinyllama-1.1b", DECODER("llama", 22, 2048, 32, 4, 5632, 32000, 2048, )},
    {"phi-2", DECODER("phi", 32, 2560, 32, 32, 10240, 51200, 2048, )},
    {"phi-3-mini", DECODER("phi3", 32, 3072, 32, 32, 8192, 32064, 4096, )},
    {"gemma-2-2b", DECODER("gemma2", 26, 2304, 8, 4, 9216, 256000, 8192, )},
    {"gemma-2-9b", DECODER("gemma2", 42, 3584, 16, 8, 14336, 256000, 8192, )},
    {"pythia-1b", DECODER("gpt_neox", 16, 2048, 8, 8, 8192, 50304, 2048, )},
    {"gemma-2b", DECODER("gemma", 18, 2048, 8, 1, 16384, 256000, 8192, )},
    {"gemma-7b", DECODER("gemma", 28, 3072, 16, 16, 24576, 256000, 8192, )},
};

/* The same shape under another name. */
static const struct {
    const char *name, *same;
} aliases[] = {
    {"meta-llama-3-8b", "llama-3-8b"},   {"llama-3.1-8b", "llama-3-8b"},
    {"meta-llama-3.1-8b", "llama-3-8b"}, {"meta-llama-3-70b", "llama-3-70b"},
    {"llama-3.1-70b", "llama-3-70b"},    {"meta-llama-3.1-70b", "llama-3-70b"},
    {"llama-3.3-70b", "llama-3-70b"},    {"qwen2.5-0.5b", "qwen2-0.5b"},
    {"qwen2.5-7b", "qwen2-7b"},          {"openai-community-gpt2", "gpt2"},
    {"phi-3-mini-4k", "phi-3-mini"},
};

/* Ends of names that do not change the shape. */
static const char *const ends[] = {"-instruct", "-chat",    "-hf",   "-it",   "-uncased",
                                   "-cased",    "-v0.1",    "-v0.2", "-v0.3", "-v1.0",
                                   "-v1",       "-deduped", "-4k",   "-2407"};

/* Writes the name in lower case, with '-' for '_' and ' ', without what follows '('. */
static void normalise(char *out, size_t size, const char *name)
{
    size_t n = 0;
    const char *slash = strrchr(name, '/');
    for (const char *p = slash ? slash + 1 : name; *p && *p != '(' && n + 1 < size; p++)
        out[n++] = *p == '_' || *p == ' ' ? '-' : (char)tolower((unsigned char)*p);
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

static const char *find(const char *wanted, const char **known)
{
    for (size_t i = 0; i < COUNT_OF(aliases); i++)
        if (strcmp(wanted, aliases[i].name) == 0)
            wanted = aliases[i].same;
    for (size_t i = 0; i < COUNT_OF(named); i++)
        if (strcmp(wanted, named[i].name) == 0) {
            *known = named[i].name;
            return named[i].config;
        }
    return NULL;
}

static bool cut_end(char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t k = strlen(ends[i]);
        if (n > k && strcmp(name + n - k, ends[i]) == 0) {
            name[n - k] = '\0';
            return true;
        }
    }
    return false;
}

const char *model_names_config(const char *name, const char **known)
{
    char wanted[64];
    normalise(wanted, sizeof wanted, name);
    const char *config = find(wanted, known);
    while (!config && cut_end(wanted))
        config = find(wanted, known);
    return config;
}

const char *model_names_near(const char *name)
{
    char wanted[64];
    const char *names[COUNT_OF(named)];
    normalise(wanted, sizeof wanted, name);
    for (size_t i = 0; i < COUNT_OF(named); i++)
        names[i] = named[i].name;
    return opt_suggest(wanted, names, COUNT_OF(named));
}
