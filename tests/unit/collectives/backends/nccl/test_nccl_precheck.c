#include "collectives/backends/nccl/nccl_precheck.h"

#include "tests/unit/test.h"

static struct nccl_precheck_rank_info cards[4];

static void make_cards(void)
{
    for (int r = 0; r < 4; r++) {
        cards[r] = (struct nccl_precheck_rank_info){.host = (uint64_t)(r / 2), .version = 22809};
        snprintf(cards[r].node, sizeof cards[r].node, "c0%d", r / 2);
        snprintf(cards[r].bus, sizeof cards[r].bus, "0000:%02X:00.0", r % 2);
    }
}

TEST(what_all_ranks_can_is_what_each_can)
{
    const struct nccl_precheck_rank_info ranks[] = {{.caps = 7}, {.caps = 5}, {.caps = 13}};
    CHECK_INT(nccl_precheck_caps(ranks, 3), 5);
    CHECK_INT(nccl_precheck_caps(ranks, 1), 7);
}

TEST(ranks_that_fit_together_pass)
{
    struct err e = {0};
    make_cards();
    CHECK_INT(nccl_precheck_check(cards, 4, &e), 0);
}

TEST(two_ranks_on_one_gpu_are_both_named_but_the_same_slot_of_two_hosts_is_fine)
{
    struct err e = {0};
    make_cards();
    memcpy(cards[3].bus, cards[2].bus, sizeof cards[2].bus);
    CHECK_INT(nccl_precheck_check(cards, 4, &e), -EEXIST);
    CHECK_STR(e.text, "ranks 2 and 3 on node c01 have the same GPU, 0000:00:00.0");
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    CHECK_INT(nccl_precheck_check(cards, 4, &e), 0);
}

TEST(a_hostid_of_its_own_makes_a_rank_another_host_for_nccl)
{
    struct nccl_precheck_rank_info a = {0}, b = {0}, c = {0};
    nccl_precheck_host(&a);
    nccl_precheck_host(&b);
    setenv("NCCL_HOSTID", "r1", 1);
    nccl_precheck_host(&c);
    CHECK(a.host == b.host && a.host != c.host);
    CHECK(a.node[0] != '\0');
    CHECK_STR(a.node, c.node);
}

TEST(versions_that_differ_are_told_with_rank_and_node)
{
    struct err e = {0};
    make_cards();
    cards[2].version = 23007;
    CHECK_INT(nccl_precheck_check(cards, 4, &e), -EPROTO);
    CHECK_STR(e.text, "rank 0 on node c00 has NCCL 2.28.9, rank 2 on node c01 has NCCL 2.30.7");
}

TEST(a_rank_in_trouble_comes_before_all_else)
{
    struct err e = {0};
    make_cards();
    cards[3] = (struct nccl_precheck_rank_info){.node = "c01", .trouble = "no usable GPU"};
    CHECK_INT(nccl_precheck_check(cards, 4, &e), -EHOSTDOWN);
    CHECK_STR(e.text, "rank 3 on node c01 cannot participate: no usable GPU");
}

TEST(the_interfaces_list_is_read_as_nccl_reads_it)
{
    struct err e = {0};
    CHECK_INT(nccl_precheck_interfaces(NULL, &e), 0);
    CHECK_INT(nccl_precheck_interfaces("", &e), 0);
    CHECK_INT(nccl_precheck_interfaces("lo", &e), 0);
    CHECK_INT(nccl_precheck_interfaces("nosuch,l", &e), 0); /* prefixes of names */
    CHECK_INT(nccl_precheck_interfaces("=nosuch,lo", &e), 0);
    CHECK_INT(nccl_precheck_interfaces("^nosuch", &e), 0);
    CHECK_INT(nccl_precheck_interfaces("=l", &e), -EINVAL);
    CHECK_INT(nccl_precheck_interfaces("ib0,mlx", &e), -EINVAL);
    CHECK_HAS(e.text,
              "NCCL_SOCKET_IFNAME=ib0,mlx matches no interface of this node with an address");
    CHECK_HAS(e.hint, "lo");
}
