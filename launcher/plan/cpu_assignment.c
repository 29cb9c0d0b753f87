#include "launcher/plan/cpu_assignment.h"

#include <errno.h>
#include <string.h>

#include "launcher/plan/cpu_units.h"

/* A rank's place while it is looked for. */
struct spot {
    struct cpu_units_range own; /* its share */
    struct cpu_units_range
        pool;    /* what it may be widened to: its GPU's NUMA node, its object, all */
    bool shared; /* others have the same share */
    int numa_os; /* its memory's node; -1: not bound */
};

/* What ranks are mapped by; with ppr: to each of what. */
static enum plan_map map_of(const struct cpu_assignment_opts *w)
{
    return w->map_by == PLAN_MAP_PPR ? w->ppr_of : w->map_by;
}

static bool by_thread(const struct cpu_assignment_opts *w)
{
    return map_of(w) == PLAN_MAP_HWTHREAD || w->bind_to == PLAN_BIND_HWTHREAD;
}

static struct cpu_units *all_units(const struct cpu_assignment_opts *w)
{
    return cpu_units_of(w->topo, w->cpus, by_thread(w));
}

int cpu_assignment_units(const struct cpu_assignment_opts *w)
{
    AUTO(cpu_units) struct cpu_units *v = all_units(w);
    return v->n;
}

/* ---- dividing -------------------------------------------------------------------------------- */

/* The i-th of `parts` even parts of `of`: they differ by one unit at most. */
static struct cpu_units_range part(struct cpu_units_range of, int i, int parts)
{
    int begin = (int)((long)of.n * i / parts), end = (int)((long)of.n * (i + 1) / parts);
    return (struct cpu_units_range){of.first + begin, end - begin};
}

static void divide(struct spot *s, int ranks, const struct cpu_units *v, struct cpu_units_range of,
                   enum cpu_units_level level);

/* Fewer ranks than pieces: each gets whole pieces that follow each other, as evenly as the pieces
 * allow. */
static void give_pieces(struct spot *s, int ranks, const int *cut, int pieces)
{
    int total = cut[pieces] - cut[0], from = 0;
    for (int i = 0; i < ranks; i++) {
        int ideal = cut[0] + (int)((long)total * (i + 1) / ranks);
        int to = from + 1, last = pieces - (ranks - 1 - i); /* the others need one each */
        while (to < last && abs(cut[to + 1] - ideal) < abs(cut[to] - ideal))
            to++;
        if (i == ranks - 1)
            to = pieces;
        s[i].own = (struct cpu_units_range){cut[from], cut[to] - cut[from]};
        from = to;
    }
}

/* At least as many ranks as pieces: each piece has ranks after its size, and is divided among
 * them. Counts are rounded at the pieces' ends, so that no piece gets more ranks than units. */
static void give_ranks(struct spot *s, int ranks, const struct cpu_units *v, const int *cut,
                       int pieces, enum cpu_units_level level)
{
    long total = cut[pieces] - cut[0];
    int given = 0;
    for (int p = 0; p < pieces; p++) {
        long end = cut[p + 1] - cut[0];
        int upto = (int)((2 * end * ranks + total) / (2 * total));
        struct cpu_units_range piece = {cut[p], cut[p + 1] - cut[p]};
        divide(s + given, upto - given, v, piece, level + 1);
        given = upto;
    }
}

/* Divides `of` among `ranks` (no more than it has units): packages first, then NUMA nodes, then
 * evenly. */
static void divide(struct spot *s, int ranks, const struct cpu_units *v, struct cpu_units_range of,
                   enum cpu_units_level level)
{
    if (ranks == 0)
        return;
    if (level > CPU_UNITS_NUMA) {
        for (int i = 0; i < ranks; i++)
            s[i].own = part(of, i, ranks);
        return;
    }
    AUTO(free) int *cut = xcalloc((size_t)of.n + 1, sizeof *cut);
    int pieces = cpu_units_cut(cut, v, of, level);
    if (pieces == 1)
        divide(s, ranks, v, of, level + 1);
    else if (ranks < pieces)
        give_pieces(s, ranks, cut, pieces);
    else
        give_ranks(s, ranks, v, cut, pieces, level);
}

