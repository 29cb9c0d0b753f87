#include "launcher/place.h"

#include <errno.h>
#include <string.h>

/* Objects that units stand in, outermost first. */
enum level { LEVEL_PACKAGE, LEVEL_NUMA, LEVEL_L3, LEVEL_CORE, LEVEL_UNIT, LEVELS };

/* What is given out: a core, or a hardware thread. In the machine's order, so that the units of an
 * object follow each other. */
struct unit {
    hwloc_bitmap_t cpus;
    int in[LEVELS]; /* number of the object that it stands in; -1: in none */
    int numa_os;    /* OS index of its NUMA node; -1: none */
};

struct units {
    struct unit *u;
    int n;
};

/* Units [first, first + n). */
struct range {
    int first, n;
};

/* A rank's place while it is looked for. */
struct spot {
    struct range own;  /* its share */
    struct range pool; /* what it may be widened to: its GPU's NUMA node, its object, all */
    bool shared;       /* others have the same share */
    int numa_os;       /* its memory's node; -1: not bound */
};

static void units_free(struct units *v)
{
    for (int i = 0; v && i < v->n; i++)
        hwloc_bitmap_free(v->u[i].cpus);
    if (v)
        free(v->u);
    free(v);
}

AUTO_DEFINE(units, struct units *, units_free)

static int number_of(hwloc_topology_t hw, hwloc_obj_t o, hwloc_obj_type_t type)
{
    hwloc_obj_t up = o->type == type ? o : hwloc_get_ancestor_obj_by_type(hw, type, o);
    return up ? (int)up->logical_index : -1;
}

/* The first NUMA node that holds `cpus`: of several kinds of memory beside the same cores (high
 * bandwidth, a GPU's) that is the ordinary one. */
static hwloc_obj_t numa_of(hwloc_topology_t hw, hwloc_const_bitmap_t cpus)
{
    hwloc_obj_t n = NULL;
    while ((n = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, n)))
        if (hwloc_bitmap_isincluded(cpus, n->cpuset))
            return n;
    return NULL;
}

/* What ranks are mapped by; with ppr: to each of what. */
static enum plan_map map_of(const struct place_want *w)
{
    return w->map_by == PLAN_MAP_PPR ? w->ppr_of : w->map_by;
}

static bool by_thread(const struct place_want *w)
{
    return map_of(w) == PLAN_MAP_HWTHREAD || w->bind_to == PLAN_BIND_HWTHREAD;
}

static struct units *units_of(const struct place_want *w)
{
    hwloc_topology_t hw = topo_hwloc(w->topo);
    /* Some virtual machines show hardware threads but no cores. */
    bool threads = by_thread(w) || hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_CORE) <= 0;
    hwloc_obj_type_t type = threads ? HWLOC_OBJ_PU : HWLOC_OBJ_CORE;
    struct units *v = xzalloc(sizeof *v);
    v->u = xcalloc((size_t)hwloc_get_nbobjs_by_type(hw, type), sizeof *v->u);
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_obj_by_type(hw, type, o))) {
        if (!hwloc_bitmap_intersects(o->cpuset, w->cpus))
            continue;
        struct unit *u = &v->u[v->n];
        u->cpus = hwloc_bitmap_alloc();
        hwloc_bitmap_and(u->cpus, o->cpuset, w->cpus);
        hwloc_obj_t numa = numa_of(hw, u->cpus);
        u->in[LEVEL_PACKAGE] = number_of(hw, o, HWLOC_OBJ_PACKAGE);
        u->in[LEVEL_NUMA] = numa ? (int)numa->logical_index : -1;
        u->in[LEVEL_L3] = number_of(hw, o, HWLOC_OBJ_L3CACHE);
        u->in[LEVEL_CORE] = number_of(hw, o, HWLOC_OBJ_CORE);
        u->in[LEVEL_UNIT] = v->n++;
        u->numa_os = numa ? (int)numa->os_index : -1;
    }
    return v;
}

int place_units(const struct place_want *w)
{
    AUTO(units) struct units *v = units_of(w);
    return v->n;
}

/* ---- dividing -------------------------------------------------------------------------------- */

/* The i-th of `parts` even parts of `of`: they differ by one unit at most. */
static struct range part(struct range of, int i, int parts)
{
    int begin = (int)((long)of.n * i / parts), end = (int)((long)of.n * (i + 1) / parts);
    return (struct range){of.first + begin, end - begin};
}

/* Cuts `of` where the object at `level` changes. `cut` gets the beginnings and, last, the end; it
 * has room for of.n + 1. Returns the number of pieces. */
static int cut_at(int *cut, const struct units *v, struct range of, enum level level)
{
    int n = 0;
    for (int i = of.first; i < of.first + of.n; i++)
        if (i == of.first || v->u[i].in[level] != v->u[i - 1].in[level])
            cut[n++] = i;
    cut[n] = of.first + of.n;
    return n;
}

