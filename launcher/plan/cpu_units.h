/* cpu_units - the cores or hardware threads of a node that are assigned to ranks, and the objects
 * (package, NUMA node, cache) that contain them. Pure. */
#pragma once

#include <stdbool.h>

#include "launcher/node/topo.h"

/* Objects that contain units, outermost first. */
enum cpu_units_level {
    CPU_UNITS_PACKAGE,
    CPU_UNITS_NUMA,
    CPU_UNITS_L3,
    CPU_UNITS_L2,
    CPU_UNITS_L1,
    CPU_UNITS_CORE,
    CPU_UNITS_UNIT,
    CPU_UNITS_LEVELS
};

/* A core or a hardware thread. Units are in the topology's order, so the units of an object are
 * adjacent. */
struct cpu_units_one {
    hwloc_bitmap_t cpus;
    int in[CPU_UNITS_LEVELS]; /* logical index of the object that contains the unit; -1: no such
                                 object */
    int numa_os;              /* OS index of its NUMA node; -1: none */
};

struct cpu_units {
    struct cpu_units_one *at;
    int count;
};

/* Units [first, first + n). */
struct cpu_units_range {
    int first, n;
};

/* Returns the cores that contain `cpus`. Each core is reduced to its hardware threads in `cpus`. If
 * `by_thread` is set, or if the topology has no cores (some virtual machines), returns hardware
 * threads instead of cores. The result may be empty. */
struct cpu_units *cpu_units_of(const struct topo *t, hwloc_const_bitmap_t cpus, bool by_thread);
void cpu_units_free(struct cpu_units *v);
AUTO_DEFINE(cpu_units, struct cpu_units *, cpu_units_free)

/* Splits `of` into pieces, one per object at `level`. Writes the first unit of each piece to `cut`,
 * and after these the end of `of`. `cut` has room for of.n + 1 entries. Returns the number of
 * pieces. */
int cpu_units_cut(int *cut, const struct cpu_units *v, struct cpu_units_range of,
                  enum cpu_units_level level);

/* Returns the whole object at `level` that contains the first unit of `range`. */
struct cpu_units_range cpu_units_around(const struct cpu_units *v, struct cpu_units_range range,
                                        enum cpu_units_level level);

/* Reads the CPUs of one rank, as users write them in a rank file (slot=) or in --bind-to user:,
 * into `set`: "0-3,8" (cores), "1:0,2" (cores of package 1), "1:*" (all of them) or "p0,8"
 * (hardware threads, by the numbers of the system). A ';' separates several of these. Cores and
 * packages are numbered as Open MPI does: in the topology's order, counting only those that this
 * process may use.
 *   -EINVAL  malformed, or `t` has no such core, package or hardware thread */
int cpu_units_parse(hwloc_bitmap_t set, const struct topo *t, const char *text, struct err *e);
