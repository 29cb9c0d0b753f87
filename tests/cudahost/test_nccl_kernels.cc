/* The plug-in's comparison and product on the device against loops on the host. */
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
    nccl_kernels_premul product = {NULL, NULL, 3, 1, DROVER_INT8, 0};
    CHECK_INT(nccl_kernels_run_premul(&product, kit_stream()), cudaErrorInvalidValue);
}

/* ---- products ------------------------------------------------------------------------------- */
static const size_t element_bytes[DROVER_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/* The bits of n numbers from -3 to 3, and of the largest and the smallest ones. */
static std::vector<uint8_t> numbers(drover_type type, size_t n)
{
    size_t bytes = element_bytes[type];
    std::vector<uint8_t> v(n * bytes);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = type_bits(type, (double)(i % 25) / 4 - 3);
        if (i % 7 == 6) /* not a NaN, whose bits may differ */
            bits = i % 2 ? type_bits(type, 0x1p62) : 1;
        memcpy(&v[i * bytes], &bits, bytes);
    }
    return v;
}

static void check_product(drover_type type, size_t n, double factor, bool in_place)
{
    std::vector<uint8_t> in = numbers(type, n), want = in;
    premul_apply(want.data(), n, type, factor);
    on_device<uint8_t> from(in), to(std::vector<uint8_t>(in.size(), 0xa5));
    uint8_t *out = in_place ? (uint8_t *)from : (uint8_t *)to;
    nccl_kernels_premul job = {from, out, element_bytes[type], n, type, type_bits(type, factor)};
    CHECK_INT(nccl_kernels_run_premul(&job, kit_stream()), cudaSuccess);
    CHECK(((in_place ? from : to).get() == want));
    CHECK(in_place || from.get() == in);
}

TEST(a_product_is_that_of_the_host_in_each_type_and_of_each_element)
{
    for (int t = 0; t < DROVER_TYPES; t++)
        for (size_t n : sizes)
            for (double factor : {2.0, -2.75, 0.0, 1e-3})
                check_product((drover_type)t, n, factor, n % 2);
}

TEST(more_elements_than_threads_are_multiplied)
{
    size_t n = (size_t)THREADS * BLOCKS_MAX + 1;
#ifdef __SANITIZE_THREAD__
    n = 2 * THREADS + 1;
#endif
    check_product(DROVER_UINT8, n, 3, false);
}

TEST(no_elements_are_no_launch)
{
    nccl_kernels_premul job = {NULL, NULL, 1, 0, DROVER_INT8, 2};
    CHECK_INT(nccl_kernels_run_premul(&job, kit_stream()), cudaSuccess);
}