static void divide(struct spot *s, int ranks, const struct units *v, struct range of,
                   enum level level);

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
        s[i].own = (struct range){cut[from], cut[to] - cut[from]};
        from = to;
    }
}

/* At least as many ranks as pieces: each piece has ranks after its size, and is divided among
 * them. Counts are rounded at the pieces' ends, so that no piece gets more ranks than units. */
static void give_ranks(struct spot *s, int ranks, const struct units *v, const int *cut, int pieces,
                       enum level level)
{
    long total = cut[pieces] - cut[0];
    int given = 0;
    for (int p = 0; p < pieces; p++) {
        long end = cut[p + 1] - cut[0];
        int upto = (int)((2 * end * ranks + total) / (2 * total));
        struct range piece = {cut[p], cut[p + 1] - cut[p]};
        divide(s + given, upto - given, v, piece, level + 1);
        given = upto;
    }
}

/* Divides `of` among `ranks` (no more than it has units): packages first, then NUMA nodes, then
 * evenly. */
static void divide(struct spot *s, int ranks, const struct units *v, struct range of,
                   enum level level)
{
    if (ranks == 0)
        return;
    if (level > LEVEL_NUMA) {
        for (int i = 0; i < ranks; i++)
            s[i].own = part(of, i, ranks);
        return;
    }
    AUTO(free) int *cut = xcalloc((size_t)of.n + 1, sizeof *cut);
    int pieces = cut_at(cut, v, of, level);
    if (pieces == 1)
        divide(s, ranks, v, of, level + 1);
    else if (ranks < pieces)
        give_pieces(s, ranks, cut, pieces);
    else
        give_ranks(s, ranks, v, cut, pieces, level);
}

/* The level that a word of the command line means; LEVELS: none, as for a slot or a node. */
static enum level level_of(enum plan_map of)
{
    return of == PLAN_MAP_PACKAGE    ? LEVEL_PACKAGE
           : of == PLAN_MAP_NUMA     ? LEVEL_NUMA
           : of == PLAN_MAP_L3       ? LEVEL_L3
           : of == PLAN_MAP_CORE     ? LEVEL_CORE
           : of == PLAN_MAP_HWTHREAD ? LEVEL_UNIT
                                     : LEVELS;
}

int place_objects(const struct place_want *w, enum plan_map of)
{
    AUTO(units) struct units *v = units_of(w);
    enum level level = level_of(of);
    if (level == LEVELS)
        return 1;
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    return v->n > 0 && v->u[0].in[level] < 0 ? 0 : cut_at(cut, v, (struct range){0, v->n}, level);
}

/* ---- mapping --------------------------------------------------------------------------------- */

static const char *unit_name(const struct place_want *w)
{
    return by_thread(w) ? "hardware threads" : "cores";
}

static int too_few(const struct place_want *w, const struct units *v, struct err *e)
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
static bool may_share(const struct place_want *w)
{
    return w->oversubscribe || w->bind_to == PLAN_BIND_NONE;
}

static bool binds_one(const struct place_want *w)
{
    return w->bind_to == PLAN_BIND_CORE || w->bind_to == PLAN_BIND_HWTHREAD;
}

/* One behind the other, as mpirun's --map-by slot, core and hwthread. */
static int map_packed(struct spot *s, const struct place_want *w, const struct units *v,
                      struct err *e)
{
    int width = w->cpus_per_rank > 0 ? w->cpus_per_rank : 1;
    bool fits = (long)w->ranks * width <= v->n;
    if (!fits && !may_share(w))
        return too_few(w, v, e);
    if (width > v->n)
        width = v->n;
    int places = v->n / width; /* whole ones; then they begin anew */
    for (int i = 0; i < w->ranks; i++) {
        s[i].own = (struct range){i % places * width, width};
        s[i].shared = !fits;
    }
    return 0;
}

/* Brings rank i's share in a `pool_name` to cpus_per_rank units. It grows inside its pool, and only
 * where ranks may share. */
