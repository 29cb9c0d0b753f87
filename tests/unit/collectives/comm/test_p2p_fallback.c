#include "collectives/comm/p2p_fallback.h"

#include "tests/unit/test.h"

enum { RANKS = 4 };

/* Expands the call for one of RANKS ranks. */
static int messages(const struct backend_call *call, int rank, struct backend_call out[2 * RANKS])
{
    return (int)p2p_fallback_expand(out, call, rank, RANKS);
}

static const struct backend_call *find(const struct backend_call *calls, int n,
                                       enum collective coll, int peer)
{
    for (int i = 0; i < n; i++)
        if (calls[i].coll == coll && calls[i].root == peer)
            return &calls[i];
    return NULL;
}

TEST(an_all_to_all_is_a_send_to_and_a_receive_from_every_rank)
{
    float in[RANKS * 3], out[RANKS * 3];
    struct backend_call k = {
        .coll = COLLECTIVE_ALL_TO_ALL, .in = in, .out = out, .count = 3, .type = DROVER_FLOAT};
    struct backend_call calls[2 * RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        int n = messages(&k, rank, calls);
        CHECK_INT(n, 2 * RANKS);
        for (int r = 0; r < RANKS; r++) {
            const struct backend_call *s = find(calls, n, COLLECTIVE_SEND, r);
            const struct backend_call *v = find(calls, n, COLLECTIVE_RECV, r);
            CHECK(s && v && s->in == in + r * 3 && v->out == out + r * 3);
            CHECK_INT(s->count, 3);
            CHECK_INT(v->type, DROVER_FLOAT);
        }
        CHECK_INT(calls[0].root, rank); /* each rank begins with another peer */
    }
}

TEST(a_gather_is_a_send_to_the_root_which_receives_from_all)
{
    int32_t in[2], out[2 * RANKS];
    struct backend_call calls[2 * RANKS], k = {.coll = COLLECTIVE_GATHER, .in = in, .count = 2};
    k.type = DROVER_INT32;
    k.root = 2;
    CHECK_INT(messages(&k, 0, calls), 1);
    CHECK(calls[0].coll == COLLECTIVE_SEND && calls[0].root == 2 && calls[0].in == in);
    k.out = out;
    CHECK_INT(messages(&k, 2, calls), 1 + RANKS);
    CHECK(find(calls, 1 + RANKS, COLLECTIVE_RECV, 3)->out == out + 6);
}

TEST(a_scatter_is_the_other_way_round)
{
    int32_t in[2 * RANKS], out[2];
    struct backend_call calls[2 * RANKS], k = {.coll = COLLECTIVE_SCATTER, .out = out, .count = 2};
    k.type = DROVER_INT32;
    k.root = 1;
    CHECK_INT(messages(&k, 3, calls), 1);
    CHECK(calls[0].coll == COLLECTIVE_RECV && calls[0].root == 1 && calls[0].out == out);
    k.in = in;
    CHECK_INT(messages(&k, 1, calls), RANKS + 1);
    CHECK(find(calls, RANKS + 1, COLLECTIVE_SEND, 3)->in == in + 6);
}

TEST(a_part_that_lies_in_place_stays_there)
{
    int64_t b[RANKS];
    struct backend_call calls[2 * RANKS];
    struct backend_call k = {.coll = COLLECTIVE_GATHER, .in = b + 2, .out = b, .count = 1};
    k.type = DROVER_INT64;
    k.root = 2;
    int n = messages(&k, 2, calls);
    CHECK_INT(n, RANKS - 1);
    CHECK(!find(calls, n, COLLECTIVE_RECV, 2) && !find(calls, n, COLLECTIVE_SEND, 2));
    k = (struct backend_call){.coll = COLLECTIVE_SCATTER, .in = b, .out = b + 2, .count = 1};
    k.type = DROVER_INT64;
    k.root = 2;
    n = messages(&k, 2, calls);
    CHECK_INT(n, RANKS - 1);
    CHECK(!find(calls, n, COLLECTIVE_RECV, 2) && !find(calls, n, COLLECTIVE_SEND, 2));
}

TEST(uneven_parts_begin_where_they_should_and_empty_ones_are_left_out)
{
    uint16_t in[100], out[100];
    const size_t numbers[] = {0, 5, 7, 0, 0, 10, 20, 30}, counts[] = {1, 0, 2, 0, 0, 3, 4, 5};
    struct drover_parts send = {numbers, numbers + 4}, recv = {counts, counts + 4};
    struct backend_call calls[2 * RANKS],
        k = {.coll = COLLECTIVE_ALL_TO_ALL_V, .in = in, .out = out};
    k.type = DROVER_HALF;
    k.send = &send;
    k.recv = &recv;
    int n = messages(&k, 0, calls);
    CHECK_INT(n, 4);
    CHECK(find(calls, n, COLLECTIVE_SEND, 1)->in == in + 10);
    CHECK_INT(find(calls, n, COLLECTIVE_SEND, 2)->count, 7);
    CHECK(find(calls, n, COLLECTIVE_RECV, 2)->out == out + 4);
    CHECK_INT(find(calls, n, COLLECTIVE_RECV, 0)->count, 1);
}

TEST(a_sendrecv_goes_round_in_a_ring)
{
    struct backend_call calls[2 * RANKS], k = {.coll = COLLECTIVE_SENDRECV, .in = &k, .out = calls};
    k.count = 1;
    CHECK_INT(messages(&k, 0, calls), 2);
    CHECK_INT(calls[0].root, 1);
    CHECK_INT(calls[1].root, RANKS - 1);
    CHECK_INT((int)p2p_fallback_expand(calls, &k, 0, 1), 2);
    CHECK_INT(calls[0].root, 0);
}

/* No backend needs it today: the row alone makes any collective that moves data. */
TEST(a_broadcast_and_an_all_gather_follow_from_their_rows_too)
{
    float in[3], out[RANKS * 3];
    struct backend_call calls[2 * RANKS];
    struct backend_call k = {.coll = COLLECTIVE_BROADCAST, .in = in, .out = out, .count = 3};
    k.type = DROVER_FLOAT;
    k.root = 1;
    int n = messages(&k, 1, calls);
    CHECK_INT(n, RANKS + 1);
    CHECK(find(calls, n, COLLECTIVE_SEND, 3)->in == in);
    CHECK(find(calls, n, COLLECTIVE_RECV, 1)->out == out);
    CHECK_INT(messages(&k, 0, calls), 1);
    k.coll = COLLECTIVE_ALL_GATHER;
    n = messages(&k, 0, calls);
    CHECK_INT(n, 2 * RANKS);
    CHECK(find(calls, n, COLLECTIVE_SEND, 3)->in == in);
    CHECK(find(calls, n, COLLECTIVE_RECV, 3)->out == out + 9);
}
