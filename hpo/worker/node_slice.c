#include "hpo/worker/node_slice.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/strbuf.h"
#include "hpo/transport/wire.h"

/* ---- GPUs ----------------------------------------------------------------------------------- */

/* What is given to trials: GPUs, and parts of those that are divided. */
struct units {
    char **names; /* strv: UUIDs; indexes where these are not known */
    int count;
};

static void add_unit(struct units *u, const struct gpu *g, const char *uuid)
{
    strv_push(&u->names, *uuid ? xstrdup(uuid) : xasprintf("%d", g->index));
    u->count++;
}

/* A GPU, as its parts where it has some; or one part. */
static void add_gpu(struct units *u, const struct gpu *g, const char *uuid)
{
    int parts = 0;
    for (int p = 0; p < GPU_PARTS_MAX && uuid == g->uuid; p++)
        if (g->parts[p][0] && ++parts)
            add_unit(u, g, g->parts[p]);
    if (parts == 0)
        add_unit(u, g, uuid);
}

/* "0-3". Returns false where the word is no such range. */
static bool add_range(struct units *u, const struct topo *t, const char *word, size_t len)
{
    int from, to, end = -1;
    if (!isdigit((unsigned char)*word) || sscanf(word, "%d-%d%n", &from, &to, &end) != 2 ||
        end != (int)len || from > to)
        return false;
    int before = u->count;
    for (int i = 0; i < topo_gpu_count(t); i++)
        if (topo_gpu(t, i)->index >= from && topo_gpu(t, i)->index <= to)
            add_gpu(u, topo_gpu(t, i), topo_gpu(t, i)->uuid);
    return u->count > before;
}

static int find_units(struct units *u, const struct topo *t, const struct node_slice_opts *w,
                      struct err *e)
{
    const char *list = w->gpus ? w->gpus : w->visible;
    for (int i = 0; !list && i < topo_gpu_count(t); i++)
        add_gpu(u, topo_gpu(t, i), topo_gpu(t, i)->uuid);
    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, ",");
        const struct gpu *g = NULL;
        const char *uuid = NULL;
        if (topo_gpu_called(&g, &uuid, t, p, len))
            add_gpu(u, g, uuid);
        else if (!w->gpus)
            break;
        else if (!add_range(u, t, p, len))
            return err_set(e, -EINVAL, "GPU '%.*s': '%s' has %d GPUs, and none of that name",
                           (int)len, p, topo_name(t), topo_gpu_count(t));
        p += len + (p[len] == ',');
    }
    for (int i = 0; i < u->count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(u->names[i], u->names[j]) == 0)
                return err_set(e, -EINVAL, "GPUs '%s': one is named twice", list);
    return 0;
}

/* ---- how many ------------------------------------------------------------------------------- */

/* Cores of which this process may use something. */
static int count_cores(const struct topo *t, hwloc_const_bitmap_t allowed)
{
    hwloc_topology_t h = topo_hwloc(t);
    int n = 0;
    for (hwloc_obj_t c = NULL; (c = hwloc_get_next_obj_by_type(h, HWLOC_OBJ_CORE, c));)
        n += hwloc_bitmap_intersects(c->cpuset, allowed);
    return n > 0 ? n : hwloc_bitmap_weight(allowed); /* some virtual machines show no cores */
}

/* Bytes; INT64_MAX: not known. */
static int64_t memory_of(const struct topo *t, const struct node_slice_opts *w)
{
    uint64_t all = hwloc_get_root_obj(topo_hwloc(t))->total_memory;
    int64_t most = all > 0 && all < INT64_MAX ? (int64_t)all : INT64_MAX;
    return w->memory_bytes > 0 && w->memory_bytes < most ? w->memory_bytes : most;
}

static int too_little(struct err *e, const char *what, const char *has, const struct topo *t)
{
    err_set(e, -EINVAL, "a trial needs %s, '%s' has %s", what, topo_name(t), has);
    return err_hint(e, "drover.resources says what a trial needs");
}

static int min_of(int a, int64_t b)
{
    return b < a ? (int)b : a;
}

/* How many trials the node has all for that they ask for. */
static int count_fit(int *out, const struct topo *t, const struct node_slice_opts *w, int gpus,
                     int cores, struct err *e)
{
    const struct resources *need = &w->need;
    char what[64], has[64], size[16];
    int fit = WIRE_SLOTS_MAX;
    if (need->gpus > 0) {
        /* 0.1 ten times is one GPU, whatever 1 / 0.1 is in binary. */
        fit = need->gpus < 1 ? min_of(fit, (int64_t)gpus * (int64_t)(1 / need->gpus + 1e-9))
                             : gpus / (int)need->gpus;
        snprintf(what, sizeof what, "%g GPUs", need->gpus);
        snprintf(has, sizeof has, "%d", gpus);
    }
    if (fit > 0 && need->cpus > 0) {
        int64_t each = (int64_t)need->ranks * need->cpus;
        fit = min_of(fit, cores / each);
        snprintf(what, sizeof what, "%lld cores", (long long)each);
        snprintf(has, sizeof has, "%d", cores);
    }
    if (fit > 0 && need->memory_bytes > 0) {
        int64_t there = memory_of(t, w);
        fit = min_of(fit, there / need->memory_bytes);
        snprintf(what, sizeof what, "%s of memory",
                 byte_size_format(size, sizeof size, (uint64_t)need->memory_bytes));
        byte_size_format(has, sizeof has, (uint64_t)there);
    }
    *out = fit;
    return fit > 0 ? 0 : too_little(e, what, has, t);
}