/* The level that a word of the command line means; CPU_UNITS_LEVELS: none, as for a slot or a node.
 */
static enum cpu_units_level level_of(enum plan_map of)
{
    return of == PLAN_MAP_PACKAGE    ? CPU_UNITS_PACKAGE
           : of == PLAN_MAP_NUMA     ? CPU_UNITS_NUMA
           : of == PLAN_MAP_L3       ? CPU_UNITS_L3
           : of == PLAN_MAP_CORE     ? CPU_UNITS_CORE
           : of == PLAN_MAP_HWTHREAD ? CPU_UNITS_UNIT
                                     : CPU_UNITS_LEVELS;
}

int cpu_assignment_objects(const struct cpu_assignment_opts *w, enum plan_map of)
{
    AUTO(cpu_units) struct cpu_units *v = all_units(w);
    enum cpu_units_level level = level_of(of);
    if (level == CPU_UNITS_LEVELS)
        return 1;
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    return v->n > 0 && v->u[0].in[level] < 0
               ? 0
               : cpu_units_cut(cut, v, (struct cpu_units_range){0, v->n}, level);
}

/* ---- mapping --------------------------------------------------------------------------------- */

static const char *unit_name(const struct cpu_assignment_opts *w)
{
    return by_thread(w) ? "hardware threads" : "cores";
}

static int too_few(const struct cpu_assignment_opts *w, const struct cpu_units *v, struct err *e)
{
    if (w->cpus_per_rank > 1)
        err_set(e, -EINVAL, "%d ranks of %d %s each do not fit on '%s', which has %d for them",
                w->ranks, w->cpus_per_rank, unit_name(w), topo_name(w->topo), v->n);
    else
        err_set(e, -EINVAL, "%d ranks are to be bound, but '%s' has %d %s for them", w->ranks,
                topo_name(w->topo), v->n, unit_name(w));
    err_hint(e, "--oversubscribe lets them share, --bind-to none leaves them free");
    return -EINVAL;
}

/* Whether ranks may get the same CPUs. Ranks that are not bound always may. */
static bool may_share(const struct cpu_assignment_opts *w)
{
    return w->oversubscribe || w->bind_to == PLAN_BIND_NONE;
}

/* The object that was asked for to be bound to all of; CPU_UNITS_LEVELS: none. */
static enum cpu_units_level wide_bind(const struct cpu_assignment_opts *w)
{
    return w->bind_to == PLAN_BIND_PACKAGE ? CPU_UNITS_PACKAGE
           : w->bind_to == PLAN_BIND_NUMA  ? CPU_UNITS_NUMA
           : w->bind_to == PLAN_BIND_L3    ? CPU_UNITS_L3
                                           : CPU_UNITS_LEVELS;
}

static bool binds_one(const struct cpu_assignment_opts *w)
{
    return w->bind_to == PLAN_BIND_CORE || w->bind_to == PLAN_BIND_HWTHREAD;
}

/* One behind the other, as mpirun's --map-by slot, core and hwthread. */
static int map_packed(struct spot *s, const struct cpu_assignment_opts *w,
                      const struct cpu_units *v, struct err *e)
{
    int width = w->cpus_per_rank > 0 ? w->cpus_per_rank : 1;
    bool fits = (long)w->ranks * width <= v->n;
    if (!fits && !may_share(w))
        return too_few(w, v, e);
    if (width > v->n)
        width = v->n;
    int places = v->n / width; /* whole ones; then they begin anew */
    for (int i = 0; i < w->ranks; i++) {
        s[i].own = s[i].pool = (struct cpu_units_range){i % places * width, width};
        s[i].shared = !fits;
    }
    return 0;
}

