#include "collectives/bench/analysis/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/mem.h"
#include "common/plural.h"

enum { SMALL_BYTES = 16 << 20, SMALL_SHM = 64 << 20, PUBLISHED_BYTES = 1 << 30 };

/* GPUs with NVLink to all others of their node, or of their rack. The first match counts: PCIe
 * cards come first, and "H20" after "H200". verdict.h has the sources. */
static const struct {
    const char *name;
    int links, generation;
    double link_gbps;
    int domain; /* GPUs that one NVLink domain connects over several nodes; 0: those of a node */
} gpus[] = {
    {"PCIe", 0, 0, 0, 0},         {"PCIE", 0, 0, 0, 0},     {"RTX PRO", 0, 0, 0, 0},
    {"H100 NVL", 12, 4, 20.6, 0}, {"H100", 18, 4, 20.6, 0}, {"H200", 18, 4, 20.6, 0},
    {"H20", 18, 4, 20.6, 0},      {"H800", 8, 4, 20.6, 0},  {"A100", 12, 3, 20, 0},
    {"A800", 8, 3, 20, 0},        {"V100", 6, 2, 20, 0},    {"GB200", 18, 5, 40.1, 72},
    {"GB300", 18, 5, 40.1, 72},   {"B200", 18, 5, 40.1, 0}, {"B300", 18, 5, 40.1, 0},
    {"P100", 4, 1, 18, 0},
};

/* What an all_reduce of 1 GiB or more was published to give, in GB/s. The first match counts. These
 * GPUs are on boards that connect all of them; cards ("PCIe") are not. */
static const struct {
    const char *gpu;
    int ranks, nodes;
    double gbps;
    const char *date, *source;
} published[] = {
    {"GB200", 72, 18, 834.6, "2025-02", "CoreWeave, README of nccl-tests, NCCL 2.26.2"},
    {"GB200", 4, 1, 679.6, "2025-03", "Azure, ND GB200 v6, NCCL 2.25.1, ring"},
    {"H100 NVL", 2, 1, 208, "2026-05", "Azure, health check of NC80adis H100 v5"},
    {"H100", 8, 1, 460, "2026-05", "Azure, health check of ND H100 v5"},
    {"H200", 8, 1, 431, "2026-05", "Azure, health check of ND H200 v5"},
    {"A100", 8, 1, 228, "2026-05", "Azure, health check of ND A100 v4"},
    {"V100", 8, 1, 110, "2026-05", "Azure, health check of ND40rs v2"},
    {"MI300X", 8, 1, 304, "2026-07", "AMD, acceptance test with RCCL"},
    {"MI350X", 8, 1, 350, "2026-07", "AMD, acceptance test with RCCL"},
    {"MI355X", 8, 1, 350, "2026-07", "AMD, acceptance test with RCCL"},
};

/* The facts of all ranks. */
struct summary {
    int ranks, nodes, packages;
    const struct verdict_facts *worst; /* the rank with the slowest NVLink and PCIe */
    bool gpu, p2p_off, ib_off, shm_off, nvls_off, acs, gpudirect, narrow;
    double rdma_gbit, net_gbit, named_gbit, memory_gbps; /* the smallest values of all ranks */
    uint64_t shm_bytes;
};

static double pcie_gbps(const struct verdict_facts *f)
{
    int generation = f->pcie_gen ? f->pcie_gen : 3, width = f->pcie_width ? f->pcie_width : 16;
    return 12 * pow(2, generation - 3) * width / 16;
}

static int kind_of(const struct verdict_facts *f)
{
    for (size_t i = 0; i < COUNT_OF(gpus); i++)
        if (strstr(f->gpu, gpus[i].name))
            return (int)i;
    return 0;
}

static double nvlink_gbps(const struct verdict_facts *f)
{
    int k = kind_of(f);
    return gpus[k].links * gpus[k].link_gbps;
}

/* Returns true if rank r is the first one of its node, or of its socket. */
static bool first_of(const struct verdict_facts *f, int r, bool socket)
{
    for (int i = 0; i < r; i++)
        if (strcmp(f[i].host, f[r].host) == 0 && (!socket || f[i].package == f[r].package))
            return false;
    return true;
}

static struct summary gather(const struct verdict_facts *f, int ranks)
{
    struct summary t = {.ranks = ranks, .worst = f, .gpu = true, .gpudirect = true};
    t.rdma_gbit = t.net_gbit = t.named_gbit = t.memory_gbps = INFINITY;
    t.shm_bytes = UINT64_MAX;
    for (int r = 0; r < ranks; r++) {
        t.nodes += first_of(f, r, false);
        t.packages += strcmp(f[r].host, f[0].host) == 0 && first_of(f, r, true);
        t.gpu &= f[r].gpu[0] != '\0';
        t.p2p_off |= f[r].p2p_off;
        t.ib_off |= f[r].ib_off;
        t.shm_off |= f[r].shm_off;
        t.nvls_off |= f[r].nvls_off;
        t.acs |= f[r].acs;
        t.gpudirect &= f[r].gpudirect;
        t.narrow |= f[r].pcie_width < f[r].pcie_width_max;
        t.rdma_gbit = fmin(t.rdma_gbit, f[r].rdma_gbit);
        t.net_gbit = fmin(t.net_gbit, f[r].net_gbit);
        t.named_gbit = fmin(t.named_gbit, f[r].named_gbit);
        t.memory_gbps = fmin(t.memory_gbps, f[r].memory_gbps);
        t.shm_bytes = f[r].shm_bytes < t.shm_bytes ? f[r].shm_bytes : t.shm_bytes;
        double now = fmax(nvlink_gbps(&f[r]), pcie_gbps(&f[r]));
        if (now < fmax(nvlink_gbps(t.worst), pcie_gbps(t.worst)))
            t.worst = &f[r];
    }
    return t;
}

