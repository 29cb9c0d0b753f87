#include "launcher/node/cpu_bind.h"

#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>

#include "common/mem.h"
#include "launcher/node/cpu_list.h"

static int parse(struct cpu_bind_set *out, const char *text, const char *what, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!text)
        return 0;
    if (cpu_list_parse(set, text, e) < 0)
        return err_wrap(e, "%s", what);
    out->words = (unsigned)hwloc_bitmap_nr_ulongs(set);
    out->bits = xcalloc(out->words, sizeof *out->bits);
    hwloc_bitmap_to_ulongs(set, out->words, out->bits);
    return 0;
}

int cpu_bind_parse(struct cpu_bind *out, const char *cpus, const char *mems, struct err *e)
{
    AUTO(cpu_bind) struct cpu_bind b = {0};
    if (parse(&b.cpus, cpus, "CPUs", e) < 0 || parse(&b.nodes, mems, "NUMA nodes", e) < 0)
        return -EINVAL;
    *out = b;
    b = (struct cpu_bind){0};
    return 0;
}

void cpu_bind_free(struct cpu_bind *b)
{
    free(b->cpus.bits);
    free(b->nodes.bits);
    *b = (struct cpu_bind){0};
}

int cpu_bind_apply(const struct cpu_bind *b)
{
    const struct cpu_bind_set *cpus = &b->cpus, *nodes = &b->nodes;
    if (cpus->bits &&
        sched_setaffinity(0, cpus->words * sizeof(long), (const cpu_set_t *)cpus->bits) < 0)
        return -errno;
    /* The kernel reads one bit less than the given number (mm/mempolicy.c: get_nodes). */
    if (nodes->bits && syscall(SYS_set_mempolicy, MPOL_BIND, nodes->bits,
                               nodes->words * sizeof(long) * CHAR_BIT + 1) < 0)
        return errno == EPERM || errno == ENOSYS ? CPU_BIND_NO_MEMORY_POLICY : -errno;
    return 0;
}
