#include "launcher/node/cpu_bind.h"

#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>

#include "common/mem.h"
#include "launcher/node/cpu_list.h"

static int parse_cpus(struct cpu_bind *b, const char *text, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (cpu_list_parse(set, text, e) < 0)
        return err_wrap(e, "CPUs");
    int count = hwloc_bitmap_last(set) + 1, cpu;
    b->cpus_bytes = CPU_ALLOC_SIZE(count);
    b->cpus = xzalloc(b->cpus_bytes);
    hwloc_bitmap_foreach_begin (cpu, set)
        CPU_SET_S((size_t)cpu, b->cpus_bytes, b->cpus);
    hwloc_bitmap_foreach_end();
    return 0;
}

static int parse_nodes(struct cpu_bind *b, const char *text, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (cpu_list_parse(set, text, e) < 0)
        return err_wrap(e, "NUMA nodes");
    const unsigned bits = sizeof(long) * CHAR_BIT;
    unsigned words = (unsigned)hwloc_bitmap_last(set) / bits + 1;
    b->nodes = xcalloc(words, sizeof *b->nodes);
    for (unsigned i = 0; i < words; i++)
        b->nodes[i] = hwloc_bitmap_to_ith_ulong(set, i);
    b->node_bits = (unsigned long)words * bits;
    return 0;
}

int cpu_bind_parse(struct cpu_bind *out, const char *cpus, const char *mems, struct err *e)
{
    AUTO(cpu_bind) struct cpu_bind b = {0};
    if ((cpus && parse_cpus(&b, cpus, e) < 0) || (mems && parse_nodes(&b, mems, e) < 0))
        return -EINVAL;
    *out = b;
    b = (struct cpu_bind){0};
    return 0;
}

void cpu_bind_free(struct cpu_bind *b)
{
    free(b->cpus);
    free(b->nodes);
    *b = (struct cpu_bind){0};
}

int cpu_bind_apply(const struct cpu_bind *b)
{
    if (b->cpus && sched_setaffinity(0, b->cpus_bytes, b->cpus) < 0)
        return -errno;
    /* The kernel reads one bit less than the given number (mm/mempolicy.c: get_nodes). */
    if (b->nodes && syscall(SYS_set_mempolicy, MPOL_BIND, b->nodes, b->node_bits + 1) < 0)
        return errno == EPERM || errno == ENOSYS ? CPU_BIND_NO_MEMORY_POLICY : -errno;
    return 0;
}
