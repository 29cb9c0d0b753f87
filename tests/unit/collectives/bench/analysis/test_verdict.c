#include "collectives/bench/analysis/verdict.h"

#include "tests/unit/test.h"

/* Nodes as operators have them, with their planning figures. */
static struct verdict_facts dgx(const char *gpu, int node)
{
    struct verdict_facts f = {.pcie_gen = 4, .pcie_width = 16, .pcie_width_max = 16};
    snprintf(f.gpu, sizeof f.gpu, "%s", gpu);
    snprintf(f.host, sizeof f.host, "node%d", node);
    f.rdma_gbit = 8 * 200;
    f.net_gbit = 100;
    f.shm_bytes = UINT64_C(1) << 34;
    f.gpudirect = true;
    return f;
}

static void fill(struct verdict_facts *out, int n, const char *gpu, int a_node)
{
    for (int r = 0; r < n; r++) {
        out[r] = dgx(gpu, r / a_node);
        out[r].package = r % a_node / (a_node / 2 ? a_node / 2 : 1);
    }
}

static struct verdict judge(const struct verdict_facts *f, int n, double busbw)
{
    struct verdict v;
    verdict_of(&v, f, n, &(struct verdict_run){COLLECTIVE_ALL_REDUCE, busbw, 1UL << 30, 0, 0});
    return v;
}

TEST(what_operators_take_for_healthy_passes_and_half_of_it_does_not)
{
    static const struct {
        const char *gpu;
        int gpus;
        double at_least;
    } known[] = {
        {"NVIDIA H100 80GB HBM3", 8, 460}, {"NVIDIA H200", 8, 431},
        {"NVIDIA A100-SXM4-80GB", 8, 228}, {"NVIDIA H100 NVL", 2, 208},
        {"NVIDIA V100-SXM2-32GB", 8, 110},
    };
    for (size_t i = 0; i < 5; i++) {
        struct verdict_facts f[8];
        fill(f, known[i].gpus, known[i].gpu, 8);
        struct verdict v = judge(f, known[i].gpus, known[i].at_least);
        if (!v.pass || v.percent > 130)
            FAIL("%s: %.0f is %.0f %% of %.0f", known[i].gpu, known[i].at_least, v.percent, v.low);
        CHECK(!judge(f, known[i].gpus, known[i].at_least / 2).pass);
    }
}

TEST(each_gpu_has_the_links_of_its_data_sheet)
{
    static const struct {
        const char *gpu, *hop;
        int gpus;
        double high; /* of an all_gather */
    } known[] = {
        {"NVIDIA H20", "18 links of NVLink 4", 8, 18 * 20.6},
        {"NVIDIA H20-3e", "18 links of NVLink 4", 8, 18 * 20.6},
        {"NVIDIA H200", "18 links of NVLink 4", 8, 18 * 20.6},
        {"NVIDIA B300 SXM6 AC", "18 links of NVLink 5", 8, 18 * 40.1},
        {"NVIDIA GB200", "18 links of NVLink 5", 4, 18 * 40.1},
        {"NVIDIA GB300", "18 links of NVLink 5", 4, 18 * 40.1},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        struct verdict_facts f[8];
        struct verdict v;
        fill(f, known[i].gpus, known[i].gpu, known[i].gpus);
        verdict_of(&v, f, known[i].gpus,
                   &(struct verdict_run){COLLECTIVE_ALL_GATHER, 1, 1UL << 30, 0, 1UL << 30});
        CHECK_STR(v.hop, known[i].hop);
        CHECK_NEAR(v.high, known[i].high, 1e-9);
    }
}

