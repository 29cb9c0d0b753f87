/* test_gpu_names - names as users write them. */
#include "launcher/estimate/gpu_names.h"

#include <string.h>

#include "tests/unit/test.h"

TEST(names_are_found_as_users_write_them)
{
    static const struct {
        const char *text, *name;
        int mib, count;
    } cases[] = {
        {"H100", "H100", 81559, 0},
        {"h100", "H100", 81559, 0},
        {"8xH100", "H100", 81559, 8},
        {"2*a100-40gb", "A100-40G", 40960, 2},
        {"NVIDIA A100-80GB", "A100-80G", 81920, 0},
        {"RTX 4090", "4090", 24564, 0},
        {"rtx_3090", "3090", 24576, 0},
        {"GeForce RTX 5090", "5090", 32607, 0},
        {"NVIDIA H100 80GB HBM3", "H100-80G", 81559, 0}, /* as nvidia-smi has them */
        {"NVIDIA H100 PCIe", "H100", 81559, 0},
        {"NVIDIA H100 NVL", "H100-NVL", 95830, 0},
        {"NVIDIA A100-SXM4-40GB", "A100-40G", 40960, 0},
        {"NVIDIA H200 NVL", "H200-NVL", 143771, 0},
        {"NVIDIA GH200 480GB", "GH200-480G", 97871, 0},
        {"NVIDIA A800 80GB PCIe", "A800-80G", 81920, 0},
        {"Tesla P100-PCIE-16GB", "P100-16G", 16384, 0},
        {"Quadro RTX 8000", "QUADRO8000", 46080, 0},
        {"NVIDIA B300 SXM6 AC", "B300", 275040, 0},
        {"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "PRO6000", 97887, 0},
        {"NVIDIA GeForce RTX 3090 Ti", "3090TI", 24564, 0},
        {"RTX 4070 Ti SUPER", "4070TISUPER", 16376, 0},
        {"NVIDIA GeForce GTX 1080 Ti", "1080TI", 11264, 0},
        {"AMD Instinct MI250X", "MI250X", 65520, 0},
        {"AMD Radeon RX 7900 XTX", "7900XTX", 24560, 0},
        {"Tesla V100-SXM2-32GB", "V100-32G", 32768, 0},
        {"NVIDIA RTX 6000 Ada Generation", "6000ADA", 49140, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        int count = -1;
        const char *name = gpu_names_find(cases[i].text, &bytes, &count);
        CHECK(name);
        CHECK_STR(name, cases[i].name);
        CHECK_INT(bytes >> 20, cases[i].mib);
        CHECK_INT(count, cases[i].count);
    }
}

TEST(sizes_are_no_names_and_near_names_are_suggested)
{
    uint64_t bytes;
    int count;
    CHECK(!gpu_names_find("80G", &bytes, &count));
    CHECK(!gpu_names_find("", &bytes, &count));
    CHECK(!gpu_names_find("RTX 4090 Laptop GPU", &bytes, &count)); /* it has less */
    CHECK(!gpu_names_find("0xH100", &bytes, &count));
    CHECK_STR(gpu_names_near("H10O"), "H100");
}
