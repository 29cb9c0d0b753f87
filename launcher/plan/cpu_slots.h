/* cpu_slots - parses the CPUs of one rank, as users write them in a rank file (slot=) or in
 * --bind-to user:. Pure. */
#pragma once

#include "launcher/node/topo.h"

/* Reads "0-3,8" (cores), "1:0,2" (cores of package 1), "1:*" (all of them) or "p0,8" (hardware
 * threads, by the numbers of the system) into `set`. A ';' separates several of these. Cores and
 * packages are numbered as Open MPI does: in the topology's order, counting only those that this
 * process may use.
 *   -EINVAL  malformed, or `t` has no such core, package or hardware thread */
int cpu_slots_parse(hwloc_bitmap_t set, const struct topo *t, const char *text, struct err *e);
