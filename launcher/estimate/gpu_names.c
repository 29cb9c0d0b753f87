#include "launcher/estimate/gpu_names.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/opt.h"

/* What nvidia-smi and rocm-smi show. A name without a size is the usual card. */
static const struct gpu {
    const char *name;
    int mib;
} gpus[] = {
    {"H100", 81559},       {"H100-80G", 81559},    {"H100-NVL", 95830},   {"H200", 143771},
    {"H20", 97871},        {"H800", 81559},        {"B200", 183359},      {"B300", 275040},
    {"GH200", 97871},      {"GB200", 189471},      {"A100", 81920},       {"A100-80G", 81920},
    {"A100-40G", 40960},   {"A800", 81920},        {"A40", 46068},        {"A30", 24576},
    {"A10", 23028},        {"A10G", 23028},        {"A16", 15356},        {"L4", 23034},
    {"L40", 46068},        {"L40S", 46068},        {"T4", 15360},         {"V100", 16384},
    {"V100-16G", 16384},   {"V100-32G", 32768},    {"P100", 16384},       {"A2000", 12282},
    {"A4000", 16376},      {"A5000", 24564},       {"A6000", 49140},      {"6000ADA", 49140},
    {"PRO6000", 97887},    {"5090", 32607},        {"5080", 16303},       {"4090", 24564},
    {"4080", 16376},       {"4070", 12282},        {"4060", 8188},        {"3090", 24576},
    {"3080", 10240},       {"3070", 8192},         {"3060", 12288},       {"2080TI", 11264},
    {"MI300X", 196592},    {"MI325X", 262128},     {"MI250", 65520},      {"MI210", 65520},
    {"H20-3E", 143771},    {"H200-NVL", 143771},   {"GH200-480G", 97871}, {"A800-80G", 81920},
    {"A2", 15356},         {"L20", 46068},         {"V100S-32G", 32768},  {"P100-16G", 16384},
    {"P40", 23040},        {"TITANRTX", 24576},    {"QUADRO8000", 46080}, {"QUADRO6000", 23040},
    {"A4500", 20470},      {"5000ADA", 32760},     {"4500ADA", 24570},    {"4000ADA", 20475},
    {"5070", 12227},       {"5070TI", 16303},      {"5060TI", 16311},     {"4080SUPER", 16376},
    {"4070TI", 12282},     {"4070TISUPER", 16376}, {"4070SUPER", 12282},  {"4060TI", 8188},
    {"4060TI-16G", 16380}, {"3090TI", 24564},      {"3080TI", 12288},     {"3070TI", 8192},
    {"1080TI", 11264},     {"MI250X", 65520},      {"7900XTX", 24560},
};

/* Writes the name in upper case, without "NVIDIA", "SXM5", "HBM3", spaces, and the B of "80GB". */
static void normalise(char *out, size_t size, const char *text)
{
    static const char *const words[] = {
        "NVIDIA",    "AMD",   "GEFORCE",    "INSTINCT",    "TESLA",  "RTX", "PCIE",  "SXM2",
        "SXM3",      "SXM4",  "SXM5",       "SXM6 AC",     "SXM6",   "SXM", "HBM2E", "HBM2",
        "HBM3E",     "HBM3",  "GENERATION", "GTX",         "RADEON", "RX",  "OAM",   "SFF",
        "BLACKWELL", "MAX-Q", "SERVER",     "WORKSTATION", "EDITION"};
    char upper[64];
    size_t n = 0, len = 0;
    for (; text[len] && len + 1 < sizeof upper; len++)
        upper[len] = (char)toupper((unsigned char)text[len]);
    upper[len] = '\0';
    for (const char *p = upper; *p && n + 1 < size;) {
        size_t skip = strchr(" -_", *p) != NULL;
        for (size_t i = 0; i < COUNT_OF(words); i++)
            if (skip == 0 && strncmp(p, words[i], strlen(words[i])) == 0)
                skip = strlen(words[i]);
        if (skip == 0)
            out[n++] = *p;
        p += skip ? skip : 1;
    }
    out[n] = '\0';
    if (n > 2 && strcmp(out + n - 2, "GB") == 0)
        out[n - 1] = '\0';
}

const char *gpu_names_find(const char *text, uint64_t *bytes, int *count)
{
    char name[64], *end;
    long n = strtol(text, &end, 10);
    *count = 0;
    if (end != text && n > 0 && n <= 1 << 20 && (*end == 'x' || *end == 'X' || *end == '*')) {
        *count = (int)n;
        text = end + 1;
    }
    normalise(name, sizeof name, text);
    for (size_t i = 0; i < COUNT_OF(gpus); i++) {
        char known[64];
        normalise(known, sizeof known, gpus[i].name);
        if (strcmp(known, name) == 0) {
            *bytes = (uint64_t)gpus[i].mib << 20;
            return gpus[i].name;
        }
    }
    return NULL;
}

const char *gpu_names_near(const char *text)
{
    char name[64];
    const char *names[COUNT_OF(gpus)];
    normalise(name, sizeof name, text);
    for (size_t i = 0; i < COUNT_OF(gpus); i++)
        names[i] = gpus[i].name;
    return opt_suggest(name, names, COUNT_OF(gpus));
}
