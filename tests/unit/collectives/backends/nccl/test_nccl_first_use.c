#include "collectives/backends/nccl/nccl_first_use.h"

#include "tests/unit/test.h"

static const struct backend_call sum = {
    .coll = COLLECTIVE_ALL_REDUCE, .count = 256, .type = DROVER_FLOAT, .op = DROVER_SUM};

/* Returns true if `k` is a first use after a call of `before`. */
static bool first_after(struct backend_call before, struct backend_call k)
{
    uint64_t peers[4] = {0};
    struct nccl_first_use u = {.peers = peers};
    CHECK(nccl_first_use_check(&u, &before, 1));
    nccl_first_use_done(&u, &before, 1);
    CHECK(!nccl_first_use_check(&u, &before, 1));
    bool first = nccl_first_use_check(&u, &k, 1);
    return first;
}

TEST(another_collective_type_operation_or_size_is_a_first_use)
{
    struct backend_call k = sum;
    k.coll = COLLECTIVE_REDUCE;
    CHECK(first_after(sum, k));
    k = sum;
    k.type = DROVER_INT32;
    CHECK(first_after(sum, k));
    k = sum;
    k.op = DROVER_MAX;
    CHECK(first_after(sum, k));
    k = sum;
    k.count = 255;
    CHECK(first_after(sum, k));
    k.count = 511; /* the same power of 2 */
    CHECK(!first_after(sum, k));
    k.count = 0;
    CHECK(first_after(sum, k));
}

TEST(each_peer_and_direction_is_a_first_use_of_any_size)
{
    struct backend_call send = {.coll = COLLECTIVE_SEND, .count = 1, .root = 1}, k = send;
    k.count = 1 << 20;
    CHECK(!first_after(send, k));
    k.root = 2;
    CHECK(first_after(send, k));
    k = send;
    k.coll = COLLECTIVE_RECV;
    CHECK(first_after(send, k));
    k.coll = COLLECTIVE_GATHER;
    CHECK(first_after(send, k));
}

TEST(one_new_call_of_a_group_is_enough)
{
    uint64_t peers[4] = {0};
    struct nccl_first_use u = {.peers = peers};
    struct backend_call group[] = {sum, {.coll = COLLECTIVE_SEND, .count = 1, .root = 3}};
    nccl_first_use_done(&u, group, 1);
    CHECK(nccl_first_use_check(&u, group, 2));
    nccl_first_use_done(&u, group, 2);
    CHECK(!nccl_first_use_check(&u, group, 2));
}
