/* cpu_assignment - binding: the CPUs and NUMA nodes of each rank of a node. Pure.
 *
 * By default each rank gets an even share of whole cores. A rank with a GPU gets a share of the
 * cores of the GPU's NUMA node, any other rank a share of all cores. If there are enough ranks,
 * each share is inside one package and one NUMA node. --map-by and --bind-to have mpirun's meaning
 * (Open MPI 4.1's manual, "Mapping, Ranking, and Binding"): --map-by names the objects on which
 * ranks are placed in turn, --bind-to the objects to which they are bound there. */
#pragma once

#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"

struct cpu_assignment_opts {
    const struct topo *topo;
    hwloc_const_bitmap_t cpus; /* hardware threads that the job may use; not empty */
    bool restricted;           /* `cpus` excludes some CPUs that this process may use */
    int ranks;                 /* > 0 */
    const int *numa; /* NUMA node of each rank's GPU (OS index; -1: unknown); NULL: the job uses
                        no GPU */
    enum plan_map map_by;
    enum plan_bind bind_to;
    enum plan_map rank_by; /* if an object: the objects get the next local rank in turn */
    int ppr;               /* with PLAN_MAP_PPR, as in the spec */
    enum plan_map ppr_of;
    int cpus_per_rank; /* 0: an even share */
    bool oversubscribe;
    const char *const *slots; /* the CPUs of each rank (cpu_units.h), instead of map_by and bind_to;
                                 NULL: not given. An entry is NULL if the rank is not bound */
};

/* The binding of one rank. */
struct cpu_assignment {
    char *cpus; /* hwloc list; NULL: not bound */
    char *mems; /* NULL: not bound */
    int cores;  /* CPU units that the rank does not share; at least 1 */
};

/* Returns the number of ranks that can have CPU units of their own: the number of cores, or of
 * hardware threads if ranks are mapped by or bound to hardware threads. */
int cpu_assignment_units(const struct cpu_assignment_opts *opts);

/* Returns the number of objects of the kind `of` (NODE, PACKAGE, …, HWTHREAD) that contain CPUs of
 * the job; 0 if the topology has no such objects. The result depends on map_by and bind_to. */
int cpu_assignment_objects(const struct cpu_assignment_opts *opts, enum plan_map of);

/* Assigns CPUs to opts->ranks ranks. `out` has room for all of them; the caller frees its strings.
 *   -EINVAL  too few CPUs for what was requested explicitly, the machine has no such object, or
 *            the options contradict each other; `out` is unchanged */
int cpu_assignment_ranks(struct cpu_assignment *out, const struct cpu_assignment_opts *opts,
                         struct err *e);
