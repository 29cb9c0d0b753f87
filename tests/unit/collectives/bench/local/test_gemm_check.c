/* gemm_check: right products pass, and each wrong element is found. */
#include "collectives/bench/local/gemm_check.h"

#include <math.h>

#include "tests/unit/test.h"

enum { N = 48 };

static float *product(const struct gemm_check *g)
{
    float *c = xcalloc((size_t)N * N, sizeof *c);
    for (int j = 0; j < N; j++)
        for (int k = 0; k < N; k++)
            for (int i = 0; i < N; i++)
                c[j * N + i] += (float)(g->a[k * N + i] * g->b[j * N + k]);
    return c;
}

TEST(a_right_product_has_no_wrong_row)
{
    AUTO(gemm_check) struct gemm_check *g = gemm_check_new(N);
    AUTO(free) float *c = product(g);
    CHECK_INT(gemm_check_wrong_rows(g, c), 0);
}

TEST(each_single_wrong_element_is_found)
{
    AUTO(gemm_check) struct gemm_check *g = gemm_check_new(N);
    AUTO(free) float *c = product(g);
    for (int i = 0; i < N * N; i++) {
        float right = c[i];
        c[i] += i % 2 ? 1 : -3;
        CHECK_INT(gemm_check_wrong_rows(g, c), 1);
        c[i] = right;
    }
}

TEST(a_product_that_is_not_a_number_is_wrong_in_its_row)
{
    AUTO(gemm_check) struct gemm_check *g = gemm_check_new(N);
    AUTO(free) float *c = product(g);
    c[5] = NAN;
    c[N + 7] = INFINITY;
    CHECK_INT(gemm_check_wrong_rows(g, c), 2);
}

TEST(elements_are_small_integers_of_all_values)
{
    AUTO(gemm_check) struct gemm_check *g = gemm_check_new(N);
    bool seen[9] = {false};
    for (int i = 0; i < N * N; i++) {
        CHECK(g->a[i] >= -4 && g->a[i] <= 4);
        seen[g->b[i] + 4] = true;
    }
    for (int i = 0; i < 9; i++)
        CHECK(seen[i]);
}
