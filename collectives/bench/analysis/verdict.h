/* verdict - compares a measured busbw with the one that the hardware should give, and names likely
 * reasons for a difference.
 *
 * hardware_facts.c reads the facts. The figures are planning figures in GB/s, one way: NCCL's
 * (src/graph/topo.h), 20 per link of NVLink 2 and 3, 20.6 for NVLink 4, 40.1 for NVLink 5; 12 for
 * PCIe 3 x16, scaled with speed and width; 12 for a NIC of 100 Gb/s. An all_reduce of at least 1
 * GiB on GPUs of a published measurement, or of an operator's health check, is held against that
 * figure instead: the table `published`, and docs/measurements/collectives.md. NVLink per GPU, both
 * ways, by NVIDIA's data sheets: H20 900 GB/s, as the H100 and the H200 (18 links of NVLink 4);
 * B200, B300, GB200 and GB300 1.8 TB/s (18 links of NVLink 5), in GB200 and GB300 NVL72 in one
 * domain of 72 GPUs over 18 nodes; RTX PRO (Blackwell) none, PCIe 5 x16. None of them was measured
 * for drover. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collectives/comm/backend.h"
#include "common/strbuf.h"

/* Facts of one rank. A plain value that ranks send to each other. */
struct verdict_facts {
    char host[64];
    char gpu[96];             /* "NVIDIA H100 80GB HBM3"; empty: the rank computes on the CPU */
    int pcie_gen, pcie_width; /* of the GPU's slot, as negotiated; 0: not known */
    int pcie_width_max;       /* width that the GPU supports */
    int package;              /* the rank's socket; -1: not known */
    double rdma_gbit;         /* sum of the node's InfiniBand and RoCE ports, Gb/s */
    double net_gbit;          /* the fastest network interface, Gb/s; 0: not known */
    double named_gbit;        /* the interface of NCCL_SOCKET_IFNAME, Gb/s; 0: none, or not known */
    double memory_gbps;       /* copy of host memory, while all ranks copy, GB/s */
    uint64_t shm_bytes;       /* free in /dev/shm */
    bool p2p_off, ib_off, shm_off,
        nvls_off;   /* NCCL_P2P_DISABLE, NCCL_IB_DISABLE, NCCL_SHM_DISABLE, NCCL_NVLS_ENABLE=0 */
    bool acs;       /* a PCIe bridge routes GPU-to-GPU traffic through the CPU */
    bool gpudirect; /* the driver that gives NICs access to GPU memory is loaded */
};

/* What was measured. */
struct verdict_run {
    enum collective coll;
    double busbw;         /* of the best row, GB/s */
    size_t bytes;         /* size of that row */
    double expect;        /* the user's expectation, GB/s; 0: from the facts */
    size_t largest_bytes; /* largest size that was measured */
};

enum { VERDICT_REASONS = 12 };
struct verdict {
    double low, high; /* expected GB/s; 0: not known */
    double percent;   /* busbw in % of low */
    bool pass;
    const char *source, *date;          /* of the expected figures: a name, and "2026-05" or "" */
    char hop[96];                       /* the limiting hop: "18 links of NVLink 4" */
    char reasons[VERDICT_REASONS][160]; /* most likely first; none if passed */
    int reason_count;
};

/* Computes the verdict from facts[0 … ranks-1]. The slowest hop counts. The result passes at 90 %
 * of the lower expected figure, or at 100 % of the user's expectation. It also passes if no figure
 * is known (low is 0). */
void verdict_of(struct verdict *out, const struct verdict_facts *facts, int ranks,
                const struct verdict_run *run);

/* Appends the verdict as lines that begin with '#'. */
void verdict_text(struct strbuf *out, const struct verdict *v, const struct verdict_run *run);
