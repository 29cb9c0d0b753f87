#include "launcher/plan/cpu_slots.h"

#include <errno.h>
#include <string.h>

#include "common/opt.h"
#include "launcher/plan/cpu_units.h"

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

int cpu_slots_parse(hwloc_bitmap_t set, const struct topo *t, const char *text, struct err *e)
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
