/* nccl_meet - what ranks tell each other before NCCL connects them, so that what would make it hang
 * or fail is named, with rank and node, at every rank. */
#ifndef DROVER_NCCL_PRECHECK_H
#define DROVER_NCCL_PRECHECK_H

#include <stdint.h>

#include "collectives/comm/backend.h"
#include "common/err.h"

/* Sent as it lies in memory. */
struct nccl_precheck_rank_info {
    uint64_t host;     /* alike where NCCL takes two ranks to be on one host */
    int32_t version;   /* NCCL's number */
    char node[64];     /* for people */
    char bus[16];      /* the GPU's PCI bus id */
    char trouble[200]; /* why this rank cannot take part; "": it can */
};

/* Fills in host and node; NCCL_HOSTID counts as it does for NCCL. */
void nccl_precheck_host(struct nccl_precheck_rank_info *mine);

/* NCCL_SOCKET_IFNAME, as NCCL reads it ("eth,ib", "=eth0", "^docker"): does an interface of this
 * node fit that is up and has an address?
 *   -EINVAL  none does; the text says which there are */
int nccl_precheck_interfaces(const char *wanted, struct err *e);

/* Every rank's card, in the order of ranks, what NCCL would stumble over:
 *   -EHOSTDOWN  a rank is in trouble    -EPROTO  two have different versions
 *   -EEXIST     two have the same GPU */
int nccl_precheck_check(const struct nccl_precheck_rank_info *cards, int n, struct err *e);

/* Warns where /dev/shm is too small for so many ranks of this host. */
void nccl_precheck_shm(int ranks_here);

/* "NCCL 2.28.9" */
enum { NCCL_PRECHECK_VERSION_BYTES = 32 };
void nccl_precheck_version(char out[NCCL_PRECHECK_VERSION_BYTES], int version);

#endif
