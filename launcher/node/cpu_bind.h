/* bind - a process onto its CPUs and its memory, before its program starts: pages that it has
 * touched by then stay where they are.
 *
 * Two steps, since a forked child may neither allocate nor parse: cpu_bind_parse() before the fork,
 * cpu_bind_apply() in the child. */
#ifndef DROVER_CPU_BIND_H
#define DROVER_CPU_BIND_H

#include <sched.h>
#include <stddef.h>

#include "common/err.h"

struct cpu_bind {
    cpu_set_t *cpus; /* NULL: CPUs are left as they are */
    size_t cpus_bytes;
    unsigned long *nodes; /* NULL: memory is left as it is */
    unsigned long node_bits;
};

/* Reads lists as plan_rank has them ("0-3,8"; NULL: not bound). To be ended with cpu_bind_free().
 *   -EINVAL  one is no such list */
int cpu_bind_parse(struct cpu_bind *out, const char *cpus, const char *mems, struct err *e);
/* A zeroed one is fine. */
void cpu_bind_free(struct cpu_bind *b);

static inline void auto_cpu_bind(struct cpu_bind *b)
{
    cpu_bind_free(b);
}

enum { CPU_BIND_NO_MEMORY_POLICY = 1 };

/* Binds the calling thread, and what it forks or executes: CPUs with sched_setaffinity(2), memory
 * with set_mempolicy(2), MPOL_BIND. Async-signal-safe. Returns 0; CPU_BIND_NO_MEMORY_POLICY where
 * the CPUs are bound but this kernel or container allows no memory policy (one warning is enough);
 * or a negative errno: -EINVAL where no such CPU may be used. */
int cpu_bind_apply(const struct cpu_bind *b);

#endif
