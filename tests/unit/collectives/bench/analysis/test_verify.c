#include "collectives/bench/analysis/verify.h"

#include <math.h>
#include <stdint.h>

#include "collectives/comm/float16.h"
#include "common/mem.h"
#include "tests/conform/values.h"
#include "tests/unit/test.h"

enum { N = 600 };

static double as_double(const void *b, size_t i, enum drover_type t)
{
    switch (t) {
    case DROVER_INT8:
        return ((const int8_t *)b)[i];
    case DROVER_UINT8:
        return ((const uint8_t *)b)[i];
    case DROVER_INT32:
        return ((const int32_t *)b)[i];
    case DROVER_UINT32:
        return ((const uint32_t *)b)[i];
    case DROVER_INT64:
        return (double)((const int64_t *)b)[i];
    case DROVER_UINT64:
        return (double)((const uint64_t *)b)[i];
    case DROVER_HALF:
        return half_to_float(((const uint16_t *)b)[i]);
    case DROVER_FLOAT:
        return ((const float *)b)[i];
    case DROVER_DOUBLE:
        return ((const double *)b)[i];
    case DROVER_F8E4M3:
        return f8e4m3_to_float(((const uint8_t *)b)[i]);
    case DROVER_F8E5M2:
        return f8e5m2_to_float(((const uint8_t *)b)[i]);
    default:
        return bfloat16_to_float(((const uint16_t *)b)[i]);
    }
}

/* The value converted to the type. An overflow of whole numbers gives another value, which is
 * noticed. */
static double rounded(double x, enum drover_type t)
{
    switch (t) {
    case DROVER_INT8:
        return (int8_t)(int64_t)x;
    case DROVER_UINT8:
        return (uint8_t)(int64_t)x;
    case DROVER_INT32:
        return (int32_t)(int64_t)x;
    case DROVER_UINT32:
        return (uint32_t)(int64_t)x;
    case DROVER_HALF:
        return half_to_float(half_from_float((float)x));
    case DROVER_FLOAT:
        return (float)x;
    case DROVER_BFLOAT16:
        return bfloat16_to_float(bfloat16_from_float((float)x));
    case DROVER_F8E4M3:
        return f8e4m3_to_float(f8e4m3_from_float((float)x));
    case DROVER_F8E5M2:
        return f8e5m2_to_float(f8e5m2_from_float((float)x));
    default:
        return x;
    }
}

/* Rank r's contribution, with nccl-tests' factors. */
static double brought(char *const *inputs, size_t i, const struct verify *v, int r)
{
    double x = as_double(inputs[r], i, v->type);
    return v->op == DROVER_MULSUM && r % 2 ? rounded(2 * x, v->type) : x;
}

/* Reduces element i in the type, rounding after each step, rank `first` first, `step` by `step`. */
static double reduce(char *const *inputs, size_t i, const struct verify *v, int first, int step)
{
    double x = brought(inputs, i, v, first);
    for (int k = 1; k < v->ranks; k++) {
        int r = (int)(((long)first + (long)k * step % v->ranks + v->ranks) % v->ranks);
        double y = brought(inputs, i, v, r);
        x = rounded(VALUES_COMBINE(x, y, v->op), v->type);
    }
    return x;
}

static void check_exact(const struct verify *v)
{
    char *inputs[512];
    uint64_t expected[N] = {0};
    for (int r = 0; r < v->ranks; r++) {
        inputs[r] = calloc(N, 8);
        verify_input(v, r, inputs[r], N);
    }
    verify_expected(v, 0, 0, N, expected, N);
    int nonzero = 0;
    for (size_t i = 0; i < N; i++) {
        double want = as_double(expected, i, v->type);
        nonzero += want != 0;
        if (reduce(inputs, i, v, 0, 1) != want || reduce(inputs, i, v, v->ranks - 1, -1) != want ||
            reduce(inputs, i, v, v->ranks / 2, 1) != want)
            FAIL("%s %s over %d ranks: element %zu is %g, expected %g", backend_type_name(v->type),
                 backend_op_name(v->op), v->ranks, i, reduce(inputs, i, v, 0, 1), want);
    }
    CHECK(nonzero > N / 4 || v->op == DROVER_MIN);
    for (int r = 0; r < v->ranks; r++)
        free(inputs[r]);
}

