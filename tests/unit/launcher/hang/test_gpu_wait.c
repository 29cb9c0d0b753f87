/* gpu_wait: figures that were recorded on an H100, and what they mean. */
#include "launcher/hang/gpu_wait.h"

#include "tests/unit/test.h"

static struct gpu_sample sample(int64_t busy, int64_t memory, int64_t power_mw)
{
    struct gpu_sample s = {0};
    gpu_sample_set(&s, GPU_FACT_BUSY, busy);
    gpu_sample_set(&s, GPU_FACT_MEMORY_BUSY, memory);
    gpu_sample_set(&s, GPU_FACT_POWER, power_mw);
    gpu_sample_set(&s, GPU_FACT_POWER_LIMIT, 700000);
    return s;
}

static enum gpu_wait last_of(const struct gpu_sample *samples, int n)
{
    struct gpu_wait_state state = {0};
    enum gpu_wait w = GPU_WAIT_UNKNOWN;
    for (int i = 0; i < n; i++)
        w = gpu_wait_add(&state, &samples[i]);
    return w;
}

TEST(a_kernel_of_nccl_that_waits_spins)
{
    struct gpu_sample s[] = {sample(100, 0, 119000), sample(100, 0, 119100)};
    CHECK_INT(last_of(s, 1), GPU_WAIT_SPINS);
    CHECK_INT(last_of(s, 2), GPU_WAIT_SPINS);
}

TEST(a_product_works_and_so_does_a_kernel_with_much_or_changing_power)
{
    CHECK_INT(last_of((struct gpu_sample[]){sample(100, 1, 505000)}, 1), GPU_WAIT_WORKS);
    CHECK_INT(last_of((struct gpu_sample[]){sample(100, 0, 505000)}, 1), GPU_WAIT_WORKS);
    struct gpu_sample changes[] = {sample(100, 0, 119000), sample(100, 0, 140000)};
    CHECK_INT(last_of(changes, 2), GPU_WAIT_WORKS);
    CHECK_INT(last_of((struct gpu_sample[]){sample(60, 0, 119000)}, 1), GPU_WAIT_WORKS);
}

TEST(data_on_pcie_or_nvlink_is_work)
{
    struct gpu_sample pcie = sample(100, 0, 119000);
    gpu_sample_set(&pcie, GPU_FACT_PCIE_RX, INT64_C(20) << 30);
    CHECK_INT(last_of(&pcie, 1), GPU_WAIT_WORKS);
    struct gpu_sample links[] = {sample(100, 0, 119000), sample(100, 0, 119000)};
    gpu_sample_set(&links[0], GPU_FACT_NVLINK_TX, INT64_C(5) << 40);
    gpu_sample_set(&links[1], GPU_FACT_NVLINK_TX, INT64_C(6) << 40);
    CHECK_INT(last_of(links, 1), GPU_WAIT_SPINS);
    CHECK_INT(last_of(links, 2), GPU_WAIT_WORKS);
}

TEST(an_idle_gpu_is_idle_and_one_without_figures_is_unknown)
{
    CHECK_INT(last_of((struct gpu_sample[]){sample(0, 0, 73000)}, 1), GPU_WAIT_IDLE);
    struct gpu_sample none = {0};
    CHECK_INT(last_of(&none, 1), GPU_WAIT_UNKNOWN);
    gpu_sample_set(&none, GPU_FACT_BUSY, 100);
    CHECK_INT(last_of(&none, 1), GPU_WAIT_UNKNOWN);
}

TEST(without_a_power_limit_the_utilisation_decides)
{
    struct gpu_sample s = sample(100, 0, 119000);
    s.known[GPU_FACT_POWER_LIMIT] = false;
    CHECK_INT(last_of(&s, 1), GPU_WAIT_SPINS);
}
