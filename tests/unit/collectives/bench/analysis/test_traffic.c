#include "collectives/bench/analysis/traffic.h"

#include "tests/unit/test.h"

/* nccl-tests' example: the more, the further, and nothing to itself. */
TEST(without_a_matrix_the_parts_grow_with_the_distance)
{
    const struct traffic t = {.spread = 1};
    const struct traffic_call c = {&t, 4, 4, 96}; /* 384 bytes on average, 1536 in total */
    static const size_t bytes[] = {0, 256, 512, 768};
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            CHECK_INT(traffic_count(&c, from, to), bytes[(to - from + 4) % 4] / 4);
    CHECK_INT(traffic_send_start(&c, 1, 0), 0);
    CHECK_INT(traffic_send_start(&c, 1, 3), 768 / 4 + 0 + 256 / 4);
    CHECK_INT(traffic_recv_start(&c, 1, 3), 256 / 4 + 0 + 768 / 4);
    CHECK_INT(traffic_max_bytes(&c), 1536);
}

TEST(the_spread_is_between_even_parts_and_the_distance)
{
    struct traffic t = {.spread = 0};
    const struct traffic_call c = {&t, 4, 4, 96};
    for (int to = 0; to < 4; to++)
        CHECK_INT(traffic_count(&c, 2, to), 96);
    t.spread = 0.5;
    CHECK_INT(traffic_count(&c, 2, 2), 48);
    CHECK_INT(traffic_count(&c, 2, 1), (192 + 384) / 4);
}

TEST(every_rank_sends_and_receives_the_same_in_total_in_parts_of_16_bytes)
{
    const struct traffic t = {.spread = 1};
    for (int n = 1; n <= 9; n++)
        for (size_t element = 1; element <= 8; element *= 2) {
            const struct traffic_call c = {&t, n, element, 1008};
            size_t all = traffic_max_bytes(&c);
            CHECK(all <= 1008 * element * (size_t)n &&
                  all + 16UL * (size_t)n > 1008 * element * (size_t)n);
            for (int r = 0; r < n; r++) {
                CHECK_INT(traffic_send_start(&c, r, n) * element, all);
                CHECK_INT(traffic_recv_start(&c, r, n) * element, all);
                CHECK_INT(traffic_count(&c, r, 0) * element % 16, 0);
            }
        }
}

TEST(a_matrix_says_what_goes_where)
{
    struct traffic t;
    struct err e = {0};
    CHECK_INT(traffic_read(&t, "\n 100 200\t150 \r\n50 1e2 75\n\n300 150.5 200", 2, &e), 0);
    CHECK_INT(t.size, 3);
    struct traffic_call c = {&t, 3, 4, 0};
    CHECK_INT(traffic_count(&c, 0, 0), 192 / 4); /* twice 100, in parts of 16 bytes */
    CHECK_INT(traffic_count(&c, 2, 1), 288 / 4); /* of 301 */
    CHECK_INT(traffic_send_start(&c, 2, 2), (592 + 288) / 4);
    CHECK_INT(traffic_recv_start(&c, 0, 3), (192 + 96 + 592) / 4);
    CHECK_INT(traffic_max_bytes(&c), 592 + 288 + 400); /* sent by rank 2 */
    c.ranks = 2;                                       /* the first rows and columns only */
    CHECK_INT(traffic_max_bytes(&c), 192 + 400);
    traffic_free(&t);
}

TEST(what_is_no_matrix_is_refused_with_its_place)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "0 rows"},
        {"1 2", "1 row and 2 columns"},
        {"1 2\n3", "row 2 has 1 column,"},
        {"1 2\n3 x", "row 2, column 2: 'x' is not a number of bytes"},
        {"1 -2\n3 4", "row 1, column 2: '-2'"},
        {"1,2\n3,4", "row 1, column 1: '1,2'"},
        {"nan 1\n1 1", "'nan'"},
        {"1e300 1\n1 1", "'1e300'"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct traffic t = {0};
        struct err e = {0};
        CHECK_INT(traffic_read(&t, bad[i].text, 1, &e), -EINVAL);
        CHECK_HAS(e.text, bad[i].why);
        CHECK(!t.matrix);
    }
}
