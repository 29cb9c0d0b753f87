/* cpu_bind - binds a process to CPUs and NUMA nodes. This is done before its program starts, since
 * pages that the process has already touched do not move.
 *
 * There are two steps, since a forked child must not allocate memory: cpu_bind_parse() before the
 * fork, and cpu_bind_apply() in the child. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

struct cpu_bind {
    struct cpu_bind_set {
        unsigned long *bits; /* NULL: not bound */
        unsigned words;
    } cpus, nodes;
};

/* Parses lists in the form of plan_rank ("0-3,8"; NULL: not bound). Free the result with
 * cpu_bind_free().
 *   -EINVAL  malformed list */
int cpu_bind_parse(struct cpu_bind *out, const char *cpus, const char *mems, struct err *e);
/* Frees the lists. A zeroed struct is accepted. */
void cpu_bind_free(struct cpu_bind *b);

AUTO_DEFINE_STRUCT(cpu_bind, struct cpu_bind, cpu_bind_free)

enum { CPU_BIND_NO_MEMORY_POLICY = 1 };

/* Binds the calling thread, and what it forks or executes, to CPUs with sched_setaffinity(2) and to
 * memory with set_mempolicy(2), MPOL_BIND. Async-signal-safe. Returns 0. Returns
 * CPU_BIND_NO_MEMORY_POLICY if the CPUs are bound, but the kernel or container does not allow a
 * memory policy; one warning is then enough. Returns a negative errno on failure: -EINVAL if this
 * process may use none of the CPUs. */
int cpu_bind_apply(const struct cpu_bind *b);
