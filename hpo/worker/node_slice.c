#include "hpo/worker/node_slice.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "hpo/transport/wire.h"
#include "launcher/node/topo_visible.h"

/* ---- GPUs ----------------------------------------------------------------------------------- */

/* What trials get: GPUs, and the MIG instances of divided GPUs. */
struct gpu_units {
    char **names; /* strv: UUIDs; indexes if these are unknown */
    int count;
};

static void add_unit(struct gpu_units *u, const struct gpu *g, const char *uuid)
{
    strv_push(&u->names, *uuid ? xstrdup(uuid) : xasprintf("%d", g->index));
    u->count++;
}

/* Adds a GPU, as its MIG instances if it has some, or one MIG instance. */
static void add_gpu(struct gpu_units *u, const struct gpu *g, const char *uuid)
{
    int parts = 0;
    for (int p = 0; p < GPU_MIG_MAX && uuid == g->uuid; p++)
        if (g->mig_uuids[p][0] && ++parts)
            add_unit(u, g, g->mig_uuids[p]);
    if (parts == 0)
        add_unit(u, g, uuid);
}

/* Adds the GPUs of a range, "0-3". Returns false if the word is not a range of this node's GPUs. */
static bool add_range(struct gpu_units *u, const struct topo *t, const char *word, size_t len)
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

static int find_units(struct gpu_units *u, const struct topo *t, const struct node_slice_opts *opts,
                      struct err *e)
{
    const char *list = opts->gpus ? opts->gpus : opts->visible;
    int rc = opts->gpus ? 0 : topo_check_visible(t, opts->visible, e);
    if (rc < 0)
        return rc;
    for (int i = 0; !list && i < topo_gpu_count(t); i++)
        add_gpu(u, topo_gpu(t, i), topo_gpu(t, i)->uuid);
    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, ",");
        const struct gpu *g = NULL;
        const char *uuid = NULL;
        if (topo_find_gpu(&g, &uuid, t, p, len))
            add_gpu(u, g, uuid);
        else if (!opts->gpus)
            break;
        else if (!add_range(u, t, p, len))
            return err_set(e, -EINVAL, "unknown GPU '%.*s': '%s' has %d GPU%s", (int)len, p,
                           topo_name(t), topo_gpu_count(t), plural_s(topo_gpu_count(t)));
        p += len + (p[len] == ',');
    }
    for (int i = 0; i < u->count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(u->names[i], u->names[j]) == 0)
                return err_set(e, -EINVAL, "GPUs '%s': a GPU is named twice", list);
    return 0;
}

/* ---- how many ------------------------------------------------------------------------------- */

/* Cores of which this process may use at least one hardware thread. */
static int count_cores(const struct topo *t, hwloc_const_bitmap_t allowed)
{
    hwloc_topology_t h = topo_hwloc(t);
    int n = 0;
    for (hwloc_obj_t c = NULL; (c = hwloc_get_next_obj_by_type(h, HWLOC_OBJ_CORE, c));)
        n += hwloc_bitmap_intersects(c->cpuset, allowed);
    return n > 0 ? n : hwloc_bitmap_weight(allowed); /* some virtual machines report no cores */
}

/* Bytes; INT64_MAX: unknown. */
static int64_t memory_of(const struct topo *t, const struct node_slice_opts *opts)
{
    uint64_t all = hwloc_get_root_obj(topo_hwloc(t))->total_memory;
    int64_t total = all > 0 && all < INT64_MAX ? (int64_t)all : INT64_MAX;
    return opts->memory_bytes > 0 && opts->memory_bytes < total ? opts->memory_bytes : total;
}

static int does_not_fit(struct err *e, const char *what, const char *has, const struct topo *t)
{
    err_set(e, -EINVAL, "a trial needs %s: '%s' has %s", what, topo_name(t), has);
    return err_hint(e, "drover.resources in the sweep file is what a trial needs");
}

static int min_of(int a, int64_t b)
{
    return b < a ? (int)b : a;
}

/* How many trials fit on the node with everything that they need. */
static int count_fit(int *out, const struct topo *t, const struct node_slice_opts *opts, int gpus,
                     int cores, struct err *e)
{
    const struct resources *need = &opts->need;
    char what[64], has[64], size[16];
    int fit = WIRE_SLOTS_MAX;
    if (need->gpus > 0) {
        /* The tolerance: ten times 0.1 is one GPU, but 1 / 0.1 may be less than 10 in binary. */
        fit = need->gpus < 1 ? min_of(fit, (int64_t)gpus * (int64_t)(1 / need->gpus + 1e-9))
                             : gpus / (int)need->gpus;
        snprintf(what, sizeof what, "%g GPUs", need->gpus);
        snprintf(has, sizeof has, "%d", gpus);
    }
    if (fit > 0 && need->cpus > 0) {
        int64_t each = (int64_t)need->ranks * need->cpus;
        fit = min_of(fit, cores / each);
        snprintf(what, sizeof what, "%lld core%s", (long long)each, plural_s(each));
        snprintf(has, sizeof has, "%d", cores);
    }
    if (fit > 0 && need->memory_bytes > 0) {
        int64_t there = memory_of(t, opts);
        fit = min_of(fit, there / need->memory_bytes);
        snprintf(what, sizeof what, "%s of memory",
                 byte_size_format(size, sizeof size, (uint64_t)need->memory_bytes));
        byte_size_format(has, sizeof has, (uint64_t)there);
    }
    *out = fit;
    return fit > 0 ? 0 : does_not_fit(e, what, has, t);
}

