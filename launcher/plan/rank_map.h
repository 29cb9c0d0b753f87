/* rank_map - mapping: the host of each rank and its number on the host. Pure. The rules are those
 * of Open MPI 4.1's mpirun. Hosts are filled one after the other up to their slots; with --map-by
 * node, each host gets one rank in turn. -N and PPR give each host a fixed number of ranks. Ranks
 * are numbered host by host, or in turn with --rank-by node. */
#pragma once

#include <stdbool.h>

#include "launcher/plan/plan.h"

struct rank_map_host {
    const char *name;
    int slots; /* 0: unknown */
    /* True if the user gave the slots. Otherwise `slots` follows from the host's resources and may
     * be exceeded; GPU and CPU assignment then decide if the ranks fit. */
    bool slots_given;
    int max_slots; /* 0: no limit */
    int objects;   /* number of the host's spec.ppr_of objects; 1 for a node */
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
    int *slots; /* slots per host that the program may use; 0: the host is not one of its hosts.
                   NULL: all free slots */
};

/* Maps the ranks of `n` programs, one program after the other, as rank_map_make() maps the ranks of
 * a job. The ranks are numbered in the order of the programs.
 *   -EINVAL  as rank_map_make(), or a program has no host */
int rank_map_programs(struct rank_map **out, const struct launch_spec *s,
                      const struct rank_map_program *programs, int n,
                      const struct rank_map_host *hosts, int host_count, struct err *e);
