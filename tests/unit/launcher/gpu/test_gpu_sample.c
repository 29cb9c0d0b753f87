/* test_gpu_sample - whose memory it is, and whether a GPU works. */
#include "launcher/gpu/gpu_sample.h"

#include "tests/unit/test.h"

static bool is_even(const void *arg, int pid)
{
    CHECK(arg == NULL);
    return pid % 2 == 0;
}

static struct gpu_sample sample(void)
{
    struct gpu_sample s = {.processes = {{2, 100}, {3, 46000}, {4, 20}},
                           .process_count = 3,
                           .graphics = {{2, 100}, {6, 5}, {7, 9}},
                           .graphics_count = 3};
    gpu_sample_set(&s, GPU_FACT_PROCESSES, 3);
    gpu_sample_set(&s, GPU_FACT_GRAPHICS, 3);
    return s;
}

TEST(the_memory_of_some_processes_is_a_sum_in_which_each_counts_once)
{
    struct gpu_sample s = sample();
    CHECK_INT(gpu_sample_memory_of(&s, is_even, NULL), 100 + 20 + 5);
    s.processes[0].pid = s.processes[2].pid = 5;
    CHECK_INT(gpu_sample_memory_of(&s, is_even, NULL), 100 + 5); /* it only draws */
}

TEST(their_memory_is_unknown_if_the_driver_does_not_tell)
{
    struct gpu_sample s = sample();
    s.processes[1].bytes = -1; /* of another process */
    CHECK_INT(gpu_sample_memory_of(&s, is_even, NULL), 125);
    s.graphics[1].bytes = -1;
    CHECK_INT(gpu_sample_memory_of(&s, is_even, NULL), -1);
    s = sample();
    gpu_sample_set(&s, GPU_FACT_PROCESSES, 65); /* too many for the list */
    CHECK_INT(gpu_sample_memory_of(&s, is_even, NULL), -1);
    s = (struct gpu_sample){.processes = {{3, 46000}}, .process_count = 1};
    CHECK_INT(gpu_sample_memory_of(&s, is_even, NULL), -1); /* none is listed */
}

TEST(a_gpu_works_if_kernels_use_memory)
{
    static const struct {
        int busy, memory; /* -1: unknown */
        bool active;
    } cases[] = {{100, 1, true}, {1, 1, true},   {100, 0, false}, {0, 0, false},
                 {0, 5, false},  {-1, 5, false}, {100, -1, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct gpu_sample s = {0};
        if (cases[i].busy >= 0)
            gpu_sample_set(&s, GPU_FACT_BUSY, cases[i].busy);
        if (cases[i].memory >= 0)
            gpu_sample_set(&s, GPU_FACT_MEMORY_BUSY, cases[i].memory);
        CHECK_INT(gpu_sample_is_active(&s), cases[i].active);
    }
}
