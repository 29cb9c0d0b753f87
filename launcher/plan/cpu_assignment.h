/* place - which CPUs and which memory each rank of a node gets. Pure.
 *
 * As usual a rank gets an even share of whole cores: of its GPU's NUMA node where it has a GPU,
 * else of all cores, inside one package and NUMA node as long as there are ranks enough for that.
 * --map-by and --bind-to mean what they mean to mpirun (Open MPI 4.1's manual, "Mapping, Ranking,
 * and Binding"): the first says where ranks go in turn, the second how wide they are bound there.
 */
#ifndef DROVER_CPU_ASSIGNMENT_H
#define DROVER_CPU_ASSIGNMENT_H

#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"

struct cpu_assignment_opts {
    const struct topo *topo;
    hwloc_const_bitmap_t cpus; /* the job's hardware threads; not empty */
    bool part;                 /* `cpus` is less than what this process may use */
    int ranks;                 /* > 0 */
    const int *numa; /* of each rank's GPU (OS index; -1: not known); NULL: no GPU is used */
    enum plan_map map_by;
    enum plan_bind bind_to;
    enum plan_map rank_by; /* an object: local ranks are numbered one an object in turn */
    int ppr;               /* with PLAN_MAP_PPR, as in the spec */
    enum plan_map ppr_of;
    int cpus_per_rank; /* 0: an even share */
    bool oversubscribe;
};

struct cpu_assignment {
    char *cpus; /* hwloc list; NULL: not bound */
    char *mems; /* NULL: not bound */
    int cores;  /* what the rank has for itself, at least 1 */
};

/* How many ranks get CPUs of their own: cores, or hardware threads where the ranks are mapped by
 * or bound to these. */
int cpu_assignment_units(const struct cpu_assignment_opts *w);

/* How many of `of` (NODE, PACKAGE, NUMA, L3, CORE, HWTHREAD) hold CPUs of the job; 0: the machine
 * shows none. w->map_by and bind_to count. */
int cpu_assignment_objects(const struct cpu_assignment_opts *w, enum plan_map of);

/* `out` has room for w->ranks; its strings are the caller's then.
 *   -EINVAL  CPUs do not suffice for what was asked for explicitly, there is no such object on
 *            this machine, or the wishes contradict each other; `out` is untouched */
int cpu_assignment_ranks(struct cpu_assignment *out, const struct cpu_assignment_opts *w,
                         struct err *e);

#endif