/* Brings rank i's share in its GPU's NUMA node to cpus_per_rank units. It grows inside its pool,
 * and only where ranks may share. */
static int resize(struct spot *s, int i, const struct cpu_assignment_opts *w, struct err *e)
{
    int want = w->cpus_per_rank;
    struct cpu_units_range *own = &s[i].own, pool = s[i].pool;
    if (want == 0)
        return 0;
    if (want > own->n) {
        if (!may_share(w)) {
            err_set(e, -EINVAL,
                    "%d %s a rank, but the share of rank %d in its GPU's NUMA node is %d", want,
                    unit_name(w), i, own->n);
            return err_hint(e, "--oversubscribe lets ranks share, --bind-to none leaves them free");
        }
        want = want < pool.n ? want : pool.n;
        int last = pool.first + pool.n - want;
        own->first = own->first < last ? own->first : last;
    }
    own->n = want;
    return 0;
}

/* The j-th of m ranks in a pool: a share of its own. Where the pool is too small: all of it, or one
 * unit after the other where ranks are bound to one. */
static void share_pool(struct spot *s, struct cpu_units_range pool, int j, int m, bool one)
{
    s->pool = pool;
    s->shared = m > pool.n;
    if (!s->shared)
        s->own = part(pool, j, m);
    else
        s->own = one ? (struct cpu_units_range){pool.first + j % pool.n, 1} : pool;
}

/* CPUs that each rank is given in its object; 0: an even share of it. */
static int width_of(const struct cpu_assignment_opts *w)
{
    return w->cpus_per_rank > 0 ? w->cpus_per_rank : binds_one(w) ? 1 : 0;
}

/* As mpirun's --map-by l3cache, numa, package: in turn on each object, or with ppr so many on each.
 * There one behind the other, or in turn on the smaller objects that they are bound to. */
static int map_objects(struct spot *s, const struct cpu_assignment_opts *w,
                       const struct cpu_units *v, enum cpu_units_level level, struct err *e)
{
    static const char *const names[CPU_UNITS_LEVELS] = {"package", "NUMA node", "level 3 cache",
                                                        "core", "hardware thread"};
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    AUTO(free) int *sub = xcalloc((size_t)v->n + 1, sizeof *sub); /* of one object */
    int objects = cpu_units_cut(cut, v, (struct cpu_units_range){0, v->n}, level),
        width = width_of(w);
    if (v->u[0].in[level] < 0)
        return err_set(e, -EINVAL, "'%s' shows no %s to map ranks by", topo_name(w->topo),
                       names[level]);
    for (int i = 0; i < w->ranks; i++) {
        bool ppr = w->map_by == PLAN_MAP_PPR && level == level_of(w->ppr_of);
        int o = ppr ? i / w->ppr % objects : i % objects, at = ppr ? i % w->ppr : i / objects;
        int m = ppr ? w->ppr : w->ranks / objects + (o < w->ranks % objects);
        m = ppr && m > w->ranks - (i - at) ? w->ranks - (i - at) : m;
        struct cpu_units_range pool = {cut[o], cut[o + 1] - cut[o]};
        share_pool(&s[i], pool, at, m, false);
        if (width > 0) {
            int n = width < pool.n ? width : pool.n, blocks = pool.n / n;
            s[i].shared = m * width > pool.n;
            s[i].own = (struct cpu_units_range){pool.first + at % blocks * n, n};
        }
        if (wide_bind(w) > level && wide_bind(w) < CPU_UNITS_LEVELS) {
            int inner = cpu_units_cut(sub, v, pool, wide_bind(w)), k = at % inner;
            s[i].own = (struct cpu_units_range){sub[k], sub[k + 1] - sub[k]};
        }
        if (s[i].shared && !may_share(w)) {
            err_set(e, -EINVAL, "%d x %d %s in each %s are too many: one of '%s' has %d", m,
                    width > 0 ? width : 1, unit_name(w), names[level], topo_name(w->topo), pool.n);
            return err_hint(e, "--oversubscribe lets them share, --bind-to none leaves them free");
        }
    }
    return 0;
}

