#include "collectives/bench/analysis/busbw.h"

#include "tests/unit/test.h"

TEST(factors_are_those_of_nccl_tests)
{
    CHECK_NEAR(collective_row(COLLECTIVE_ALL_REDUCE)->busbw_factor(8), 1.75, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_ALL_REDUCE)->busbw_factor(2), 1, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_ALL_GATHER)->busbw_factor(8), 0.875, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_REDUCE_SCATTER)->busbw_factor(4), 0.75, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_ALL_TO_ALL)->busbw_factor(16), 0.9375, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_ALL_TO_ALL_V)->busbw_factor(4), 0.75, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_GATHER)->busbw_factor(8), 0.875, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_SCATTER)->busbw_factor(8), 0.875, 1e-15);
    CHECK_NEAR(collective_row(COLLECTIVE_SENDRECV)->busbw_factor(8), 1, 0);
    CHECK_NEAR(collective_row(COLLECTIVE_BROADCAST)->busbw_factor(8), 1, 0);
    CHECK_NEAR(collective_row(COLLECTIVE_REDUCE)->busbw_factor(8), 1, 0);
}

TEST(one_rank_moves_nothing_over_a_bus)
{
    CHECK_NEAR(collective_row(COLLECTIVE_ALL_REDUCE)->busbw_factor(1), 0, 0);
    CHECK_NEAR(collective_row(COLLECTIVE_ALL_GATHER)->busbw_factor(1), 0, 0);
}

TEST(a_rate_is_in_billions_of_bytes)
{
    CHECK_NEAR(busbw_rate(1073741824, 0.01), 107.3741824, 1e-9);
    CHECK_NEAR(busbw_rate(0, 0.01), 0, 0);
    CHECK_NEAR(busbw_rate(8, 0), 0, 0);
}

static void check_shape(struct busbw_shape s, size_t count, size_t in, size_t out, size_t bytes)
{
    CHECK_INT(s.count, count);
    CHECK_INT(s.in_bytes, in);
    CHECK_INT(s.out_bytes, out);
    CHECK_INT(s.bytes, bytes);
}

TEST(reductions_and_broadcasts_count_the_whole_buffer)
{
    check_shape(busbw_shape(COLLECTIVE_ALL_REDUCE, 1024, 4, 8), 256, 1024, 1024, 1024);
    check_shape(busbw_shape(COLLECTIVE_BROADCAST, 1023, 8, 3), 127, 1016, 1016, 1016);
    check_shape(busbw_shape(COLLECTIVE_REDUCE, 3, 4, 2), 0, 0, 0, 0);
}

TEST(gathers_count_a_ranks_part_in_multiples_of_16_bytes)
{
    check_shape(busbw_shape(COLLECTIVE_ALL_GATHER, 1024, 4, 8), 32, 128, 1024, 1024);
    check_shape(busbw_shape(COLLECTIVE_REDUCE_SCATTER, 1024, 4, 8), 32, 1024, 128, 1024);
    check_shape(busbw_shape(COLLECTIVE_ALL_TO_ALL, 1024, 4, 8), 32, 1024, 1024, 1024);
    check_shape(busbw_shape(COLLECTIVE_ALL_GATHER, 1000, 2, 3), 160, 320, 960, 960);
    check_shape(busbw_shape(COLLECTIVE_ALL_GATHER, 100, 1, 3), 32, 32, 96, 96);
    check_shape(busbw_shape(COLLECTIVE_ALL_GATHER, 8, 4, 2), 0, 0, 0, 0);
    check_shape(busbw_shape(COLLECTIVE_GATHER, 1024, 4, 8), 32, 128, 1024, 1024);
    check_shape(busbw_shape(COLLECTIVE_SCATTER, 1024, 4, 8), 32, 1024, 128, 1024);
    check_shape(busbw_shape(COLLECTIVE_ALL_TO_ALL_V, 1024, 4, 8), 32, 1024, 1024, 1024);
    check_shape(busbw_shape(COLLECTIVE_SENDRECV, 1024, 4, 8), 256, 1024, 1024, 1024);
}

TEST(in_place_a_rank_works_at_its_own_part)
{
    struct busbw_shape s = busbw_shape(COLLECTIVE_ALL_GATHER, 1024, 4, 8);
    CHECK_INT(s.in_stride, 128);
    CHECK_INT(s.out_stride, 0);
    s = busbw_shape(COLLECTIVE_REDUCE_SCATTER, 1024, 4, 8);
    CHECK_INT(s.in_stride, 0);
    CHECK_INT(s.out_stride, 128);
    s = busbw_shape(COLLECTIVE_ALL_REDUCE, 1024, 4, 8);
    CHECK_INT(s.in_stride + s.out_stride, 0);
}
