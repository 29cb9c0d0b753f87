#include "collectives/bench/analysis/inspector.h"

#include "tests/unit/test.h"

/* A line as NCCL 2.30 writes it. */
static char *line_of(const char *comm, int rank, int ranks, int us, double busbw)
{
    return xasprintf(
        "{\"header\":{\"id\":\"%s\",\"comm_name\":\"DP\",\"rank\":%d,\"n_ranks\":%d,\"nnodes\":1},"
        "\"metadata\":{\"inspector_output_format_version\":\"v4.0\",\"git_rev\":\"\","
        "\"rec_mechanism\":\"nccl_profiler_interface\",\"dump_timestamp_us\":1748030377748202,"
        "\"hostname\":\"c%d\",\"pid\":%d},\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_sn\":7,"
        "\"coll_msg_size_bytes\":1048576,\"coll_exec_time_us\":%d,"
        "\"coll_timing_source\":\"kernel_gpu\",\"coll_algobw_gbs\":%f,\"coll_busbw_gbs\":%f}}",
        comm, rank, ranks, rank / 2, 100 + rank, us, busbw / 2, busbw);
}

static int add(struct inspector *t, char *line)
{
    AUTO(free) char *mine = line;
    struct err e = {0};
    return inspector_add(t, mine, strlen(mine), &e);
}

TEST(busbw_is_the_mean_over_time_of_each_rank)
{
    struct inspector t = {0};
    CHECK_INT(add(&t, line_of("0xa", 1, 2, 100, 300)), 0);
    CHECK_INT(add(&t, line_of("0xa", 1, 2, 300, 100)), 0);
    CHECK_INT(add(&t, line_of("0xa", 0, 2, 200, 150)), 0);
    CHECK_INT(add(&t, line_of("0xb", 1, 2, 100, 7)), 0);
    inspector_sort(&t);
    CHECK_INT(t.count, 3);
    CHECK_STR(t.rows[0].comm, "0xa");
    CHECK_INT(t.rows[0].rank, 0);
    CHECK_NEAR(inspector_busbw(&t.rows[1]), 150, 1e-9); /* (300 + 3 x 100) / 4 */
    CHECK_INT(t.rows[1].ops, 2);
    CHECK_STR(t.rows[2].comm, "0xb");
    inspector_free(&t);
}

TEST(lines_that_are_no_record_are_counted_and_change_nothing)
{
    static const char *const bad[] = {
        "",    "{", "[]", "null", "{\"header\":{}}", "{\"header\":{\"id\":\"0xa\",\"rank\":0}}",
        "\xff"};
    struct inspector t = {0};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(inspector_add(&t, bad[i], strlen(bad[i]), &e) < 0);
    CHECK(add(&t, line_of("0xa", 2, 2, 1, 1)) < 0); /* rank 2 of 2 */
    CHECK(add(&t, line_of("0xa", -1, 2, 1, 1)) < 0);
    char *cut = line_of("0xa", 0, 2, 1, 1);
    for (size_t len = strlen(cut); len-- > 0;)
        CHECK(inspector_add(&t, cut, len, &e) < 0);
    CHECK_INT(t.count, 0);
    CHECK_INT(t.broken, t.lines);
    free(cut);
    inspector_free(&t);
}

TEST(an_operation_without_a_time_counts_but_has_no_bandwidth)
{
    struct inspector t = {.min_bytes = 1 << 20};
    CHECK_INT(add(&t, line_of("0xa", 0, 1, 0, 0)), 0);
    struct inspector_group g = inspector_judge(&t, 0);
    CHECK(g.slowest == g.end && g.late == g.end);
    CHECK_NEAR(inspector_busbw(&t.rows[0]), 0, 0);
    t.min_bytes++;
    CHECK_INT(add(&t, line_of("0xa", 0, 1, 5, 1)), 0);
    CHECK_INT(t.left_out, 1);
    CHECK_INT(t.rows[0].ops, 1);
    inspector_free(&t);
}

TEST(the_slowest_and_the_late_rank_of_each_communicator_are_named)
{
    struct inspector t = {0};
    for (int rank = 0; rank < 8; rank++)
        if (rank != 4 && rank != 7)
            CHECK_INT(add(&t, line_of("0xa", rank, 8,
                                      rank == 5   ? 400
                                      : rank == 2 ? 1100
                                                  : 1000,
                                      rank == 5   ? 250
                                      : rank == 2 ? 90
                                                  : 100)),
                      0);
    for (int rank = 0; rank < 2; rank++)
        CHECK_INT(add(&t, line_of("0xb", rank, 2, 100, 10)), 0);
    inspector_sort(&t);
    struct inspector_group g = inspector_judge(&t, 0);
    CHECK_INT(g.end, 6);
    CHECK_INT(t.rows[g.slowest].rank, 2);
    CHECK_INT(t.rows[g.late].rank, 5);
    CHECK_NEAR(g.median, 100, 1e-9);
    CHECK_INT(g.missing, 2);
    CHECK_INT(g.first_missing, 4);
    g = inspector_judge(&t, g.end);
    CHECK_INT(g.end, 8);
    CHECK(g.late == g.end && g.missing == 0);
    struct strbuf b = {0};
    inspector_show(&b, &t);
    CHECK_HAS(strbuf_str(&b), "slowest rank 2 on c1, 90.00 GB/s, median 100.00 GB/s (90 %)\n"
                              "#   rank 5 on c2 has the shortest operations");
    CHECK_HAS(strbuf_str(&b), "ranks without a record: 2 of 8, rank 4 and others\n");
    AUTO(json) json_t *all = inspector_json(&t);
    const json_t *first = json_array_get(json_object_get(all, "communicators"), 0);
    CHECK_INT(json_integer_value(json_object_get(first, "slowest_rank")), 2);
    CHECK_INT(json_integer_value(json_object_get(first, "missing_ranks")), 2);
    strbuf_free(&b);
    inspector_free(&t);
}