/* As usual, without GPUs. */
static int map_evenly(struct spot *s, const struct cpu_assignment_opts *w,
                      const struct cpu_units *v, struct err *e)
{
    divide(s, w->ranks, v, (struct cpu_units_range){0, v->n}, CPU_UNITS_PACKAGE);
    int least = v->n;
    for (int i = 0; i < w->ranks; i++)
        least = s[i].own.n < least ? s[i].own.n : least;
    if (w->cpus_per_rank > least) /* shares that keep inside NUMA nodes do not suffice */
        return map_packed(s, w, v, e);
    for (int i = 0; i < w->ranks && w->cpus_per_rank > 0; i++)
        s[i].own.n = w->cpus_per_rank;
    return 0;
}

/* The NUMA node (a piece of `cut`) with the most units for one more rank. */
static int roomiest(const int *cut, const int *load, int pieces)
{
    int best = 0;
    for (int p = 1; p < pieces; p++) {
        long a = (long)(cut[p + 1] - cut[p]) * (load[best] + 1);
        long b = (long)(cut[best + 1] - cut[best]) * (load[p] + 1);
        best = a > b ? p : best;
    }
    return best;
}

/* As usual, with GPUs: each NUMA node's cores are divided among the ranks whose GPU hangs on it.
 * Where that is not known, or no core of it may be used, the rank goes where there is most room. */
static int map_gpus(struct spot *s, const struct cpu_assignment_opts *w, const struct cpu_units *v,
                    struct err *e)
{
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    int pieces = cpu_units_cut(cut, v, (struct cpu_units_range){0, v->n}, CPU_UNITS_NUMA);
    AUTO(free) int *load = xcalloc((size_t)pieces, sizeof *load);
    AUTO(free) int *piece = xcalloc((size_t)w->ranks, sizeof *piece);
    for (int i = 0; i < w->ranks; i++) {
        piece[i] = -1;
        for (int p = 0; p < pieces && piece[i] < 0 && w->numa[i] >= 0; p++)
            if (v->u[cut[p]].numa_os == w->numa[i])
                piece[i] = p;
        if (piece[i] >= 0) {
            load[piece[i]]++;
            s[i].numa_os = w->numa[i];
        }
    }
    for (int i = 0; i < w->ranks; i++)
        if (piece[i] < 0) {
            piece[i] = roomiest(cut, load, pieces);
            load[piece[i]]++;
        }
    AUTO(free) int *given = xcalloc((size_t)pieces, sizeof *given);
    for (int i = 0; i < w->ranks; i++) {
        int p = piece[i];
        share_pool(&s[i], (struct cpu_units_range){cut[p], cut[p + 1] - cut[p]}, given[p]++,
                   load[p], binds_one(w));
        if (resize(s, i, w, e) < 0)
            return -EINVAL;
    }
    return 0;
}

/* With ppr: every rank's GPU hangs on the object that the rank goes to, so that both can be had. */
static bool gpus_are_inside(const struct cpu_assignment_opts *w, const struct cpu_units *v)
{
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    int objects = cpu_units_cut(cut, v, (struct cpu_units_range){0, v->n}, level_of(map_of(w)));
    bool inside = w->numa && w->map_by == PLAN_MAP_PPR;
    for (int i = 0; i < w->ranks && inside; i++) {
        int o = i / w->ppr % objects, k = cut[o];
        while (k < cut[o + 1] && v->u[k].numa_os != w->numa[i])
            k++;
        inside = k < cut[o + 1];
    }
    return inside;
}

