/* rank_map - mapping: the host of each rank and its number there. Pure. As Open MPI 4.1's mpirun:
 * hosts are filled one after the other up to their slots, or in turn with --map-by node. -N and
 * ppr give each host the same number. Ranks are numbered host by host, or in turn (--rank-by
 * node). */
#ifndef DROVER_RANK_MAP_H
#define DROVER_RANK_MAP_H

#include <stdbool.h>

#include "launcher/plan/plan.h"

struct rank_map_host {
    const char *name;
    int slots;        /* 0: unknown */
    bool slots_given; /* given by the user. Else `slots` follows from the host's
                         resources and may be exceeded; GPU and CPU assignment then decide
                         whether the ranks fit. */
    int max_slots;    /* 0: no limit */
    int objects;      /* number of the host's spec.ppr_of objects; 1 for a node */
};

struct rank_map {
    int host;
    int local_rank; /* its number among the ranks of its host */
};

/* Maps the ranks of `s` (uses ranks, per_node, ppr, ppr_of, map_by, rank_by, oversubscribe).
 * `*out` is an array with one entry per rank; the caller frees it. Returns the number of ranks.
 *   -EINVAL  not enough slots, or the number of ranks is unknown; the hint names the remedy */
int rank_map_make(struct rank_map **out, const struct launch_spec *s,
                  const struct rank_map_host *hosts, int host_count, struct err *e);

/* One of several programs of a job. */
struct rank_map_program {
    int ranks;
    int *slots; /* per host: the slots that the program may use; 0: none, the host is not one of its
                   hosts. NULL: all that are left */
};

/* Maps the ranks of `n` programs one after the other, as rank_map_make() maps the ranks of a job.
 * Their numbers follow each other.
 *   -EINVAL  as rank_map_make(), or a program has no host */
int rank_map_programs(struct rank_map **out, const struct launch_spec *s,
                      const struct rank_map_program *programs, int n,
                      const struct rank_map_host *hosts, int host_count, struct err *e);

#endif