static int count_slots(int *out, const struct topo *t, const struct node_slice_opts *opts, int gpus,
                       int cores, struct err *e)
{
    int fit = 0, ranks = opts->need.ranks, quota = topo_cpu_quota(t);
    if (quota > 0 && quota < cores)
        cores = quota;
    if (count_fit(&fit, t, opts, gpus, cores, e) < 0)
        return -EINVAL;
    int wanted = opts->slots;
    if (wanted == 0 && opts->need.gpus > 0)
        wanted = fit;
    else if (wanted == 0)
        wanted = (gpus > 0 ? gpus : cores) / ranks;
    *out = min_of(fit, wanted > 0 ? wanted : 1);
    return 0;
}

/* ---- the slices ----------------------------------------------------------------------------- */

/* Returns the cores [from, to) of the allowed ones as a list of hardware threads. To be freed. */
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

/* The share of slot i in n things: [from, to). It has at least one, which it may share. */
static void share_of(int *from, int *to, int n, int slots, int i)
{
    *from = (int)((long)i * n / slots);
    *to = (int)((long)(i + 1) * n / slots);
    if (*to == *from)
        *to = *from + 1;
}

/* The GPUs of slot i: as many as a trial needs, or its whole share if a trial needs no number of
 * them. */
static char *gpus_of(const struct gpu_units *u, double need, int slots, int i)
{
    int from, to;
    share_of(&from, &to, u->count, slots, i);
    if (need > 0)
        to = from + (need < 1 ? 1 : (int)need);
    AUTO(strbuf) struct strbuf b = {0};
    for (int g = from; g < to && g < u->count; g++)
        strbuf_printf(&b, "%s%s", g > from ? "," : "", u->names[g]);
    return strbuf_take(&b);
}

static int find_cpus(hwloc_bitmap_t allowed, const struct topo *t, const char *list, struct err *e)
{
    hwloc_bitmap_copy(allowed, topo_allowed(t));
    if (!list)
        return 0;
    AUTO(bitmap) hwloc_bitmap_t wanted = hwloc_bitmap_alloc();
    if (cpu_list_parse(wanted, list, e) < 0)
        return -EINVAL;
    hwloc_bitmap_and(allowed, allowed, wanted);
    if (hwloc_bitmap_iszero(allowed))
        return err_set(e, -EINVAL, "CPUs '%s': this process may use none of them", list);
    return 0;
}

static void auto_gpu_units(struct gpu_units *u)
{
    strv_free(u->names);
}

int node_slice_make(struct node_slice **out, int *count, const struct topo *t,
                    const struct node_slice_opts *opts, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    AUTO(gpu_units) struct gpu_units units = {0};
    if (find_cpus(allowed, t, opts->cpus, e) < 0 || find_units(&units, t, opts, e) < 0)
        return -EINVAL;
    int slots = 0, cores = count_cores(t, allowed);
    if (count_slots(&slots, t, opts, units.count, cores, e) < 0)
        return -EINVAL;
    bool divided = hwloc_get_nbobjs_by_type(topo_hwloc(t), HWLOC_OBJ_CORE) > 0 &&
                   cores >= (long)slots * opts->need.ranks;
    struct node_slice *slices = xcalloc((size_t)slots, sizeof *slices);
    for (int i = 0; i < slots; i++) {
        int from, to;
        share_of(&from, &to, cores, slots, i);
        if (divided)
            slices[i].cpus = cores_between(t, allowed, from, to);
        else if (opts->cpus)
            slices[i].cpus = xstrdup(opts->cpus);
        if (topo_gpu_count(t) > 0)
            slices[i].gpus = gpus_of(&units, opts->need.gpus, slots, i);
        slices[i].shared = !divided || (units.count > 0 && units.count < slots) ||
                           (opts->need.gpus > 0 && opts->need.gpus < 1);
    }
    *out = slices;
    *count = slots;
    return 0;
}

void node_slice_free(struct node_slice *slices, int n)
{
    for (int i = 0; slices && i < n; i++) {
        free(slices[i].cpus);
        free(slices[i].gpus);
    }
    free(slices);
}

bool node_slice_has_gpu(const struct node_slice *s, const char *uuid)
{
    size_t len = strlen(uuid);
    for (const char *at = s->gpus; len > 0 && at && (at = strstr(at, uuid)); at += len)
        if ((at == s->gpus || at[-1] == ',') && (at[len] == ',' || !at[len]))
            return true;
    return false;
}
