/* The plug-in's comparison on the device against a loop on the host. */
#include "collectives/backends/nccl/nccl_kernels.cu"
#include "tests/cudahost/kit_device.h"

/* n elements that repeat the pattern; some are wrong. */
template <typename T> static void check(size_t n, size_t period, std::vector<size_t> wrong)
{
    std::vector<T> pattern(period), got(n);
    for (size_t i = 0; i < period; i++)
        pattern[i] = (T)(i * 7 + 3);
    for (size_t i = 0; i < n; i++)
        got[i] = pattern[i % period];
    nccl_kernels_difference want = {0, ~0ULL};
    for (size_t i : wrong) {
        if (i >= n)
            continue;
        got[i] = (T)(got[i] + 1);
        want.first = i < want.first ? i : want.first;
        want.count++;
    }
    on_device<T> g(got), p(pattern);
    on_device<nccl_kernels_difference> out(std::vector<nccl_kernels_difference>{{0, ~0ULL}});
    nccl_kernels_compare job = {g, p, sizeof(T), period, n, 0, out};
    CHECK_INT(nccl_kernels_run_compare(&job, kit_stream()), cudaSuccess);
    nccl_kernels_difference found = out.get()[0];
    CHECK_INT(found.count, want.count);
    CHECK(found.first == want.first);
}

static const size_t sizes[] = {1, 31, 33, 255, 256, 257, 1000};

TEST(equal_elements_have_no_difference)
{
    for (size_t n : sizes) {
        check<uint8_t>(n, 7, {});
        check<uint16_t>(n, 1000, {});
        check<uint32_t>(n, 1, {});
        check<uint64_t>(n, 33, {});
    }
}

TEST(wrong_elements_are_counted_and_the_first_is_found)
{
    for (size_t n : sizes) {
        check<uint8_t>(n, 31, {0, 5, 32, 256, 999});
        check<uint16_t>(n, 13, {n - 1});
        check<uint32_t>(n, 257, {n / 2, n - 1 == n / 2 ? n : n - 1});
        check<uint64_t>(n, 5, {0});
    }
}

TEST(any_order_of_the_threads_finds_the_same)
{
    kit_check_orders([] {
        std::vector<uint16_t> got(1000, 1);
        got[3] = got[700] = 2;
        on_device<uint16_t> g(got), p(std::vector<uint16_t>{1});
        on_device<nccl_kernels_difference> out(std::vector<nccl_kernels_difference>{{0, ~0ULL}});
        nccl_kernels_compare job = {g, p, 2, 1, 1000, 0, out};
        CHECK_INT(nccl_kernels_run_compare(&job, kit_stream()), cudaSuccess);
        return out.get();
    });
}

TEST(another_element_size_is_an_error)
{
    nccl_kernels_compare job = {NULL, NULL, 3, 1, 1, 0, NULL};
    CHECK_INT(nccl_kernels_run_compare(&job, kit_stream()), cudaErrorInvalidValue);
}
