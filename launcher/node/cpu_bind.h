/* cpu_bind - binds a process to CPUs and NUMA nodes before its program starts: pages that it has
 * touched by then do not move.
 *
 * Works in two steps, because a forked child may neither allocate nor parse: cpu_bind_parse()
 * before the fork, cpu_bind_apply() in the child. */
#ifndef DROVER_CPU_BIND_H
#define DROVER_CPU_BIND_H

#include <sched.h>
#include <stddef.h>

#include "common/err.h"

struct cpu_bind {
    cpu_set_t *cpus; /* NULL: not bound */
    size_t cpus_bytes;
    unsigned long *nodes; /* NULL: not bound */
    unsigned long node_bits;
};

/* Parses lists in the form of plan_rank ("0-3,8"; NULL: not bound). Free the result with
 * cpu_bind_free().
 *   -EINVAL  malformed list */
int cpu_bind_parse(struct cpu_bind *out, const char *cpus, const char *mems, struct err *e);
/* Frees the lists. A zeroed struct is fine. */
void cpu_bind_free(struct cpu_bind *b);

static inline void auto_cpu_bind(struct cpu_bind *b)
{
    cpu_bind_free(b);
}

enum { CPU_BIND_NO_MEMORY_POLICY = 1 };

/* Binds the calling thread, and what it forks or executes: CPUs with sched_setaffinity(2), memory
 * with set_mempolicy(2), MPOL_BIND. Async-signal-safe. Returns 0, or CPU_BIND_NO_MEMORY_POLICY if
 * the CPUs are bound but the kernel or container does not allow a memory policy (one warning is
 * enough).
 *   negative errno  -EINVAL: this process may use none of the CPUs */
int cpu_bind_apply(const struct cpu_bind *b);

#endif