static int map_ranks(struct spot *s, const struct cpu_assignment_opts *w, const struct cpu_units *v,
                     struct err *e)
{
    for (int i = 0; i < w->ranks; i++)
        s[i] = (struct spot){.pool = {0, v->n}, .numa_os = -1};
    enum cpu_units_level wide = wide_bind(w);
    switch (map_of(w)) {
    case PLAN_MAP_CORE:
    case PLAN_MAP_HWTHREAD:
        if (w->map_by == PLAN_MAP_PPR || (by_thread(w) && w->map_by == PLAN_MAP_CORE))
            return map_objects(s, w, v, level_of(map_of(w)), e);
        return map_packed(s, w, v, e);
    case PLAN_MAP_L3:
    case PLAN_MAP_NUMA:
    case PLAN_MAP_PACKAGE:
        if (gpus_are_inside(w, v))
            break;
        return map_objects(s, w, v, level_of(map_of(w)), e);
    case PLAN_MAP_SLOT:
    case PLAN_MAP_PPR:
    case PLAN_MAP_NODE: /* in turn on each node: here there is one */
        if (w->numa)
            break; /* the GPU says where */
        if (wide < CPU_UNITS_LEVELS)
            return map_objects(s, w, v, wide, e);
        if (width_of(w) > 0)
            return map_packed(s, w, v, e);
        break;
    case PLAN_MAP_DEFAULT:
        break;
    }
    if (w->numa)
        return map_gpus(s, w, v, e);
    if (w->ranks <= v->n)
        return map_evenly(s, w, v, e);
    return map_packed(s, w, v, e);
}

/* ---- binding --------------------------------------------------------------------------------- */

/* The object that a rank is bound to all of; CPU_UNITS_LEVELS: to its share. */
static enum cpu_units_level bound_level(const struct cpu_assignment_opts *w)
{
    /* mpirun binds to the objects that ranks are mapped by, or to the CPUs of each (PE=n); with ppr
     * to a core or NUMA node by the number of ranks, here to a share of the object. */
    if (w->bind_to == PLAN_BIND_DEFAULT && w->cpus_per_rank == 0 &&
        level_of(w->map_by) < CPU_UNITS_CORE)
        return level_of(w->map_by);
    if (w->bind_to == PLAN_BIND_CORE && by_thread(w))
        return CPU_UNITS_CORE;
    return wide_bind(w);
}

static char *list_of(hwloc_const_bitmap_t set)
{
    char *s = NULL;
    if (hwloc_bitmap_list_asprintf(&s, set) < 0)
        abort();
    return s;
}

static void bind_rank(struct cpu_assignment *out, const struct spot *s, struct cpu_units_range to,
                      const struct cpu_assignment_opts *w, const struct cpu_units *v)
{
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    bool at_home = s->numa_os >= 0;
    for (int i = to.first; i < to.first + to.n; i++) {
        hwloc_bitmap_or(set, set, v->u[i].cpus);
        at_home = at_home && v->u[i].numa_os == s->numa_os;
    }
    out->cpus = list_of(set);
    /* Memory follows the CPUs by itself (first touch). It is bound where a GPU's transfers depend
     * on it, and only inside what this process may use. */
    hwloc_const_bitmap_t nodes = hwloc_topology_get_allowed_nodeset(topo_hwloc(w->topo));
    if (at_home && hwloc_bitmap_isset(nodes, (unsigned)s->numa_os))
        out->mems = xasprintf("%d", s->numa_os);
}

/* Ranks whose share begins in `in`. */
static int ranks_in(const struct spot *s, int ranks, struct cpu_units_range in)
{
    int n = 0;
    for (int i = 0; i < ranks; i++)
        n += s[i].own.first >= in.first && s[i].own.first < in.first + in.n;
    return n;
}

/* Numbers the ranks in turn on each object of w->rank_by: the next one that was mapped to something
 * that the object belongs to, or holds. As they were mapped where it names none, or where they were
 * not mapped by objects. (mpirun's rules.) */