TEST(a_published_figure_has_its_source_and_date)
{
    static const struct {
        const char *gpu;
        int ranks, a_node;
        double low;
        const char *source;
    } known[] = {
        {"NVIDIA H100 80GB HBM3", 8, 8, 460, "Azure"}, {"NVIDIA H200", 8, 8, 431, "Azure"},
        {"NVIDIA A100-SXM4-80GB", 8, 8, 228, "Azure"}, {"NVIDIA H100 NVL", 2, 2, 208, "Azure"},
        {"NVIDIA GB200", 4, 4, 679.6, "Azure"},        {"AMD Instinct MI300X", 8, 8, 304, "AMD"},
    };
    struct verdict_facts f[72];
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        fill(f, known[i].ranks, known[i].gpu, known[i].a_node);
        struct verdict v = judge(f, known[i].ranks, known[i].low);
        CHECK_NEAR(v.low, known[i].low, 1e-9);
        CHECK(v.pass && v.high >= v.low);
        CHECK_HAS(v.source, known[i].source);
        CHECK_INT(strlen(v.date), 7);
        CHECK(!judge(f, known[i].ranks, 0.89 * known[i].low).pass);
        struct strbuf b = {0};
        verdict_text(&b, &v, &(struct verdict_run){COLLECTIVE_ALL_REDUCE, 1, 1, 0, 1});
        AUTO(free) char *line = xasprintf("# Expected by          : %s, %s\n", v.source, v.date);
        CHECK_HAS(strbuf_str(&b), line);
        strbuf_free(&b);
    }
    fill(f, 72, "NVIDIA GB200", 4);
    struct verdict v = judge(f, 72, 800);
    CHECK(v.high >= 834.6);
    CHECK_HAS(v.source, "CoreWeave");
}

TEST(a_published_figure_is_for_its_gpus_collective_and_sizes_only)
{
    struct verdict_facts f[8];
    struct verdict v;
    fill(f, 8, "NVIDIA A100 80GB PCIe", 8);
    CHECK_HAS(judge(f, 8, 20).source, "NCCL");
    fill(f, 8, "NVIDIA H100 80GB HBM3", 8);
    CHECK_HAS(judge(f, 4, 300).source, "NCCL");
    verdict_of(&v, f, 8, &(struct verdict_run){COLLECTIVE_ALL_GATHER, 350, 1UL << 30, 0, 0});
    CHECK(v.pass && strstr(v.source, "NCCL") && strcmp(v.date, "2026-06") == 0);
    verdict_of(&v, f, 8, &(struct verdict_run){COLLECTIVE_ALL_REDUCE, 350, 32UL << 20, 0, 0});
    CHECK_HAS(v.source, "NCCL");
}

TEST(an_rtx_pro_has_its_slot)
{
    struct verdict_facts f[2];
    fill(f, 2, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 2);
    for (int r = 0; r < 2; r++) {
        f[r].package = 0;
        f[r].pcie_gen = 5;
    }
    struct verdict v = judge(f, 2, 40);
    CHECK_STR(v.hop, "PCIe 5 x16");
    CHECK_NEAR(v.high, 48, 1e-9);
    CHECK(v.pass);
}

TEST(a_rack_of_one_nvlink_domain_may_have_nvlink_between_its_nodes)
{
    enum { RACK = 72, MORE = 76 };
    struct verdict_facts f[MORE];
    fill(f, MORE, "NVIDIA GB200", 4);
    struct verdict v = judge(f, RACK, 800);
    CHECK(v.pass && v.high > 800);
    CHECK_HAS(v.hop, "18 links of NVLink 5, or the network");
    CHECK_NEAR(v.low, 0.8 * 1600 * 0.12, 1e-9);
    v = judge(f, MORE, 800); /* two racks */
    CHECK_HAS(v.hop, "Gb/s of InfiniBand");
}

TEST(gpus_without_nvlink_have_what_their_slots_or_the_sockets_have)
{
    struct verdict_facts f[4];
    fill(f, 4, "NVIDIA A100 80GB PCIe", 4);
    struct verdict v = judge(f, 4, 15);
    CHECK_STR(v.hop, "the link between sockets");
    for (int r = 0; r < 4; r++)
        f[r].package = 0;
    v = judge(f, 4, 25);
    CHECK(v.pass);
    CHECK_STR(v.hop, "PCIe 4 x16");
    f[3].pcie_width = 8;
    v = judge(f, 4, 5);
    CHECK_STR(v.hop, "PCIe 4 x8");
    CHECK_HAS(v.reasons[0], "8 of its 16 PCIe lanes");
    CHECK_NEAR(v.high, 12, 1e-9);
}