TEST(no_order_of_the_ranks_changes_a_sum_or_a_product_in_any_type)
{
    static const int sizes[] = {1, 2, 3, 8, 130, 300};
    static const enum drover_op ops[] = {DROVER_SUM, DROVER_PROD, DROVER_MIN, DROVER_MAX,
                                         DROVER_MULSUM};
    for (size_t s = 0; s < 6; s++)
        for (int t = 0; t < DROVER_TYPES; t++)
            for (size_t o = 0; o < COUNT_OF(ops); o++)
                check_exact(&(struct verify){COLLECTIVE_ALL_REDUCE, (enum drover_type)t, ops[o], 0,
                                             sizes[s], 7, NULL});
}

TEST(a_mean_is_the_sum_divided_and_whole_numbers_are_cut)
{
    int32_t in[3][N], mean[N];
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_INT32, DROVER_AVG, 0, 3, 1, NULL};
    for (int r = 0; r < 3; r++)
        verify_input(&v, r, in[r], N);
    verify_expected(&v, 0, 0, N, mean, N);
    for (int i = 0; i < N; i++)
        CHECK_INT(mean[i], (in[0][i] + in[1][i] + in[2][i]) / 3);
}

TEST(a_mean_of_floats_may_be_off_by_two_units_in_the_last_place)
{
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_FLOAT, DROVER_AVG, 0, 4, 1, NULL};
    float want[4] = {1, -1, 0, 1},
          got[4] = {bits_float(float_bits(1) + 2), bits_float(float_bits(-1) + 2),
                    bits_float(0x80000001), bits_float(float_bits(1) + 3)};
    CHECK_INT(verify_wrong(&v, got, want, 4), 1);
    v.op = DROVER_SUM;
    CHECK_INT(verify_wrong(&v, got, want, 4), 4);
    uint16_t half_want[2] = {0x3c00, 0x3c00}, half_got[2] = {0x3c02, 0x3c03};
    v.type = DROVER_HALF;
    v.op = DROVER_AVG;
    CHECK_INT(verify_wrong(&v, half_got, half_want, 2), 1);
    v.type = DROVER_INT32;
    int32_t i_want = 5, i_got = 6;
    CHECK_INT(verify_wrong(&v, &i_got, &i_want, 1), 1);
}

/* As NCCL computes it: the product with 1/n for each rank and every sum are rounded in the type. */
static uint64_t wrong_means(int ranks, uint16_t from(float), float to(uint16_t),
                            enum drover_type type)
{
    struct verify v = {COLLECTIVE_ALL_REDUCE, type, DROVER_AVG, 0, ranks, 1, NULL};
    AUTO(free) uint16_t *in = xcalloc(VERIFY_PERIOD, 2), *got = xcalloc(VERIFY_PERIOD, 2);
    AUTO(free) uint16_t *want = xcalloc(VERIFY_PERIOD, 2);
    float factor = to(from(1 / (float)ranks));
    for (int r = 0; r < ranks; r++) {
        verify_input(&v, r, in, VERIFY_PERIOD);
        for (int i = 0; i < VERIFY_PERIOD; i++)
            got[i] = from(to(got[i]) + to(from(to(in[i]) * factor)));
    }
    verify_expected(&v, 0, 0, VERIFY_PERIOD, want, VERIFY_PERIOD);
    return verify_wrong(&v, got, want, VERIFY_PERIOD);
}

TEST(a_mean_over_many_ranks_that_rounds_at_each_of_them_is_right)
{
    const int ranks[] = {3, 7, 8, 11, 12, 14, 24, 48, 100};
    for (size_t i = 0; i < COUNT_OF(ranks); i++) {
        CHECK_INT(wrong_means(ranks[i], bfloat16_from_float, bfloat16_to_float, DROVER_BFLOAT16),
                  0);
        CHECK_INT(wrong_means(ranks[i], half_from_float, half_to_float, DROVER_HALF), 0);
    }
}

TEST(a_nan_is_wrong)
{
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_FLOAT, DROVER_AVG, 0, 2, 1, NULL};
    float want = 1, got = bits_float(0x7fc00000);
    CHECK_INT(verify_wrong(&v, &got, &want, 1), 1);
}

TEST(wrong_elements_are_counted_one_by_one)
{
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_DOUBLE, DROVER_SUM, 0, 2, 1, NULL};
    double want[N], got[N];
    verify_expected(&v, 0, 0, N, want, N);
    memcpy(got, want, sizeof got);
    CHECK_INT(verify_wrong(&v, got, want, N), 0);
    got[0] += 1;
    got[N - 1] += 1;
    got[17] = -got[17] - 1;
    CHECK_INT(verify_wrong(&v, got, want, N), 3);
}