static int count_places(int *out, const struct topo *t, const struct node_slice_opts *w, int gpus,
                        int cores, struct err *e)
{
    int fit = 0, ranks = w->need.ranks, quota = topo_cpu_quota(t);
    if (quota > 0 && quota < cores)
        cores = quota;
    if (count_fit(&fit, t, w, gpus, cores, e) < 0)
        return -EINVAL;
    int most = w->slots;
    if (most == 0 && w->need.gpus > 0)
        most = fit;
    else if (most == 0)
        most = (gpus > 0 ? gpus : cores) / ranks;
    *out = min_of(fit, most > 0 ? most : 1);
    return 0;
}

/* ---- the parts ------------------------------------------------------------------------------ */

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

/* Place i's part of n things for `places`: [from, to); at least one, if need be another's too. */
static void part_of(int *from, int *to, int n, int places, int i)
{
    *from = (int)((long)i * n / places);
    *to = (int)((long)(i + 1) * n / places);
    if (*to == *from)
        *to = *from + 1;
}

/* Place i's GPUs: as many as are asked for, all of its part where nothing is said. */
static char *gpu_part(const struct units *u, double asked, int places, int i)
{
    int from, to;
    part_of(&from, &to, u->count, places, i);
    if (asked > 0)
        to = from + (asked < 1 ? 1 : (int)asked);
    AUTO(strbuf) struct strbuf b = {0};
    for (int g = from; g < to && g < u->count; g++)
        strbuf_printf(&b, "%s%s", g > from ? "," : "", u->names[g]);
    return strbuf_take(&b);
}

static int choose_cpus(hwloc_bitmap_t allowed, const struct topo *t, const char *list,
                       struct err *e)
{
    hwloc_bitmap_copy(allowed, topo_allowed(t));
    if (!list)
        return 0;
    AUTO(bitmap) hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    if (cpu_list_parse(mine, list, e) < 0)
        return -EINVAL;
    hwloc_bitmap_and(allowed, allowed, mine);
    if (hwloc_bitmap_iszero(allowed))
        return err_set(e, -EINVAL, "none of the CPUs '%s' may be used here", list);
    return 0;
}

static void auto_units(struct units *u)
{
    strv_free(u->names);
}

int node_slice_make(struct node_slice **out, int *count, const struct topo *t,
                    const struct node_slice_opts *w, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    AUTO(units) struct units units = {0};
    if (choose_cpus(allowed, t, w->cpus, e) < 0 || find_units(&units, t, w, e) < 0)
        return -EINVAL;
    int places = 0, cores = count_cores(t, allowed);
    if (count_places(&places, t, w, units.count, cores, e) < 0)
        return -EINVAL;
    bool cut = hwloc_get_nbobjs_by_type(topo_hwloc(t), HWLOC_OBJ_CORE) > 0 &&
               cores >= (long)places * w->need.ranks;
    struct node_slice *shares = xcalloc((size_t)places, sizeof *shares);
    for (int i = 0; i < places; i++) {
        int from, to;
        part_of(&from, &to, cores, places, i);
        if (cut)
            shares[i].cpus = cores_between(t, allowed, from, to);
        else if (w->cpus)
            shares[i].cpus = xstrdup(w->cpus);
        if (topo_gpu_count(t) > 0)
            shares[i].gpus = gpu_part(&units, w->need.gpus, places, i);
        shares[i].shared = !cut || (units.count > 0 && units.count < places) ||
                           (w->need.gpus > 0 && w->need.gpus < 1);
    }
    *out = shares;
    *count = places;
    return 0;
}

void node_slice_free(struct node_slice *shares, int n)
{
    for (int i = 0; shares && i < n; i++) {
        free(shares[i].cpus);
        free(shares[i].gpus);
    }
    free(shares);
}

bool node_slice_has_gpu(const struct node_slice *s, const char *uuid)
{
    size_t len = strlen(uuid);
    for (const char *at = s->gpus; len > 0 && at && (at = strstr(at, uuid)); at += len)
        if ((at == s->gpus || at[-1] == ',') && (at[len] == ',' || !at[len]))
            return true;
    return false;
}