TEST(between_nodes_the_slower_of_nvlink_and_network_counts)
{
    struct verdict_facts f[16];
    fill(f, 16, "NVIDIA A100-SXM4-80GB", 8);
    struct verdict v = judge(f, 16, 180);
    CHECK(v.pass);
    CHECK_NEAR(v.high, 192, 1e-9); /* 8 x 200 Gb/s */
    CHECK_STR(v.hop, "1600 Gb/s of InfiniBand or RoCE per node");
    for (int r = 0; r < 16; r++)
        f[r].rdma_gbit = 0;
    v = judge(f, 16, 11);
    CHECK(v.pass);
    CHECK_STR(v.hop, "100 Gb/s of network per node");
    for (int r = 0; r < 16; r++)
        f[r].net_gbit = 0;
    v = judge(f, 16, 11);
    CHECK(v.pass && v.low == 0);
}

TEST(reasons_come_with_what_was_seen_the_likely_ones_first)
{
    struct verdict_facts f[16];
    fill(f, 16, "NVIDIA H100 80GB HBM3", 8);
    f[3].p2p_off = f[5].ib_off = true;
    f[7].gpudirect = false;
    for (int r = 0; r < 16; r++)
        f[r].named_gbit = 1;
    f[9].shm_bytes = 8 << 20;
    f[2].acs = true; /* no effect on GPUs with NVLink */
    struct verdict v = judge(f, 16, 20);
    CHECK_INT(v.reason_count, 5);
    CHECK_HAS(v.reasons[0], "NCCL_P2P_DISABLE");
    CHECK_HAS(v.reasons[1], "NCCL_IB_DISABLE");
    CHECK_HAS(v.reasons[2], "GPUDirect");
    CHECK_HAS(v.reasons[3], "names an interface of 1 Gb/s, another one has 100");
    CHECK_HAS(v.reasons[4], "/dev/shm has only 8 MiB free");
    CHECK_INT(judge(f, 16, 200).reason_count, 0); /* it passes */
    fill(f, 2, "NVIDIA L40S", 2);
    f[0].acs = true;
    v = judge(f, 2, 3);
    CHECK_HAS(v.reasons[0], "ACS");
    CHECK_HAS(v.reasons[1], "2 sockets");
}

TEST(processors_have_what_memory_gives)
{
    struct verdict_facts f[2] = {{.host = "a", .memory_gbps = 10}, {.host = "a", .memory_gbps = 8}};
    f[0].shm_bytes = f[1].shm_bytes = UINT64_MAX;
    struct verdict v = judge(f, 2, 2.5);
    CHECK_NEAR(v.low, 2, 1e-9);
    CHECK(v.pass && v.date[0] == '\0');
    CHECK_HAS(v.source, "memory");
    CHECK(!judge(f, 2, 1).pass);
    CHECK(judge(f, 1, 0).pass);
}

TEST(a_larger_size_is_advised_only_if_none_was_measured)
{
    struct verdict_facts f[2] = {{.host = "a"}, {.host = "a"}};
    f[0].shm_bytes = f[1].shm_bytes = UINT64_C(1) << 34;
    struct verdict v;
    struct verdict_run run = {COLLECTIVE_ALL_REDUCE, 99, 4096, 100, .largest_bytes = 4096};
    verdict_of(&v, f, 2, &run);
    CHECK_INT(v.reason_count, 1);
    CHECK_HAS(v.reasons[0], "try -e 1G");
    run.largest_bytes = 8192;
    verdict_of(&v, f, 2, &run);
    CHECK(!v.pass && v.reason_count == 0);
}

TEST(what_the_user_expects_is_the_limit_itself)
{
    struct verdict_facts f[2] = {{.host = "a"}, {.host = "a"}};
    struct verdict v;
    struct strbuf b = {0};
    struct verdict_run run = {COLLECTIVE_ALL_REDUCE, 99, 4096, 100, 0};
    verdict_of(&v, f, 2, &run);
    CHECK(!v.pass);
    CHECK_HAS(v.reasons[0], "limited by latency");
    verdict_text(&b, &v, &run);
    CHECK_HAS(
        strbuf_str(&b),
        "# Verdict              : FAIL, 99 GB/s is 99 % of 100, as given by --expect\n#   1. ");
    run.busbw = 100;
    verdict_of(&v, f, 2, &run);
    CHECK(v.pass);
    strbuf_free(&b);
}
