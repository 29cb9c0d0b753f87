/* units - what of a machine is given out to ranks, cores or hardware threads, and the objects that
 * they stand in. Pure. */
#ifndef DROVER_CPU_UNITS_H
#define DROVER_CPU_UNITS_H

#include <stdbool.h>

#include "launcher/node/topo.h"

/* Objects that units stand in, outermost first. */
enum cpu_units_level {
    CPU_UNITS_PACKAGE,
    CPU_UNITS_NUMA,
    CPU_UNITS_L3,
    CPU_UNITS_CORE,
    CPU_UNITS_UNIT,
    CPU_UNITS_LEVELS
};

/* What is given out: a core, or a hardware thread. In the machine's order, so that the units of an
 * object follow each other. */
struct cpu_units_one {
    hwloc_bitmap_t cpus;
    int in[CPU_UNITS_LEVELS]; /* number of the object that it stands in; -1: in none */
    int numa_os;              /* OS index of its NUMA node; -1: none */
};

struct cpu_units {
    struct cpu_units_one *u;
    int n;
};

/* Units [first, first + n). */
struct cpu_units_range {
    int first, n;
};

/* The cores that hold `cpus` of the machine, each with these of its hardware threads; or the
 * threads where they are asked for, and where the machine shows no cores (some virtual ones). None
 * may be left. */
struct cpu_units *cpu_units_of(const struct topo *t, hwloc_const_bitmap_t cpus, bool by_thread);
void cpu_units_free(struct cpu_units *v);
AUTO_DEFINE(cpu_units, struct cpu_units *, cpu_units_free)

/* Cuts `of` where the object at `level` changes. `cut` gets the beginnings and, last, the end; it
 * has room for of.n + 1. Returns the number of pieces. */
int cpu_units_cut(int *cut, const struct cpu_units *v, struct cpu_units_range of,
                  enum cpu_units_level level);

/* The whole object at `level` that the share begins in. */
struct cpu_units_range cpu_units_around(const struct cpu_units *v, struct cpu_units_range own,
                                        enum cpu_units_level level);

#endif
