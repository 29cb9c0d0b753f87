#include "launcher/plan/cpu_units.h"

#include <errno.h>
#include <string.h>

#include "common/opt.h"

void cpu_units_free(struct cpu_units *v)
{
    for (int i = 0; v && i < v->count; i++)
        hwloc_bitmap_free(v->at[i].cpus);
    if (v)
        free(v->at);
    free(v);
}

static int index_in(hwloc_topology_t hw, hwloc_obj_t o, hwloc_obj_type_t type)
{
    hwloc_obj_t up = o->type == type ? o : hwloc_get_ancestor_obj_by_type(hw, type, o);
    return up ? (int)up->logical_index : -1;
}

/* Returns the first NUMA node that contains `cpus`. If the same cores have several kinds of local
 * memory (ordinary, high-bandwidth, a GPU's), the first one is the ordinary memory. */
static hwloc_obj_t numa_of(hwloc_topology_t hw, hwloc_const_bitmap_t cpus)
{
    hwloc_obj_t n = NULL;
    while ((n = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, n)))
        if (hwloc_bitmap_isincluded(cpus, n->cpuset))
            return n;
    return NULL;
}

struct cpu_units *cpu_units_of(const struct topo *t, hwloc_const_bitmap_t cpus, bool by_thread)
{
    hwloc_topology_t hw = topo_hwloc(t);
    /* Some virtual machines have hardware threads but no cores in their topology. */
    bool threads = by_thread || hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_CORE) <= 0;
    hwloc_obj_type_t type = threads ? HWLOC_OBJ_PU : HWLOC_OBJ_CORE;
    struct cpu_units *v = xzalloc(sizeof *v);
    v->at = xcalloc((size_t)hwloc_get_nbobjs_by_type(hw, type), sizeof *v->at);
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_obj_by_type(hw, type, o))) {
        if (!hwloc_bitmap_intersects(o->cpuset, cpus))
            continue;
        struct cpu_units_one *u = &v->at[v->count];
        u->cpus = hwloc_bitmap_alloc();
        hwloc_bitmap_and(u->cpus, o->cpuset, cpus);
        hwloc_obj_t numa = numa_of(hw, u->cpus);
        u->in[CPU_UNITS_PACKAGE] = index_in(hw, o, HWLOC_OBJ_PACKAGE);
        u->in[CPU_UNITS_NUMA] = numa ? (int)numa->logical_index : -1;
        u->in[CPU_UNITS_L3] = index_in(hw, o, HWLOC_OBJ_L3CACHE);
        u->in[CPU_UNITS_L2] = index_in(hw, o, HWLOC_OBJ_L2CACHE);
        u->in[CPU_UNITS_L1] = index_in(hw, o, HWLOC_OBJ_L1CACHE);
        u->in[CPU_UNITS_CORE] = index_in(hw, o, HWLOC_OBJ_CORE);
        u->in[CPU_UNITS_UNIT] = v->count++;
        u->numa_os = numa ? (int)numa->os_index : -1;
    }
    return v;
}

int cpu_units_cut(int *cut, const struct cpu_units *v, struct cpu_units_range of,
                  enum cpu_units_level level)
{
    int n = 0;
    for (int i = of.first; i < of.first + of.n; i++)
        if (i == of.first || v->at[i].in[level] != v->at[i - 1].in[level])
            cut[n++] = i;
    cut[n] = of.first + of.n;
    return n;
}

struct cpu_units_range cpu_units_around(const struct cpu_units *v, struct cpu_units_range range,
                                        enum cpu_units_level level)
{
    int id = v->at[range.first].in[level], first = range.first, end = range.first + 1;
    while (first > 0 && v->at[first - 1].in[level] == id)
        first--;
    while (end < v->count && v->at[end].in[level] == id)
        end++;
    return (struct cpu_units_range){first, end - first};
}

/* ---- CPUs as users write them --------------------------------------------------------------- */

enum { ANY_PACKAGE = -1 };

/* Adds the cores with the numbers in `list`; "*" means all cores. If a package is given, the
 * numbers count the cores of this package. */
static int add_cores(hwloc_bitmap_t set, const struct topo *t, int package, const char *list,
                     struct err *e)
{
    AUTO(cpu_units) struct cpu_units *cores = cpu_units_of(t, topo_allowed(t), false);
    AUTO(bitmap) hwloc_bitmap_t numbers = hwloc_bitmap_alloc();
    bool all = strcmp(list, "*") == 0;
    int count = 0;
    if (!all && cpu_list_parse(numbers, list, e) < 0)
        return -EINVAL;
    for (int i = 0; i < cores->count; i++) {
        if (package != ANY_PACKAGE && cores->at[i].in[CPU_UNITS_PACKAGE] != package)
            continue;
        if (all || hwloc_bitmap_isset(numbers, (unsigned)count))
            hwloc_bitmap_or(set, set, cores->at[i].cpus);
        count++;
    }
    if (count == 0)
        return err_set(e, -EINVAL, "'%s' has no package %d", topo_name(t), package);
    if (!all && hwloc_bitmap_last(numbers) >= count)
        return err_set(e, -EINVAL, "core %d: %s of '%s' has cores 0 to %d",
                       hwloc_bitmap_last(numbers),
                       package == ANY_PACKAGE ? "the node" : "a package", topo_name(t), count - 1);
    return 0;
}

static int add_threads(hwloc_bitmap_t set, const struct topo *t, const char *list, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t numbers = hwloc_bitmap_alloc();
    if (cpu_list_parse(numbers, list, e) < 0)
        return -EINVAL;
    if (!hwloc_bitmap_isincluded(numbers, topo_allowed(t)))
        return err_set(e, -EINVAL, "'%s' has no such CPU that this process may use", topo_name(t));
    hwloc_bitmap_or(set, set, numbers);
    return 0;
}

static int add_part(hwloc_bitmap_t set, const struct topo *t, const char *part, struct err *e)
{
    const char *colon = strchr(part, ':');
    int package = ANY_PACKAGE;
    if (*part == 'p' || *part == 'P')
        return add_threads(set, t, part + 1, e);
    if (!colon)
        return add_cores(set, t, ANY_PACKAGE, part, e);
    AUTO(free) char *number = xstrndup(part, (size_t)(colon - part));
    if (opt_int(&package, "package", number, 0, INT_MAX, e) < 0)
        return -EINVAL;
    return add_cores(set, t, package, colon + 1, e);
}

int cpu_units_parse(hwloc_bitmap_t set, const struct topo *t, const char *text, struct err *e)
{
    AUTO(free) char *copy = xstrdup(text);
    hwloc_bitmap_zero(set);
    for (char *rest = copy, *part; (part = strsep(&rest, ";"));)
        if (add_part(set, t, part, e) < 0) {
            err_wrap(e, "slots '%s'", text);
            return -EINVAL;
        }
    return 0;
}
