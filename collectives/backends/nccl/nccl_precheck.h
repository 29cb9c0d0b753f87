/* nccl_precheck - compares NCCL's prerequisites on all ranks before the ranks connect.
 *
 * An error names the rank and the node whose state would make NCCL hang or fail. */
#pragma once

#include <stdint.h>

#include "collectives/comm/backend.h"
#include "common/err.h"

/* A plain value that ranks send to each other. */
struct nccl_precheck_rank_info {
    uint64_t host;     /* equal on two ranks if NCCL considers them to be on one host */
    int32_t version;   /* NCCL's version number */
    uint32_t caps;     /* bits of enum backend_caps */
    char node[64];     /* host name, for messages */
    char bus[16];      /* the GPU's PCI bus id */
    char trouble[200]; /* why this rank cannot participate; "" if it can */
};

/* Sets `host` and `node`. NCCL_HOSTID has the same effect on `host` as in NCCL. */
void nccl_precheck_host(struct nccl_precheck_rank_info *mine);

/* Checks that NCCL_SOCKET_IFNAME matches an interface of this node that is up and has an address.
 * The value has NCCL's form ("eth,ib", "=eth0", "^docker").
 *   -EINVAL  no interface matches; the hint lists the interfaces */
int nccl_precheck_interfaces(const char *ifname, struct err *e);

/* Checks the information of all n ranks, in the order of the ranks.
 *   -EHOSTDOWN  a rank cannot participate
 *   -EPROTO     two ranks have different versions of NCCL
 *   -EEXIST     two ranks have the same GPU */
int nccl_precheck_check(const struct nccl_precheck_rank_info *ranks, int n, struct err *e);

/* Returns the bits of enum backend_caps that all n ranks have: GPUs of several generations differ
 * in the types that they reduce. */
unsigned nccl_precheck_caps(const struct nccl_precheck_rank_info *ranks, int n);

/* Warns if /dev/shm is too small for this many ranks on this host. */
void nccl_precheck_shm(int local_ranks);

/* Writes "NCCL 2.28.9". */
enum { NCCL_PRECHECK_VERSION_BYTES = 32 };
void nccl_precheck_version(char out[NCCL_PRECHECK_VERSION_BYTES], int version);