static int resize(struct spot *s, int i, const struct place_want *w, const char *pool_name,
                  struct err *e)
{
    int want = w->cpus_per_rank;
    struct range *own = &s[i].own, pool = s[i].pool;
    if (want == 0)
        return 0;
    if (want > own->n) {
        if (!may_share(w)) {
            err_set(e, -EINVAL, "%d %s a rank, but the share of rank %d in its %s is %d", want,
                    unit_name(w), i, pool_name, own->n);
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
static void share_pool(struct spot *s, struct range pool, int j, int m, bool one)
{
    s->pool = pool;
    s->shared = m > pool.n;
    if (!s->shared)
        s->own = part(pool, j, m);
    else
        s->own = one ? (struct range){pool.first + j % pool.n, 1} : pool;
}

/* In turn on each object, as mpirun's --map-by l3cache, numa, package; with ppr, so many on each
 * before the next. */
static int map_objects(struct spot *s, const struct place_want *w, const struct units *v,
                       enum level level, struct err *e)
{
    static const char *const names[LEVELS] = {"package", "NUMA node", "level 3 cache", "core",
                                              "hardware thread"};
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    int objects = cut_at(cut, v, (struct range){0, v->n}, level);
    if (v->u[0].in[level] < 0)
        return err_set(e, -EINVAL, "'%s' shows no %s to map ranks by", topo_name(w->topo),
                       names[level]);
    for (int i = 0; i < w->ranks; i++) {
        bool ppr = w->map_by == PLAN_MAP_PPR;
        int o = ppr ? i / w->ppr % objects : i % objects, at = ppr ? i % w->ppr : i / objects;
        int m = ppr ? w->ppr : w->ranks / objects + (o < w->ranks % objects);
        share_pool(&s[i], (struct range){cut[o], cut[o + 1] - cut[o]}, at, m, binds_one(w));
        if (s[i].shared && !may_share(w))
            return too_few(w, v, e);
        if (resize(s, i, w, names[level], e) < 0)
            return -EINVAL;
    }
    return 0;
}

/* As usual, without GPUs. */
static int map_evenly(struct spot *s, const struct place_want *w, const struct units *v,
                      struct err *e)
{
    divide(s, w->ranks, v, (struct range){0, v->n}, LEVEL_PACKAGE);
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
static int map_gpus(struct spot *s, const struct place_want *w, const struct units *v,
                    struct err *e)
{
    AUTO(free) int *cut = xcalloc((size_t)v->n + 1, sizeof *cut);
    int pieces = cut_at(cut, v, (struct range){0, v->n}, LEVEL_NUMA);
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
        share_pool(&s[i], (struct range){cut[p], cut[p + 1] - cut[p]}, given[p]++, load[p],
                   binds_one(w));
        if (resize(s, i, w, "GPU's NUMA node", e) < 0)
            return -EINVAL;
    }
    return 0;
}

static int map_ranks(struct spot *s, const struct place_want *w, const struct units *v,
                     struct err *e)
{
    for (int i = 0; i < w->ranks; i++)
        s[i] = (struct spot){.pool = {0, v->n}, .numa_os = -1};
    bool free_bind = w->bind_to == PLAN_BIND_DEFAULT || w->bind_to == PLAN_BIND_NONE;
    switch (map_of(w)) {
    case PLAN_MAP_CORE:
    case PLAN_MAP_HWTHREAD:
        if (w->map_by == PLAN_MAP_PPR)
            return map_objects(s, w, v, level_of(w->ppr_of), e);
        return map_packed(s, w, v, e);
    case PLAN_MAP_L3:
        return map_objects(s, w, v, LEVEL_L3, e);
    case PLAN_MAP_NUMA:
        return map_objects(s, w, v, LEVEL_NUMA, e);
    case PLAN_MAP_PACKAGE:
        return map_objects(s, w, v, LEVEL_PACKAGE, e);
    case PLAN_MAP_SLOT:
    case PLAN_MAP_PPR:
    case PLAN_MAP_NODE: /* in turn on each node: here there is one */
        if (!free_bind)
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

/* The whole object at `level` that the share begins in. */
static struct range around(const struct units *v, struct range own, enum level level)
{
    int id = v->u[own.first].in[level], first = own.first, end = own.first + 1;
    while (first > 0 && v->u[first - 1].in[level] == id)
        first--;
    while (end < v->n && v->u[end].in[level] == id)
        end++;
    return (struct range){first, end - first};
}

/* The object that a rank is bound to all of; LEVELS: to its share. */
static enum level bound_level(const struct place_want *w)
{
    static const enum level of_bind[] = {
        [PLAN_BIND_DEFAULT] = LEVELS,       [PLAN_BIND_NONE] = LEVELS,
        [PLAN_BIND_CORE] = LEVELS,          [PLAN_BIND_HWTHREAD] = LEVELS,
        [PLAN_BIND_L3] = LEVEL_L3,          [PLAN_BIND_NUMA] = LEVEL_NUMA,
        [PLAN_BIND_PACKAGE] = LEVEL_PACKAGE};
    /* mpirun binds to the objects that ranks are mapped by, or to the CPUs of each (PE=n). */
    if (w->bind_to == PLAN_BIND_DEFAULT && w->cpus_per_rank == 0) {
        if (level_of(map_of(w)) < LEVEL_CORE)
            return level_of(map_of(w));
    }
    if (w->bind_to == PLAN_BIND_CORE && by_thread(w))
        return LEVEL_CORE;
    return of_bind[w->bind_to];
}

static char *list_of(hwloc_const_bitmap_t set)
{
    char *s = NULL;
    if (hwloc_bitmap_list_asprintf(&s, set) < 0)
        abort();
    return s;
}

static void bind_rank(struct place *out, const struct spot *s, struct range to,
                      const struct place_want *w, const struct units *v)
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
static int ranks_in(const struct spot *s, int ranks, struct range in)
{
    int n = 0;
    for (int i = 0; i < ranks; i++)
        n += s[i].own.first >= in.first && s[i].own.first < in.first + in.n;
    return n;
}

/* Numbers the ranks in turn on each object of w->rank_by: the first on each, then the second. As
 * they were mapped where it names none. */
static void number_ranks(struct spot *s, const struct place_want *w, const struct units *v)
{
    enum level level = level_of(w->rank_by);
    if (level == LEVELS || map_of(w) == PLAN_MAP_DEFAULT)
        return;
    AUTO(free) struct spot *was = xcalloc((size_t)w->ranks, sizeof *was);
    memcpy(was, s, (size_t)w->ranks * sizeof *was);
    AUTO(free) bool *done = xcalloc((size_t)w->ranks, sizeof *done);
    for (int given = 0; given < w->ranks;) {
        int last = -1; /* the object that got one in this turn */
        for (;;) {
            int best = -1;
            for (int i = 0; i < w->ranks; i++)
                if (!done[i] && v->u[was[i].own.first].in[level] > last &&
                    (best < 0 ||
                     v->u[was[i].own.first].in[level] < v->u[was[best].own.first].in[level]))
                    best = i;
            if (best < 0)
                break;
            last = v->u[was[best].own.first].in[level];
            done[best] = true;
            s[given++] = was[best];
        }
    }
}

static void bind_all(struct place *out, struct spot *s, const struct place_want *w,
                     const struct units *v)
{
    enum level level = bound_level(w);
    bool one =
        (w->bind_to == PLAN_BIND_CORE || w->bind_to == PLAN_BIND_HWTHREAD) && w->cpus_per_rank == 0;
    for (int i = 0; i < w->ranks; i++) {
        struct range to = s[i].own;
        out[i] = (struct place){.cores = s[i].shared ? 1 : to.n};
        if (w->bind_to == PLAN_BIND_NONE) {
            if (w->part)
                out[i].cpus = list_of(w->cpus);
            continue;
        }
        if (one)
            to.n = out[i].cores = 1;
        if (level != LEVELS) {
            to = around(v, to, level);
            int cores = to.n / ranks_in(s, w->ranks, to);
            out[i].cores = cores > 0 ? cores : 1;
        }
        bind_rank(&out[i], &s[i], to, w, v);
    }
}

static int check(const struct place_want *w, const struct units *v, struct err *e)
{
    bool wide = w->bind_to == PLAN_BIND_L3 || w->bind_to == PLAN_BIND_NUMA ||
                w->bind_to == PLAN_BIND_PACKAGE;
    if (wide && w->cpus_per_rank > 0) {
        err_set(e, -EINVAL, "ranks cannot be bound to %d CPUs each and to a whole object too",
                w->cpus_per_rank);
        return err_hint(e, "leave out --bind-to: a number of CPUs a rank binds to these");
    }
    if (w->bind_to == PLAN_BIND_L3 && v->u[0].in[LEVEL_L3] < 0)
        return err_set(e, -EINVAL, "'%s' shows no level 3 cache to bind ranks to",
                       topo_name(w->topo));
    return 0;
}

int place_ranks(struct place *out, const struct place_want *w, struct err *e)
{
    AUTO(units) struct units *v = units_of(w);
    if (v->n == 0)
        return err_set(e, -EINVAL, "'%s' has no core among the CPUs to be used",
                       topo_name(w->topo));
    if (check(w, v, e) < 0)
        return -EINVAL;
    bool usual = level_of(map_of(w)) == LEVELS;
    bool free_bind = w->bind_to == PLAN_BIND_DEFAULT || w->bind_to == PLAN_BIND_NONE;
    /* More ranks than cores, and nobody asked for more than to run them: they share all. */
    if (usual && free_bind && !w->numa && w->cpus_per_rank == 0 && w->ranks > v->n) {
        for (int i = 0; i < w->ranks; i++)
            out[i] = (struct place){.cpus = w->part ? list_of(w->cpus) : NULL, .cores = 1};
        return 0;
    }
    AUTO(free) struct spot *s = xcalloc((size_t)w->ranks, sizeof *s);
    if (map_ranks(s, w, v, e) < 0)
        return -EINVAL;
    number_ranks(s, w, v);
    bind_all(out, s, w, v);
    return 0;
}
