/* Shapes of public models, from the config.json that their authors publish. ERNIE-Gram's is that of
 * PaddleNLP (ernie-gram-zh). */
#include "launcher/estimate/model_config_internal.h"

#include <stddef.h>

#define GPT2(layers, width, heads)                                                              \
    "{\"model_type\":\"gpt2\",\"n_layer\":" #layers ",\"n_embd\":" #width ",\"n_head\":" #heads \
    ",\"n_positions\":1024,\"vocab_size\":50257,\"attn_pdrop\":0.1}"

#define BERT(type, layers, width, heads, inner, vocab, positions, types)                          \
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

const struct model_config_named model_config_named_rows[] = {
    {"gpt2", GPT2(12, 768, 12)},
    {"gpt2-medium", GPT2(24, 1024, 16)},
    {"gpt2-large", GPT2(36, 1280, 20)},
    {"gpt2-xl", GPT2(48, 1600, 25)},
    {"bert-base", BERT("bert", 12, 768, 12, 3072, 30522, 512, 2)},
    {"bert-large", BERT("bert", 24, 1024, 16, 4096, 30522, 512, 2)},
    {"roberta-base", BERT("roberta", 12, 768, 12, 3072, 50265, 514, 1)},
    {"roberta-large", BERT("roberta", 24, 1024, 16, 4096, 50265, 514, 1)},
    {"ernie-gram", BERT("ernie", 12, 768, 12, 3072, 18018, 512, 2)},
    {"llama-2-7b", DECODER("llama", 32, 4096, 32, 32, 11008, 32000, 4096, )},
    {"llama-2-13b", DECODER("llama", 40, 5120, 40, 40, 13824, 32000, 4096, )},
    {"llama-2-70b", DECODER("llama", 80, 8192, 64, 8, 28672, 32000, 4096, )},
    {"llama-3-8b", DECODER("llama", 32, 4096, 32, 8, 14336, 128256, 8192, )},
    {"llama-3-70b", DECODER("llama", 80, 8192, 64, 8, 28672, 128256, 8192, )},
    {"mistral-7b", DECODER("mistral", 32, 4096, 32, 8, 14336, 32000, 32768, )},
    {"mixtral-8x7b", DECODER("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768, )},
    {"qwen2-0.5b", DECODER("qwen2", 24, 896, 14, 2, 4864, 151936, 32768, TIED)},
    {"qwen2-7b", DECODER("qwen2", 28, 3584, 28, 4, 18944, 152064, 32768, )},
    {"gemma-2b", DECODER("gemma", 18, 2048, 8, 1, 16384, 256000, 8192, )},
    {"gemma-7b", DECODER("gemma", 28, 3072, 16, 16, 24576, 256000, 8192, )},
    {NULL, NULL},
};
