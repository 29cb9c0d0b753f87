#include "launcher/place/place_gpu.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"

/* ---- words ---------------------------------------------------------------------------------- */

/* Finds the next run of letters and digits of *at. Returns its length; 0: none. */
static size_t next_word(const char **at)
{
    size_t len = 0;
    while (**at && !isalnum((unsigned char)**at))
        (*at)++;
    while (isalnum((unsigned char)(*at)[len]))
        len++;
    return len;
}

static bool has_word(const char *text, const char *word, size_t len)
{
    size_t n;
    for (const char *at = text; (n = next_word(&at)) > 0; at += n)
        if (n == len && strncasecmp(at, word, len) == 0)
            return true;
    return false;
}

/* "80GB" is the memory of an H100 whose name does not contain it. */
static bool is_memory(const struct place_gpu *g, const char *word, size_t len)
{
    int gb = 0, end = -1;
    AUTO(free) char *text = xstrndup(word, len);
    if (sscanf(text, "%d%*[gG]%*[bB]%n", &gb, &end) != 1 || end != (int)len)
        return false;
    return gb > 0 && (uint64_t)gb == (place_gpu_memory(g) + (1U << 29)) >> 30;
}

static bool is_model(const struct place_gpu *g, const char *words)
{
    size_t n, found = 0;
    for (const char *at = words; (n = next_word(&at)) > 0; at += n, found++)
        if (!has_word(g->now.gpu.name, at, n) && !is_memory(g, at, n))
            return false;
    return found > 0;
}

static bool is_index(const char *word)
{
    return *word && strspn(word, "0123456789") == strlen(word);
}

bool place_gpu_is(const struct place_gpu *g, const char *word)
{
    for (char **l = g->labels; l && *l; l++)
        if (strcmp(*l, word) == 0)
            return true;
    if (is_index(word))
        return atoi(word) == g->now.gpu.index;
    if (strncmp(word, "GPU-", 4) == 0 || strncmp(word, "MIG-", 4) == 0)
        return strncmp(g->now.gpu.uuid, word, strlen(word)) == 0;
    return is_model(g, word);
}

uint64_t place_gpu_memory(const struct place_gpu *g)
{
    return (uint64_t)gpu_sample_value(&g->now, GPU_FACT_MEMORY_TOTAL, 0);
}

uint64_t place_gpu_free(const struct place_gpu *g)
{
    return (uint64_t)gpu_sample_value(&g->now, GPU_FACT_MEMORY_FREE, 0);
}

const char *place_gpu_name(char *buf, size_t size, const struct place_gpu *g)
{
    if (g->mig)
        snprintf(buf, size, "GPU%d/%.16s", g->now.gpu.index, g->now.gpu.uuid);
    else
        snprintf(buf, size, "GPU%d", g->now.gpu.index);
    return buf;
}

/* ---- speed ---------------------------------------------------------------------------------- */

/* Dense FP16 tensor operations with FP32 accumulation, from NVIDIA's data sheets and architecture
 * white papers. The first row whose words all occur in the name counts. */
static const struct {
    const char *words;
    double tflops;
} speeds[] = {
    {"B200", 2250},      {"GH200", 989},       {"H200", 989},      {"H100 NVL", 835},
    {"H100 PCIe", 756},  {"H100", 989},        {"A100", 312},      {"A30", 165},
    {"L40S", 362},       {"L40", 181},         {"L4", 121},        {"RTX 5090", 209.5},
    {"RTX 4090", 165.2}, {"RTX A6000", 154.8}, {"A40", 149.7},     {"A10", 125},
    {"RTX 3090", 71},    {"T4", 65},           {"V100 PCIE", 112}, {"V100S", 130},
    {"V100", 125},       {"P100 PCIE", 18.7},  {"P100", 21.2},
};

double place_gpu_tflops(const struct place_gpu *g)
{
    for (size_t i = 0; !g->mig && i < COUNT_OF(speeds); i++)
        if (is_model(g, speeds[i].words))
            return speeds[i].tflops;
    return 0;
}
