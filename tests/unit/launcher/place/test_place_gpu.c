#include "launcher/place/place_gpu.h"

#include "tests/unit/launcher/place/kit_place.h"

TEST(words_of_job_files_mean_gpus)
{
    static const struct {
        const char *model, *word;
        int gib;
        bool is;
    } cases[] = {
        {"NVIDIA A100-SXM4-40GB", "a100", 40, true},
        {"NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", 40, true},
        {"NVIDIA A100-SXM4-80GB", "A100-SXM4-40GB", 80, false},
        {"NVIDIA A100-PCIE-40GB", "A100-40GB", 40, true},
        {"Tesla V100-SXM2-32GB", "V100-32GB", 32, true},
        {"Tesla V100-SXM2-16GB", "V100-32GB", 16, false},
        {"NVIDIA GeForce RTX 3090", "RTX_3090", 24, true},
        {"NVIDIA GeForce RTX 3090", "rtx3090", 24, false},
        {"NVIDIA GeForce RTX 3090", "RTX_3090_24GB", 24, true},
        {"NVIDIA H100 PCIe", "h100-80gb", 80, true},
        {"NVIDIA A1000", "a100", 8, false},
        {"NVIDIA H100 80GB HBM3", "3", 80, true},
        {"NVIDIA H100 80GB HBM3", "03x", 80, false},
        {"NVIDIA H100 80GB HBM3", "GPU-0003", 80, true},
        {"NVIDIA H100 80GB HBM3", "GPU-00", 80, true},
        {"NVIDIA H100 80GB HBM3", "GPU-1", 80, false},
        {"NVIDIA H100 80GB HBM3", "own", 80, true},
        {"NVIDIA H100 80GB HBM3", "ow", 80, false},
        {"NVIDIA H100 80GB HBM3", "", 80, false},
        {"NVIDIA H100 80GB HBM3", "--", 80, false},
        {"", "a100", 80, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct place_gpu g = kit_gpu(3, cases[i].model, (uint64_t)cases[i].gib);
        char *labels[] = {(char *)"own", NULL};
        g.labels = labels;
        if (place_gpu_is(&g, cases[i].word) != cases[i].is)
            FAIL("%s: %s", cases[i].model, cases[i].word);
    }
}

TEST(the_speed_is_that_of_the_most_specific_row)
{
    static const struct {
        const char *model;
        double tflops;
    } cases[] = {
        {"NVIDIA A100-SXM4-40GB", 312},
        {"NVIDIA H100 80GB HBM3", 989},
        {"NVIDIA H100 PCIe", 756},
        {"NVIDIA H100 NVL", 835},
        {"Tesla V100-SXM2-32GB", 125},
        {"Tesla V100-PCIE-32GB", 112},
        {"NVIDIA GeForce RTX 3090", 71},
        {"NVIDIA L4", 121},
        {"NVIDIA L40", 181},
        {"NVIDIA L40S", 362},
        {"NVIDIA RTX A6000", 154.8},
        {"Tesla T4", 65},
        {"NVIDIA T400 4GB", 0},
        {"", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct place_gpu g = kit_gpu(0, cases[i].model, 8);
        if (place_gpu_tflops(&g) < cases[i].tflops || place_gpu_tflops(&g) > cases[i].tflops)
            FAIL("%s: %g", cases[i].model, place_gpu_tflops(&g));
        g.mig = true;
        CHECK(place_gpu_tflops(&g) <= 0);
    }
}