/* Between the GPUs of a node or of a domain. For an all_reduce, the NVLink switch of 8 Hopper or
 * newer GPUs does the sum (NVLS); that of a domain may. */
static void expect_between_gpus(struct verdict *v, const struct summary *t, enum collective coll)
{
    int k = kind_of(t->worst), per_node = t->ranks / t->nodes;
    if (gpus[k].links) {
        double ring = gpus[k].links * gpus[k].link_gbps;
        bool sums = coll == COLLECTIVE_ALL_REDUCE && gpus[k].generation >= 4;
        bool nvls = sums && per_node == 8;
        v->low = ring * (nvls ? 1.15 : 0.9);
        v->high = ring * (nvls || (sums && gpus[k].domain) ? 1.3 : 1);
        snprintf(v->hop, sizeof v->hop, "%d link%s of NVLink %d%s", gpus[k].links,
                 plural_s(gpus[k].links), gpus[k].generation,
                 nvls ? " with in-switch reduction" : "");
        return;
    }
    double slot = pcie_gbps(t->worst), socket = t->packages > 1 ? 16 : INFINITY;
    v->high = fmin(slot, socket);
    v->low = 0.85 * v->high;
    if (socket < slot)
        snprintf(v->hop, sizeof v->hop, "the link between sockets");
    else
        snprintf(v->hop, sizeof v->hop, "PCIe %d x%d", t->worst->pcie_gen ? t->worst->pcie_gen : 3,
                 t->worst->pcie_width ? t->worst->pcie_width : 16);
}

static void plan_by_nccl(struct verdict *v)
{
    v->source = "NCCL, src/graph/topo.h of 2.30.7";
    v->date = "2026-06";
}

/* Replaces the lower figure by a published one, if there is one for these GPUs. */
static void expect_published(struct verdict *v, const struct summary *t,
                             const struct verdict_run *run)
{
    for (size_t i = 0; i < COUNT_OF(published); i++) {
        if (run->coll != COLLECTIVE_ALL_REDUCE || run->bytes < PUBLISHED_BYTES ||
            t->ranks != published[i].ranks || t->nodes != published[i].nodes ||
            !strstr(t->worst->gpu, published[i].gpu) || strcasestr(t->worst->gpu, "PCIe"))
            continue;
        v->low = published[i].gbps;
        v->high = gpus[kind_of(t->worst)].links ? fmax(v->high, v->low) : v->low;
        v->source = published[i].source;
        v->date = published[i].date;
        if (!gpus[kind_of(t->worst)].links)
            snprintf(v->hop, sizeof v->hop, "the links of these GPUs");
        return;
    }
}

static void expect_between_nodes(struct verdict *v, const struct summary *t)
{
    double gbit = t->rdma_gbit > 0 ? t->rdma_gbit : t->net_gbit;
    double high = gbit * (t->rdma_gbit > 0 ? 0.12 : 0.117); /* TCP and IP headers */
    bool one_domain = t->gpu && t->ranks <= gpus[kind_of(t->worst)].domain;
    if (one_domain) { /* if the nodes are in different domains, the network counts */
        v->low = high > 0 && 0.8 * high < v->low ? 0.8 * high : v->low;
        snprintf(v->hop + strlen(v->hop), sizeof v->hop - strlen(v->hop),
                 ", or the network between two NVLink domains");
    } else if (gbit <= 0) {
        v->low = v->high = 0;
        snprintf(v->hop, sizeof v->hop, "network of unknown rate");
    } else if (v->high <= 0 || high < v->high) {
        v->high = high;
        v->low = 0.8 * high;
        plan_by_nccl(v);
        snprintf(v->hop, sizeof v->hop, "%.0f Gb/s of %s per node", gbit,
                 t->rdma_gbit > 0 ? "InfiniBand or RoCE" : "network");
    }
}