TEST(what_is_moved_comes_from_the_rank_and_place_it_should)
{
    uint8_t in[3][N], out[N];
    struct verify v = {COLLECTIVE_ALL_GATHER, DROVER_UINT8, DROVER_SUM, 0, 3, 5, NULL};
    CHECK_INT(verify_blocks(&v), 3);
    for (int r = 0; r < 3; r++)
        verify_input(&v, r, in[r], N);
    verify_expected(&v, 0, 2, N, out, N);
    CHECK(memcmp(out, in[2], N) == 0);
    v.coll = COLLECTIVE_BROADCAST;
    v.root = 1;
    CHECK_INT(verify_blocks(&v), 1);
    verify_expected(&v, 2, 0, N, out, N);
    CHECK(memcmp(out, in[1], N) == 0);
    v.coll = COLLECTIVE_ALL_TO_ALL; /* rank 1 gets the second 200 of each */
    CHECK_INT(verify_blocks(&v), 3);
    verify_expected(&v, 1, 2, 200, out, 200);
    CHECK(memcmp(out, in[2] + 200, 200) == 0);
}

TEST(a_block_of_an_alltoallv_begins_where_the_ranks_before_it_end)
{
    uint8_t in[3][N], out[N];
    const struct traffic traffic = {.spread = 1};
    struct verify v = {COLLECTIVE_ALL_TO_ALL_V, DROVER_UINT8, DROVER_SUM, 0, 3, 5, &traffic};
    CHECK_INT(verify_blocks(&v), 3);
    for (int r = 0; r < 3; r++)
        verify_input(&v, r, in[r], N);
    verify_expected(&v, 2, 1, 200, out, 192); /* rank 1 sends 400 to 0, 0 to itself, 192 to 2 */
    CHECK(memcmp(out, in[1] + 400, 192) == 0);
}

TEST(scattered_and_shifted_parts_come_from_root_and_neighbour)
{
    uint8_t in[3][N], out[N];
    struct verify v = {COLLECTIVE_SCATTER, DROVER_UINT8, DROVER_SUM, 1, 3, 5, NULL};
    for (int r = 0; r < 3; r++)
        verify_input(&v, r, in[r], N);
    verify_expected(&v, 2, 0, 200, out, 200);
    CHECK(memcmp(out, in[1] + 400, 200) == 0);
    v.coll = COLLECTIVE_SENDRECV;
    CHECK_INT(verify_blocks(&v), 1);
    verify_expected(&v, 0, 0, N, out, N);
    CHECK(memcmp(out, in[2], N) == 0);
    v.coll = COLLECTIVE_GATHER;
    CHECK_INT(verify_blocks(&v), 3);
    verify_expected(&v, 1, 2, N, out, N);
    CHECK(memcmp(out, in[2], N) == 0);
}

TEST(a_scattered_reduction_is_a_part_of_the_whole_one)
{
    int64_t whole[N], part[200];
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_INT64, DROVER_SUM, 0, 3, 5, NULL};
    verify_expected(&v, 0, 0, N, whole, N);
    v.coll = COLLECTIVE_REDUCE_SCATTER;
    verify_expected(&v, 2, 0, 200, part, 200);
    CHECK(memcmp(part, whole + 400, sizeof part) == 0);
}

TEST(ranks_places_and_seeds_have_different_values)
{
    double a[N], b[N];
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_DOUBLE, DROVER_SUM, 0, 4, 1, NULL};
    int same_rank = 0, same_seed = 0, same_place = 0;
    verify_input(&v, 0, a, N);
    verify_input(&v, 1, b, N);
    for (int i = 0; i < N; i++)
        same_rank += a[i] == b[i];
    v.seed = 2;
    verify_input(&v, 0, b, N);
    for (int i = 0; i < N; i++)
        same_seed += a[i] == b[i];
    for (int i = 64; i < N; i++)
        same_place += a[i] == a[i - 64];
    CHECK(same_rank < N / 20 && same_seed < N / 20 && same_place < N / 20); /* 1 in 128 by chance */
}

