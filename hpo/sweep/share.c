#include "hpo/sweep/share.h"

#include <errno.h>
#include <string.h>

#include "common/strbuf.h"

/* Cores of which this process may use something. */
static int count_cores(const struct topo *t, hwloc_const_bitmap_t allowed)
{
    hwloc_topology_t h = topo_hwloc(t);
    int n = 0;
    for (hwloc_obj_t c = NULL; (c = hwloc_get_next_obj_by_type(h, HWLOC_OBJ_CORE, c));)
        n += hwloc_bitmap_intersects(c->cpuset, allowed);
    return n > 0 ? n : hwloc_bitmap_weight(allowed); /* some virtual machines show no cores */
}

int share_places(int *out, const struct topo *t, int ranks, int gpus, struct err *e)
{
    int have = topo_gpu_count(t), cores = count_cores(t, topo_allowed(t));
    if (gpus > have) {
        err_set(e, -EINVAL, "a trial needs %d GPUs, '%s' has %d", gpus, topo_name(t), have);
        return err_hint(e, "drover.resources.gpus says how many GPUs a trial has");
    }
    int quota = topo_cpu_quota(t);
    if (quota > 0 && quota < cores)
        cores = quota;
    int need = gpus > 0 ? gpus : ranks;
    int n = have > 0 ? have / need : cores / ranks;
    *out = n > 0 ? n : 1;
    return 0;
}

/* The cores [from, to) of the allowed ones, as a list of hardware threads. */
static char *cores_between(const struct topo *t, hwloc_const_bitmap_t allowed, int from, int to)
{
    hwloc_topology_t h = topo_hwloc(t);
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int i = 0;
    for (hwloc_obj_t c = NULL; (c = hwloc_get_next_obj_by_type(h, HWLOC_OBJ_CORE, c));) {
        if (!hwloc_bitmap_intersects(c->cpuset, allowed))
            continue;
        if (i >= from && i < to)
            hwloc_bitmap_or(set, set, c->cpuset);
        i++;
    }
    hwloc_bitmap_and(set, set, allowed);
    char *list = NULL;
    return hwloc_bitmap_list_asprintf(&list, set) < 0 ? NULL : list;
}

/* The numbers of a list. */
static int *gpu_numbers(int *count, const struct topo *t, const char *list, struct err *e)
{
    int have = topo_gpu_count(t), n = 0;
    AUTO(bitmap) hwloc_bitmap_t want = hwloc_bitmap_alloc();
    if (list && topo_list_parse(want, list, e) < 0)
        return NULL;
    int *numbers = xcalloc((size_t)have, sizeof *numbers);
    for (int i = 0; i < have; i++) {
        int index = topo_gpu(t, i)->index;
        if (!list || hwloc_bitmap_isset(want, (unsigned)index))
            numbers[n++] = index;
    }
    *count = n;
    return numbers;
}

/* Place i's part of n things for `places`: [from, to); at least one, if need be another's too. */
static void part_of(int *from, int *to, int n, int places, int i)
{
    *from = (int)((long)i * n / places);
    *to = (int)((long)(i + 1) * n / places);
    if (*to == *from)
        *to = *from + 1;
}

static char *gpu_part(const int *numbers, int n, int places, int i)
{
    int from, to;
    part_of(&from, &to, n, places, i);
    AUTO(strbuf) struct strbuf b = {0};
    for (int g = from; g < to; g++)
        strbuf_printf(&b, "%s%d", g > from ? "," : "", numbers[g]);
    return strbuf_take(&b);
}

int share_make(struct share **out, const struct topo *t, const struct share_want *w, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t allowed = hwloc_bitmap_dup(topo_allowed(t));
    AUTO(bitmap) hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    if (w->cpus && topo_list_parse(mine, w->cpus, e) < 0)
        return -EINVAL;
    if (w->cpus)
        hwloc_bitmap_and(allowed, allowed, mine);
    if (hwloc_bitmap_iszero(allowed))
        return err_set(e, -EINVAL, "none of the CPUs '%s' may be used here", w->cpus);
    int gpus = 0, cores = count_cores(t, allowed);
    AUTO(free) int *numbers = gpu_numbers(&gpus, t, w->gpus, e);
    if (!numbers)
        return -EINVAL;
    bool cut = hwloc_get_nbobjs_by_type(topo_hwloc(t), HWLOC_OBJ_CORE) > 0 &&
               cores >= (long)w->places * w->ranks;
    struct share *shares = xcalloc((size_t)w->places, sizeof *shares);
    for (int i = 0; i < w->places; i++) {
        int from, to;
        part_of(&from, &to, cores, w->places, i);
        if (cut)
            shares[i].cpus = cores_between(t, allowed, from, to);
        else if (w->cpus)
            shares[i].cpus = xstrdup(w->cpus);
        if (gpus > 0)
            shares[i].gpus = gpu_part(numbers, gpus, w->places, i);
        shares[i].shared = !cut || (gpus > 0 && gpus < w->places);
    }
    *out = shares;
    return 0;
}

void share_free(struct share *shares, int n)
{
    for (int i = 0; shares && i < n; i++) {
        free(shares[i].cpus);
        free(shares[i].gpus);
    }
    free(shares);
}

char *share_first_gpus(const char *gpus, int n)
{
    const char *end = gpus;
    for (int i = 0; i < n && (end = strchr(i ? end + 1 : end, ',')); i++)
        ;
    return n > 0 && end ? xstrndup(gpus, (size_t)(end - gpus)) : xstrdup(gpus);
}
