/* seat - which rank goes to which host. Pure. As Open MPI 4.1's mpirun does it: hosts are filled
 * one after the other up to their slots, or in turn with --map-by node; -N and ppr give each the
 * same number; ranks are numbered host by host, or in turn (--rank-by node). */
#ifndef DROVER_RANK_MAP_H
#define DROVER_RANK_MAP_H

#include <stdbool.h>

#include "launcher/plan/plan.h"

struct rank_map_host {
    const char *name;
    int slots;        /* ranks that it takes; 0: nobody knows */
    bool slots_given; /* its user said so; else `slots` is what the host has room for, and more
                  ranks may be seated there (the CPUs and GPUs say then whether that is right) */
    int max_slots;    /* 0: no limit */
    int objects;      /* it has of what spec.ppr_of names; 1 for a node */
};

struct rank_map {
    int host;
    int local_rank; /* the how-manieth on its host */
};

/* Seats the ranks of `s` (ranks, per_node, ppr, ppr_of, map_by, rank_by, oversubscribe count).
 * `*out` is an array of seats, one for each rank, to be freed. Returns their number.
 *   -EINVAL  not enough slots, or nothing says how many ranks; the hint has the cure */
int rank_map_make(struct rank_map **out, const struct launch_spec *s,
                  const struct rank_map_host *hosts, int host_count, struct err *e);

#endif