/* Rank 0's result if rank `odd` contributed `times` times to elements first … first + n - 1. */
static struct verify_diagnosis blame_of(const struct verify *v, int odd, int times, size_t first,
                                        size_t n)
{
    uint64_t expected[N] = {0}, got[N] = {0};
    char *in = calloc(N, 8);
    verify_expected(v, 0, 0, N, expected, N);
    memcpy(got, expected, sizeof got);
    verify_input(v, odd, in, N);
    for (size_t i = first; i < first + n; i++) {
        double x = as_double(expected, i, v->type) + (times - 1) * as_double(in, i, v->type);
        if (v->type == DROVER_FLOAT)
            ((float *)got)[i] = (float)x;
        else if (v->type == DROVER_HALF)
            ((uint16_t *)got)[i] = half_from_float((float)x);
        else
            ((int8_t *)got)[i] = (int8_t)x;
    }
    struct verify_finding f = {0};
    verify_find(v, &f, got, expected, 0, N);
    CHECK_INT(f.at[0], first);
    free(in);
    return verify_diagnose(v, &f, 0, N);
}

TEST(one_wrong_sum_tells_whose_part_is_missing_or_came_twice)
{
    static const enum drover_type types[] = {DROVER_FLOAT, DROVER_HALF};
    for (size_t t = 0; t < 2; t++)
        for (int odd = 0; odd < 8; odd++)
            for (size_t at = 0; at < 40; at++) {
                struct verify v = {COLLECTIVE_ALL_REDUCE, types[t], DROVER_SUM, 0, 8, 3, NULL};
                struct verify_diagnosis b = blame_of(&v, odd, 0, at, 1);
                CHECK_INT(b.cause, VERIFY_MISSING);
                CHECK_INT(b.rank, odd);
                CHECK_INT(b.ranks, 1);
                b = blame_of(&v, odd, 2, at, 1);
                CHECK_INT(b.cause, VERIFY_COUNTED_TWICE);
                CHECK_INT(b.rank, odd);
                CHECK_INT(b.ranks, 1);
            }
}

TEST(in_a_type_that_is_too_small_for_that_some_sums_tell_it)
{
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_INT8, DROVER_SUM, 0, 12, 3, NULL};
    struct verify_diagnosis b = blame_of(&v, 5, 0, 0, N);
    CHECK_INT(b.cause, VERIFY_MISSING);
    CHECK_INT(b.rank, 5);
    CHECK_INT(b.ranks, 1);
}

TEST(what_no_rank_explains_is_blamed_on_none)
{
    struct verify v = {COLLECTIVE_ALL_REDUCE, DROVER_FLOAT, DROVER_SUM, 0, 4, 3, NULL};
    float expected[N], got[N];
    verify_expected(&v, 0, 0, N, expected, N);
    memcpy(got, expected, sizeof got);
    got[17] += 0.5F;
    struct verify_finding f = {0};
    verify_find(&v, &f, got, expected, 0, N);
    CHECK_INT(f.n, 1);
    CHECK_INT(verify_diagnose(&v, &f, 0, N).cause, VERIFY_UNKNOWN);
    got[17] = NAN;
    memset(&f, 0, sizeof f);
    verify_find(&v, &f, got, expected, 0, N);
    CHECK_INT(verify_diagnose(&v, &f, 0, N).cause, VERIFY_UNKNOWN);
}

TEST(moved_data_tells_whose_it_is_or_that_none_came)
{
    struct verify v = {COLLECTIVE_ALL_TO_ALL, DROVER_DOUBLE, DROVER_SUM, 0, 5, 3, NULL};
    double expected[N], got[N], in[5 * N];
    struct verify_finding f = {.block = 2};
    verify_expected(&v, 1, 2, N, expected, N);
    verify_input(&v, 4, in, 5 * N);
    memcpy(got, in + 1 * N, sizeof got); /* rank 1's part of rank 4's data, instead of rank 2's */
    verify_find(&v, &f, got, expected, 0, N);
    struct verify_diagnosis b = verify_diagnose(&v, &f, 1, N);
    CHECK_INT(b.cause, VERIFY_FROM_OTHER);
    CHECK_INT(b.rank, 4);
    CHECK_INT(b.ranks, 1);
    memset(got, VERIFY_POISON, sizeof got);
    f = (struct verify_finding){.block = 2};
    verify_find(&v, &f, got, expected, 0, N);
    b = verify_diagnose(&v, &f, 1, N);
    CHECK_INT(b.cause, VERIFY_UNTOUCHED);
    CHECK_INT(b.rank, 2);
}