static void number_ranks(struct spot *s, const struct cpu_assignment_opts *w,
                         const struct cpu_units *v)
{
    enum cpu_units_level level = level_of(w->rank_by);
    if (level == CPU_UNITS_LEVELS || level_of(map_of(w)) == CPU_UNITS_LEVELS ||
        gpus_are_inside(w, v))
        return;
    AUTO(free) struct spot *was = xcalloc((size_t)w->ranks, sizeof *was);
    AUTO(free) bool *done = xcalloc((size_t)w->ranks, sizeof *done);
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    int objects = cpu_units_cut(cut, v, (struct cpu_units_range){0, v->n}, level);
    memcpy(was, s, (size_t)w->ranks * sizeof *was);
    for (int given = 0, o = 0; given < w->ranks; o = (o + 1) % objects) {
        int i = 0;
        while (i < w->ranks && (done[i] || was[i].pool.first >= cut[o + 1] ||
                                was[i].pool.first + was[i].pool.n <= cut[o]))
            i++;
        if (i == w->ranks)
            continue;
        done[i] = true;
        s[given++] = was[i];
    }
}

static void bind_all(struct cpu_assignment *out, struct spot *s,
                     const struct cpu_assignment_opts *w, const struct cpu_units *v)
{
    enum cpu_units_level level = bound_level(w);
    bool one = binds_one(w) && w->cpus_per_rank == 0;
    for (int i = 0; i < w->ranks; i++) {
        struct cpu_units_range to = s[i].own;
        out[i] = (struct cpu_assignment){.cores = s[i].shared ? 1 : to.n};
        if (w->bind_to == PLAN_BIND_NONE) {
            if (w->part)
                out[i].cpus = list_of(w->cpus);
            continue;
        }
        if (one)
            to.n = out[i].cores = 1;
        if (level != CPU_UNITS_LEVELS) {
            to = cpu_units_around(v, to, level);
            int cores = to.n / ranks_in(s, w->ranks, to);
            out[i].cores = cores > 0 ? cores : 1;
        }
        bind_rank(&out[i], &s[i], to, w, v);
    }
}

static int check(const struct cpu_assignment_opts *w, const struct cpu_units *v, struct err *e)
{
    if (wide_bind(w) < CPU_UNITS_LEVELS && w->cpus_per_rank > 0) {
        err_set(e, -EINVAL, "ranks cannot be bound to %d CPUs each and to a whole object too",
                w->cpus_per_rank);
        return err_hint(e, "leave out --bind-to: a number of CPUs a rank binds to these");
    }
    if (w->bind_to == PLAN_BIND_L3 && v->u[0].in[CPU_UNITS_L3] < 0)
        return err_set(e, -EINVAL, "'%s' shows no level 3 cache to bind ranks to",
                       topo_name(w->topo));
    return 0;
}

int cpu_assignment_ranks(struct cpu_assignment *out, const struct cpu_assignment_opts *w,
                         struct err *e)
{
    AUTO(cpu_units) struct cpu_units *v = all_units(w);
    if (v->n == 0)
        return err_set(e, -EINVAL, "'%s' has no core among the CPUs to be used",
                       topo_name(w->topo));
    if (check(w, v, e) < 0)
        return -EINVAL;
    bool usual = level_of(map_of(w)) == CPU_UNITS_LEVELS && wide_bind(w) == CPU_UNITS_LEVELS &&
                 width_of(w) == 0;
    /* More ranks than cores, and nobody asked for more than to run them: they share all. */
    if (usual && !w->numa && w->ranks > v->n) {
        for (int i = 0; i < w->ranks; i++)
            out[i] = (struct cpu_assignment){.cpus = w->part ? list_of(w->cpus) : NULL, .cores = 1};
        return 0;
    }
    AUTO(free) struct spot *s = xcalloc((size_t)w->ranks, sizeof *s);
    if (map_ranks(s, w, v, e) < 0)
        return -EINVAL;
    number_ranks(s, w, v);
    bind_all(out, s, w, v);
    return 0;
}
