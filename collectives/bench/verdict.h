/* verdict - what this hardware should give, how much of that there is, and what may be in the way.
 *
 * Facts in, verdict out: bench_facts.c finds them. The figures are for planning, GB/s one way, from
 * NCCL's own (src/graph/topo.h): 20 a link of NVLink 2 and 3, 20.6 of NVLink 4, 40.1 of NVLink 5;
 * 12 for PCIe 3 x16, scaled with its speed and width; 12 for a NIC of 100 Gb/s; and from what
 * operators check for (Azure's and GCP's health checks: 8 x A100 228, 8 x H100 460, 8 x H200 431, 4
 * x A100 on PCIe 25). None was measured by us. */
#ifndef DROVER_VERDICT_H
#define DROVER_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/comm/backend.h"
#include "common/strbuf.h"

/* Of one rank. A plain value that ranks send. */
struct verdict_facts {
    char host[64];
    char gpu[96];             /* "NVIDIA H100 80GB HBM3"; empty: it computes on the CPU */
    int pcie_gen, pcie_width; /* of the GPU's slot, as it runs; 0: not known */
    int pcie_width_max;       /* that it could have */
    int package;              /* socket that the rank runs on; -1: not known */
    double rdma_gbit;         /* of the node's InfiniBand and RoCE ports together */
    double net_gbit;          /* of its fastest network card; 0: not known */
    double named_gbit;        /* of the one that NCCL_SOCKET_IFNAME names; 0: none, or not known */
    double memory_gbps;       /* host memory, one copy; all ranks copy at the same time */
    uint64_t shm_bytes;       /* free in /dev/shm */
    bool p2p_off, ib_off, shm_off, nvls_off; /* NCCL_P2P_DISABLE and its like are set */
    bool acs;       /* a PCIe bridge sends GPUs' words to each other through the CPU */
    bool gpudirect; /* the driver that lets NICs reach GPU memory is there */
};

/* What was measured. */
struct verdict_run {
    enum collective coll;
    double busbw;  /* GB/s, the best row */
    size_t bytes;  /* of it */
    double expect; /* the user's, 0: by the facts */
};

enum { VERDICT_REASONS = 12 };
struct verdict {
    double low, high; /* GB/s that should be there; 0: not known */
    double percent;   /* of low */
    bool pass;
    char hop[96];                       /* what limits it: "18 links of NVLink 4" */
    char reasons[VERDICT_REASONS][160]; /* likely ones first; where it has not passed */
    int reason_count;
};

/* The slowest hop on the way counts. Passes at 90 % of the lower figure, or at all of the user's;
 * what cannot be known passes, and says so (low is 0). facts[0 … ranks-1]. */
void verdict_of(struct verdict *out, const struct verdict_facts *facts, int ranks,
                const struct verdict_run *run);

/* Lines with a '#'. */
void verdict_text(struct strbuf *out, const struct verdict *v, const struct verdict_run *run);

#endif