static void expect(struct verdict *v, const struct summary *t, const struct verdict_run *run)
{
    if (run->expect > 0) {
        v->low = v->high = run->expect;
        v->source = "--expect";
        snprintf(v->hop, sizeof v->hop, "as given by --expect");
        return;
    }
    if (t->ranks < 2) {
        snprintf(v->hop, sizeof v->hop, "a single rank has no bus");
        return;
    }
    plan_by_nccl(v);
    if (t->gpu) {
        expect_between_gpus(v, t, run->coll);
        expect_published(v, t, run);
    } else if (t->memory_gbps > 0) {
        /* low: memory is accessed for input and output, and again for intermediate results */
        v->low = t->memory_gbps / 4;
        v->high = t->memory_gbps;
        v->source = "copies of memory before this run";
        v->date = "";
        snprintf(v->hop, sizeof v->hop, "memory copies at %.1f GB/s per rank", t->memory_gbps);
    }
    if (t->nodes > 1)
        expect_between_nodes(v, t);
}

__attribute__((format(printf, 2, 3))) static void reason(struct verdict *v, const char *form, ...)
{
    if (v->reason_count == VERDICT_REASONS)
        return;
    va_list args;
    va_start(args, form);
    vsnprintf(v->reasons[v->reason_count++], sizeof v->reasons[0], form, args);
    va_end(args);
}

static void reasons_between(struct verdict *v, const struct summary *t)
{
    if (t->ib_off && t->rdma_gbit > 0)
        reason(v, "NCCL_IB_DISABLE is set: TCP is used instead of InfiniBand");
    if (t->gpu && t->rdma_gbit > 0 && !t->gpudirect)
        reason(v, "no GPUDirect: nvidia_peermem is not loaded, data passes through host memory");
    if (t->named_gbit > 0 && t->named_gbit < t->net_gbit)
        reason(v, "NCCL_SOCKET_IFNAME names an interface of %.0f Gb/s, another one has %.0f Gb/s",
               t->named_gbit, t->net_gbit);
    if (t->gpu && t->rdma_gbit <= 0)
        reason(v, "no InfiniBand or RoCE port found: TCP is used");
}

static void reasons(struct verdict *v, const struct summary *t, const struct verdict_run *run)
{
    char size[32];
    if (run->bytes < SMALL_BYTES && run->bytes >= run->largest_bytes)
        reason(v, "the best row has %s, a size limited by latency; try -e 1G",
               byte_size_format(size, sizeof size, run->bytes));
    if (t->gpu && t->p2p_off)
        reason(v, "NCCL_P2P_DISABLE is set: GPUs of a node communicate through host memory");
    if (t->nodes > 1)
        reasons_between(v, t);
    if (t->gpu && t->nvls_off && kind_of(t->worst) && gpus[kind_of(t->worst)].generation >= 4)
        reason(v, "NCCL_NVLS_ENABLE=0 is set: no reduction in the NVLink switch");
    if (t->gpu && t->acs && !gpus[kind_of(t->worst)].links)
        reason(v, "ACS is on at a PCIe bridge: traffic between GPUs passes through the CPU");
    if (t->narrow)
        reason(v, "a GPU uses %d of its %d PCIe lanes", t->worst->pcie_width,
               t->worst->pcie_width_max);
    if (t->shm_off)
        reason(v, "NCCL_SHM_DISABLE is set: ranks of a node communicate through sockets");
    if (t->shm_bytes < SMALL_SHM)
        reason(v, "/dev/shm has only %s free", byte_size_format(size, sizeof size, t->shm_bytes));
    if (t->packages > 1 && !(t->gpu && gpus[kind_of(t->worst)].links))
        reason(v, "the ranks of a node are on %d sockets", t->packages);
    if (!t->gpu && t->packages == 1 && t->nodes == 1 && t->ranks > 8)
        reason(v, "all %d ranks share the memory of one socket", t->ranks);
}

void verdict_of(struct verdict *out, const struct verdict_facts *facts, int ranks,
                const struct verdict_run *run)
{
    struct summary t = gather(facts, ranks);
    *out = (struct verdict){.source = "", .date = ""};
    expect(out, &t, run);
    out->percent = out->low > 0 ? 100 * run->busbw / out->low : 0;
    out->pass = out->low <= 0 || out->percent >= (run->expect > 0 ? 100 : 90);
    if (!out->pass)
        reasons(out, &t, run);
}

void verdict_text(struct strbuf *out, const struct verdict *v, const struct verdict_run *run)
{
    if (v->low <= 0) {
        strbuf_printf(out, "# Verdict              : none, %s\n", v->hop);
        return;
    }
    strbuf_printf(out, "# Verdict              : %s, %.4g GB/s is %.0f %% of ",
                  v->pass ? "PASS" : "FAIL", run->busbw, v->percent);
    if (run->expect > 0)
        strbuf_printf(out, "%.4g, %s\n", v->low, v->hop);
    else
        strbuf_printf(out, "%.4g (to %.4g): %s\n# Expected by          : %s%s%s\n", v->low, v->high,
                      v->hop, v->source, v->date[0] ? ", " : "", v->date);
    for (int i = 0; i < v->reason_count; i++)
        strbuf_printf(out, "#   %d. %s\n", i + 1, v->reasons[i]);
    if (!v->pass && v->reason_count == 0)
        strbuf_puts(out, "#   no known reason found\n");
}
