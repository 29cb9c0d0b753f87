#include "launcher/plan/cpu_assignment.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/plural.h"
#include "launcher/plan/cpu_units.h"

/* The binding of a rank while it is computed. */
struct binding {
    struct cpu_units_range range; /* the rank's units */
    struct cpu_units_range pool;  /* its limit: its GPU's NUMA node, its object, or all units */
    bool shared;                  /* other ranks have the same units */
    int numa_os;                  /* NUMA node of its memory; -1: memory is not bound */
};

/* Returns the kind of object by which ranks are mapped. With PPR, this is the kind in ppr_of. */
static enum plan_map map_object(const struct cpu_assignment_opts *opts)
{
    return opts->map_by == PLAN_MAP_PPR ? opts->ppr_of : opts->map_by;
}

static bool by_thread(const struct cpu_assignment_opts *opts)
{
    return map_object(opts) == PLAN_MAP_HWTHREAD || opts->bind_to == PLAN_BIND_HWTHREAD;
}

static struct cpu_units *all_units(const struct cpu_assignment_opts *opts)
{
    return cpu_units_of(opts->topo, opts->cpus, by_thread(opts));
}

int cpu_assignment_units(const struct cpu_assignment_opts *opts)
{
    AUTO(cpu_units) struct cpu_units *units = all_units(opts);
    return units->count;
}

/* ---- dividing units among ranks ------------------------------------------------------------- */

/* Returns the i-th of `parts` parts of `of`. Their sizes differ by at most one unit. */
static struct cpu_units_range even_part(struct cpu_units_range of, int i, int parts)
{
    int begin = (int)((long)of.n * i / parts), end = (int)((long)of.n * (i + 1) / parts);
    return (struct cpu_units_range){of.first + begin, end - begin};
}

static void divide(struct binding *b, int ranks, const struct cpu_units *units,
                   struct cpu_units_range of, enum cpu_units_level level);

/* Divides the pieces among ranks if there are fewer ranks than pieces. Each rank gets adjacent
 * whole pieces. The shares are as equal as the pieces allow. */
static void assign_whole_pieces(struct binding *b, int ranks, const int *cut, int pieces)
{
    int total = cut[pieces] - cut[0], from = 0;
    for (int i = 0; i < ranks; i++) {
        int ideal = cut[0] + (int)((long)total * (i + 1) / ranks);
        int to = from + 1, last = pieces - (ranks - 1 - i); /* each later rank needs one piece */
        while (to < last && abs(cut[to + 1] - ideal) < abs(cut[to] - ideal))
            to++;
        if (i == ranks - 1)
            to = pieces;
        b[i].range = (struct cpu_units_range){cut[from], cut[to] - cut[from]};
        from = to;
    }
}

/* Divides the pieces among ranks if there are at least as many ranks as pieces. Each piece gets
 * ranks in proportion to its size, and is divided among them. The number of ranks up to the end of
 * each piece is rounded, so that no piece gets more ranks than it has units. */
static void split_ranks_over_pieces(struct binding *b, int ranks, const struct cpu_units *units,
                                    const int *cut, int pieces, enum cpu_units_level level)
{
    long total = cut[pieces] - cut[0];
    int given = 0;
    for (int p = 0; p < pieces; p++) {
        long end = cut[p + 1] - cut[0];
        int upto = (int)((2 * end * ranks + total) / (2 * total));
        struct cpu_units_range piece = {cut[p], cut[p + 1] - cut[p]};
        divide(b + given, upto - given, units, piece, level + 1);
        given = upto;
    }
}

/* Divides `of` among `ranks` ranks: first by package, then by NUMA node, then evenly. `ranks` is at
 * most the number of units in `of`. */
static void divide(struct binding *b, int ranks, const struct cpu_units *units,
                   struct cpu_units_range of, enum cpu_units_level level)
{
    if (ranks == 0)
        return;
    if (level > CPU_UNITS_NUMA) {
        for (int i = 0; i < ranks; i++)
            b[i].range = even_part(of, i, ranks);
        return;
    }
    AUTO(free) int *cut = xcalloc((size_t)of.n + 1, sizeof *cut);
    int pieces = cpu_units_cut(cut, units, of, level);
    if (pieces == 1)
        divide(b, ranks, units, of, level + 1);
    else if (ranks < pieces)
        assign_whole_pieces(b, ranks, cut, pieces);
    else
        split_ranks_over_pieces(b, ranks, units, cut, pieces, level);
}

/* The objects that users can name on the command line. */
static const struct {
    const char *name;
    enum plan_map map;
    enum plan_bind bind; /* binds to the whole object; DEFAULT: the object is itself a unit */
} objects_of[CPU_UNITS_LEVELS] = {
    [CPU_UNITS_PACKAGE] = {"package", PLAN_MAP_PACKAGE, PLAN_BIND_PACKAGE},
    [CPU_UNITS_NUMA] = {"NUMA node", PLAN_MAP_NUMA, PLAN_BIND_NUMA},
    [CPU_UNITS_L3] = {"level 3 cache", PLAN_MAP_L3, PLAN_BIND_L3},
    [CPU_UNITS_L2] = {"level 2 cache", PLAN_MAP_L2, PLAN_BIND_L2},
    [CPU_UNITS_L1] = {"level 1 cache", PLAN_MAP_L1, PLAN_BIND_L1},
    [CPU_UNITS_CORE] = {"core", PLAN_MAP_CORE, PLAN_BIND_DEFAULT},
    [CPU_UNITS_UNIT] = {"hardware thread", PLAN_MAP_HWTHREAD, PLAN_BIND_DEFAULT},
};

/* Returns the level of the object that `of` names; CPU_UNITS_LEVELS if `of` is a slot or a node. */
static enum cpu_units_level level_of(enum plan_map of)
{
    enum cpu_units_level level = CPU_UNITS_PACKAGE;
    while (level < CPU_UNITS_LEVELS && objects_of[level].map != of)
        level++;
    return level;
}

int cpu_assignment_objects(const struct cpu_assignment_opts *opts, enum plan_map of)
{
    AUTO(cpu_units) struct cpu_units *units = all_units(opts);
    enum cpu_units_level level = level_of(of);
    if (level == CPU_UNITS_LEVELS)
        return 1;
    AUTO(free) int *cut = xcalloc((size_t)units->count + 1, sizeof *cut);
    return units->count > 0 && units->at[0].in[level] < 0
               ? 0
               : cpu_units_cut(cut, units, (struct cpu_units_range){0, units->count}, level);
}

/* ---- mapping -------------------------------------------------------------------------------- */

static const char *unit_name(const struct cpu_assignment_opts *opts, int n)
{
    if (by_thread(opts))
        return n == 1 ? "hardware thread" : "hardware threads";
    return n == 1 ? "core" : "cores";
}

static int hint_sharing(struct err *e)
{
    return err_hint(e, "--oversubscribe to share them, or --bind-to none to leave ranks unbound");
}

static int too_few(const struct cpu_assignment_opts *opts, const struct cpu_units *units,
                   struct err *e)
{
    if (opts->cpus_per_rank > 1)
        err_set(e, -EINVAL, "cannot bind %d rank%s to %d %s each: '%s' has only %d", opts->ranks,
                plural_s(opts->ranks), opts->cpus_per_rank, unit_name(opts, opts->cpus_per_rank),
                topo_name(opts->topo), units->count);
    else
        err_set(e, -EINVAL, "cannot bind %d rank%s: '%s' has only %d %s", opts->ranks,
                plural_s(opts->ranks), topo_name(opts->topo), units->count,
                unit_name(opts, units->count));
    return hint_sharing(e);
}

/* Returns true if several ranks may have the same CPUs. Unbound ranks always may. */
static bool may_share(const struct cpu_assignment_opts *opts)
{
    return opts->oversubscribe || opts->bind_to == PLAN_BIND_NONE;
}

/* Returns the object that --bind-to names, if this option binds ranks to a whole object. Otherwise
 * returns CPU_UNITS_LEVELS. */
static enum cpu_units_level bind_object(const struct cpu_assignment_opts *opts)
{
    enum cpu_units_level level = CPU_UNITS_PACKAGE;
    while (level < CPU_UNITS_LEVELS &&
           (opts->bind_to == PLAN_BIND_DEFAULT || objects_of[level].bind != opts->bind_to))
        level++;
    return level;
}

static bool binds_to_one_unit(const struct cpu_assignment_opts *opts)
{
    return opts->bind_to == PLAN_BIND_CORE || opts->bind_to == PLAN_BIND_HWTHREAD;
}

/* Assigns adjacent units to the ranks in order, as mpirun's --map-by slot, core and hwthread do. */
static int map_packed(struct binding *b, const struct cpu_assignment_opts *opts,
                      const struct cpu_units *units, struct err *e)
{
    int width = opts->cpus_per_rank > 0 ? opts->cpus_per_rank : 1;
    bool fits = (long)opts->ranks * width <= units->count;
    if (!fits && !may_share(opts))
        return too_few(opts, units, e);
    if (width > units->count)
        width = units->count;
    /* The ranks after the last whole block of `width` units start again at the first block. */
    int blocks = units->count / width;
    for (int i = 0; i < opts->ranks; i++) {
        b[i].range = b[i].pool = (struct cpu_units_range){i % blocks * width, width};
        b[i].shared = !fits;
    }
    return 0;
}

/* Resizes the range of rank i, which is in the NUMA node of its GPU, to cpus_per_rank units. The
 * range can grow only inside its pool, and only if ranks may share CPUs. */
static int resize_to_cpus_per_rank(struct binding *b, int i, const struct cpu_assignment_opts *opts,
                                   struct err *e)
{
    int needed = opts->cpus_per_rank;
    struct cpu_units_range *range = &b[i].range, pool = b[i].pool;
    if (needed == 0)
        return 0;
    if (needed > range->n) {
        if (!may_share(opts)) {
            err_set(e, -EINVAL,
                    "cannot bind rank %d to %d %s: its share of its GPU's NUMA node is %d", i,
                    needed, unit_name(opts, needed), range->n);
            return hint_sharing(e);
        }
        needed = needed < pool.n ? needed : pool.n;
        int last = pool.first + pool.n - needed;
        range->first = range->first < last ? range->first : last;
    }
    range->n = needed;
    return 0;
}

/* Assigns a range to the j-th of m ranks in a pool. If the pool is large enough, the rank gets
 * units of its own. Otherwise it gets the whole pool; if `one` is true, it gets one unit of the
 * pool in turn. */
static void assign_in_pool(struct binding *b, struct cpu_units_range pool, int j, int m, bool one)
{
    b->pool = pool;
    b->shared = m > pool.n;
    if (!b->shared)
        b->range = even_part(pool, j, m);
    else
        b->range = one ? (struct cpu_units_range){pool.first + j % pool.n, 1} : pool;
}

/* Returns the number of units that each rank gets in its object; 0 means an even share of the
 * object. */
static int units_per_rank(const struct cpu_assignment_opts *opts)
{
    return opts->cpus_per_rank > 0 ? opts->cpus_per_rank : binds_to_one_unit(opts) ? 1 : 0;
}

/* Maps ranks as mpirun's --map-by l1cache … package do: the ranks go to the objects in turn, or,
 * with PPR, a fixed number goes to each object. Inside an object, ranks get adjacent units. If they
 * are bound to smaller objects, they get these in turn. */
static int map_objects(struct binding *b, const struct cpu_assignment_opts *opts,
                       const struct cpu_units *units, enum cpu_units_level level, struct err *e)
{
    const char *name = objects_of[level].name;
    AUTO(free) int *cut = xcalloc((size_t)units->count + 1, sizeof *cut);
    AUTO(free) int *sub = xcalloc((size_t)units->count + 1, sizeof *sub); /* inside an object */
    int objects = cpu_units_cut(cut, units, (struct cpu_units_range){0, units->count}, level),
        width = units_per_rank(opts);
    if (units->at[0].in[level] < 0)
        return err_set(e, -EINVAL, "cannot map ranks by %s: '%s' has none", name,
                       topo_name(opts->topo));
    for (int i = 0; i < opts->ranks; i++) {
        bool ppr = opts->map_by == PLAN_MAP_PPR && level == level_of(opts->ppr_of);
        int o = ppr ? i / opts->ppr % objects : i % objects,
            turn = ppr ? i % opts->ppr : i / objects;
        int m = ppr ? opts->ppr : opts->ranks / objects + (o < opts->ranks % objects);
        m = ppr && m > opts->ranks - (i - turn) ? opts->ranks - (i - turn) : m;
        struct cpu_units_range pool = {cut[o], cut[o + 1] - cut[o]};
        assign_in_pool(&b[i], pool, turn, m, false);
        if (width > 0) {
            int n = width < pool.n ? width : pool.n, blocks = pool.n / n;
            b[i].shared = m * width > pool.n;
            b[i].range = (struct cpu_units_range){pool.first + turn % blocks * n, n};
        }
        if (bind_object(opts) > level && bind_object(opts) < CPU_UNITS_LEVELS) {
            int inner = cpu_units_cut(sub, units, pool, bind_object(opts)), k = turn % inner;
            b[i].range = (struct cpu_units_range){sub[k], sub[k + 1] - sub[k]};
        }
        if (b[i].shared && !may_share(opts)) {
            int needed = width > 0 ? width : 1;
            err_set(e, -EINVAL,
                    "cannot bind %d rank%s per %s to %d %s each: a %s of '%s' has only %d", m,
                    plural_s(m), name, needed, unit_name(opts, needed), name, topo_name(opts->topo),
                    pool.n);
            return hint_sharing(e);
        }
    }
    return 0;
}

/* Maps ranks in the default way for nodes without GPUs: each rank gets an even share of all
 * units. */
static int map_evenly(struct binding *b, const struct cpu_assignment_opts *opts,
                      const struct cpu_units *units, struct err *e)
{
    divide(b, opts->ranks, units, (struct cpu_units_range){0, units->count}, CPU_UNITS_PACKAGE);
    int least = units->count;
    for (int i = 0; i < opts->ranks; i++)
        least = b[i].range.n < least ? b[i].range.n : least;
    if (opts->cpus_per_rank > least) /* the shares that stay inside NUMA nodes are too small */
        return map_packed(b, opts, units, e);
    for (int i = 0; i < opts->ranks && opts->cpus_per_rank > 0; i++)
        b[i].range.n = opts->cpus_per_rank;
    return 0;
}

/* Returns the piece of `cut` (a NUMA node) that has the most units per rank if one more rank is
 * added to it. */
static int least_loaded(const int *cut, const int *load, int pieces)
{
    int best = 0;
    for (int p = 1; p < pieces; p++) {
        long a = (long)(cut[p + 1] - cut[p]) * (load[best] + 1);
        long b = (long)(cut[best + 1] - cut[best]) * (load[p] + 1);
        best = a > b ? p : best;
    }
    return best;
}

/* Maps ranks in the default way for nodes with GPUs: divides the cores of each NUMA node among the
 * ranks whose GPU is attached to this node. If a GPU's NUMA node is unknown, or the job may use
 * none of its cores, the rank goes to the NUMA node with the most room. */
static int map_gpus(struct binding *b, const struct cpu_assignment_opts *opts,
                    const struct cpu_units *units, struct err *e)
{
    AUTO(free) int *cut = xcalloc((size_t)units->count + 1, sizeof *cut);
    int pieces =
        cpu_units_cut(cut, units, (struct cpu_units_range){0, units->count}, CPU_UNITS_NUMA);
    AUTO(free) int *load = xcalloc((size_t)pieces, sizeof *load);
    AUTO(free) int *piece = xcalloc((size_t)opts->ranks, sizeof *piece);
    for (int i = 0; i < opts->ranks; i++) {
        piece[i] = -1;
        for (int p = 0; p < pieces && piece[i] < 0 && opts->numa[i] >= 0; p++)
            if (units->at[cut[p]].numa_os == opts->numa[i])
                piece[i] = p;
        if (piece[i] >= 0) {
            load[piece[i]]++;
            b[i].numa_os = opts->numa[i];
        }
    }
    for (int i = 0; i < opts->ranks; i++)
        if (piece[i] < 0) {
            piece[i] = least_loaded(cut, load, pieces);
            load[piece[i]]++;
        }
    AUTO(free) int *given = xcalloc((size_t)pieces, sizeof *given);
    for (int i = 0; i < opts->ranks; i++) {
        int p = piece[i];
        assign_in_pool(&b[i], (struct cpu_units_range){cut[p], cut[p + 1] - cut[p]}, given[p]++,
                       load[p], binds_to_one_unit(opts));
        if (resize_to_cpus_per_rank(b, i, opts, e) < 0)
            return -EINVAL;
    }
    return 0;
}

/* Returns true if, with PPR, the GPU of every rank is attached to the object to which the rank is
 * mapped. Mapping by PPR and mapping by GPU then give the same objects. */
static bool gpus_match_objects(const struct cpu_assignment_opts *opts,
                               const struct cpu_units *units)
{
    AUTO(free) int *cut = xcalloc((size_t)units->count + 1, sizeof *cut);
    int objects = cpu_units_cut(cut, units, (struct cpu_units_range){0, units->count},
                                level_of(map_object(opts)));
    bool inside = opts->numa && opts->map_by == PLAN_MAP_PPR;
    for (int i = 0; i < opts->ranks && inside; i++) {
        int o = i / opts->ppr % objects, k = cut[o];
        while (k < cut[o + 1] && units->at[k].numa_os != opts->numa[i])
            k++;
        inside = k < cut[o + 1];
    }
    return inside;
}

static int map_ranks(struct binding *b, const struct cpu_assignment_opts *opts,
                     const struct cpu_units *units, struct err *e)
{
    for (int i = 0; i < opts->ranks; i++)
        b[i] = (struct binding){.pool = {0, units->count}, .numa_os = -1};
    enum cpu_units_level wide = bind_object(opts);
    switch (map_object(opts)) {
    case PLAN_MAP_CORE:
    case PLAN_MAP_HWTHREAD:
        if (opts->map_by == PLAN_MAP_PPR || (by_thread(opts) && opts->map_by == PLAN_MAP_CORE))
            return map_objects(b, opts, units, level_of(map_object(opts)), e);
        return map_packed(b, opts, units, e);
    case PLAN_MAP_L1:
    case PLAN_MAP_L2:
    case PLAN_MAP_L3:
    case PLAN_MAP_NUMA:
    case PLAN_MAP_PACKAGE:
        if (gpus_match_objects(opts, units))
            break;
        return map_objects(b, opts, units, level_of(map_object(opts)), e);
    case PLAN_MAP_SLOT:
    case PLAN_MAP_PPR:
    case PLAN_MAP_NODE: /* this is one node, so its ranks need no order */
        if (opts->numa)
            break; /* the GPU decides */
        if (wide < CPU_UNITS_LEVELS)
            return map_objects(b, opts, units, wide, e);
        if (units_per_rank(opts) > 0)
            return map_packed(b, opts, units, e);
        break;
    case PLAN_MAP_DEFAULT:
        break;
    }
    if (opts->numa)
        return map_gpus(b, opts, units, e);
    if (opts->ranks <= units->count)
        return map_evenly(b, opts, units, e);
    return map_packed(b, opts, units, e);
}

/* ---- binding -------------------------------------------------------------------------------- */

/* Returns the kind of object to which ranks are bound as a whole. Returns CPU_UNITS_LEVELS if each
 * rank is bound to its own range. */
static enum cpu_units_level effective_bind_object(const struct cpu_assignment_opts *opts)
{
    /* By default, mpirun binds ranks to the objects by which they are mapped, or to the CPUs of
     * each rank (PE=n), and so does drover. With PPR, mpirun binds to a core or a NUMA node,
     * depending on the number of ranks; drover binds to an even share of the object. */
    if (opts->bind_to == PLAN_BIND_DEFAULT && opts->cpus_per_rank == 0 &&
        level_of(opts->map_by) < CPU_UNITS_CORE)
        return level_of(opts->map_by);
    if (opts->bind_to == PLAN_BIND_CORE && by_thread(opts))
        return CPU_UNITS_CORE;
    return bind_object(opts);
}

static char *format_list(hwloc_const_bitmap_t set)
{
    char *text = NULL;
    return xchecked(hwloc_bitmap_list_asprintf(&text, set) < 0 ? NULL : text);
}

static void bind_rank(struct cpu_assignment *out, const struct binding *b,
                      struct cpu_units_range to, const struct cpu_assignment_opts *opts,
                      const struct cpu_units *units)
{
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    bool in_numa_node = b->numa_os >= 0;
    for (int i = to.first; i < to.first + to.n; i++) {
        hwloc_bitmap_or(set, set, units->at[i].cpus);
        in_numa_node = in_numa_node && units->at[i].numa_os == b->numa_os;
    }
    out->cpus = format_list(set);
    /* Unbound memory is allocated near the CPUs that use it first. So memory is bound only if the
     * transfers of a GPU depend on it, and only to NUMA nodes that this process may use. */
    hwloc_const_bitmap_t nodes = hwloc_topology_get_allowed_nodeset(topo_hwloc(opts->topo));
    if (in_numa_node && hwloc_bitmap_isset(nodes, (unsigned)b->numa_os))
        out->mems = xasprintf("%d", b->numa_os);
}

/* Returns the number of ranks whose range begins in `in`. */
static int ranks_in(const struct binding *b, int ranks, struct cpu_units_range in)
{
    int n = 0;
    for (int i = 0; i < ranks; i++)
        n += b[i].range.first >= in.first && b[i].range.first < in.first + in.n;
    return n;
}

/* Renumbers the ranks in turn over the objects of opts->rank_by. The next rank of an object is the
 * next rank that was mapped to a part of this object, or to an object that contains it. Keeps the
 * order of the mapping if rank_by names no object, or if ranks were not mapped by objects. These
 * are mpirun's rules. */
static void renumber_ranks(struct binding *b, const struct cpu_assignment_opts *opts,
                           const struct cpu_units *units)
{
    enum cpu_units_level level = level_of(opts->rank_by);
    if (level == CPU_UNITS_LEVELS || level_of(map_object(opts)) == CPU_UNITS_LEVELS ||
        gpus_match_objects(opts, units))
        return;
    AUTO(free) struct binding *mapped = xcalloc((size_t)opts->ranks, sizeof *mapped);
    AUTO(free) bool *done = xcalloc((size_t)opts->ranks, sizeof *done);
    AUTO(free) int *cut = xcalloc((size_t)units->count + 1, sizeof *cut);
    int objects = cpu_units_cut(cut, units, (struct cpu_units_range){0, units->count}, level);
    memcpy(mapped, b, (size_t)opts->ranks * sizeof *mapped);
    for (int given = 0, o = 0; given < opts->ranks; o = (o + 1) % objects) {
        int i = 0;
        while (i < opts->ranks && (done[i] || mapped[i].pool.first >= cut[o + 1] ||
                                   mapped[i].pool.first + mapped[i].pool.n <= cut[o]))
            i++;
        if (i == opts->ranks)
            continue;
        done[i] = true;
        b[given++] = mapped[i];
    }
}

static void bind_all(struct cpu_assignment *out, struct binding *b,
                     const struct cpu_assignment_opts *opts, const struct cpu_units *units)
{
    enum cpu_units_level level = effective_bind_object(opts);
    bool one = binds_to_one_unit(opts) && opts->cpus_per_rank == 0;
    for (int i = 0; i < opts->ranks; i++) {
        struct cpu_units_range to = b[i].range;
        out[i] = (struct cpu_assignment){.cores = b[i].shared ? 1 : to.n};
        if (opts->bind_to == PLAN_BIND_NONE) {
            if (opts->restricted)
                out[i].cpus = format_list(opts->cpus);
            continue;
        }
        if (one)
            to.n = out[i].cores = 1;
        if (level != CPU_UNITS_LEVELS) {
            to = cpu_units_around(units, to, level);
            int ranks = ranks_in(b, opts->ranks, to);
            assert(ranks > 0); /* rank i is one of them */
            int cores = to.n / ranks;
            out[i].cores = cores > 0 ? cores : 1;
        }
        bind_rank(&out[i], &b[i], to, opts, units);
    }
}

static int check_opts(const struct cpu_assignment_opts *opts, const struct cpu_units *units,
                      struct err *e)
{
    if (bind_object(opts) < CPU_UNITS_LEVELS && opts->cpus_per_rank > 0) {
        err_set(e, -EINVAL, "cannot bind ranks both to %d CPU%s each and to a whole object",
                opts->cpus_per_rank, plural_s(opts->cpus_per_rank));
        return err_hint(e, "omit --bind-to: ranks are bound to their number of CPUs anyway");
    }
    enum cpu_units_level level = bind_object(opts);
    if (level < CPU_UNITS_LEVELS && units->at[0].in[level] < 0)
        return err_set(e, -EINVAL, "cannot bind ranks to a %s: '%s' has none",
                       objects_of[level].name, topo_name(opts->topo));
    return 0;
}

/* Binds each rank to the CPUs that the user has named for it. */
static int bind_to_slots(struct cpu_assignment *out, const struct cpu_assignment_opts *opts,
                         const struct cpu_units *units, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    AUTO(strv) char **cpus = NULL; /* all lists must be valid before `out` changes */
    for (int i = 0; i < opts->ranks; i++) {
        if (opts->slots[i] && cpu_units_parse(set, opts->topo, opts->slots[i], e) < 0)
            return -EINVAL;
        if (opts->slots[i] && !hwloc_bitmap_isincluded(set, opts->cpus))
            return err_set(e, -EINVAL, "slots '%s': the job may not use all of these CPUs",
                           opts->slots[i]);
        strv_push(&cpus, opts->slots[i] ? format_list(set) : xstrdup(""));
    }
    for (int i = 0; i < opts->ranks; i++) {
        out[i] = (struct cpu_assignment){.cores = 1};
        if (!cpus[i][0])
            continue;
        out[i].cpus = xstrdup(cpus[i]);
        hwloc_bitmap_list_sscanf(set, cpus[i]);
        int cores = 0;
        for (int k = 0; k < units->count; k++)
            cores += hwloc_bitmap_intersects(units->at[k].cpus, set);
        out[i].cores = cores > 0 ? cores : 1;
    }
    return 0;
}

int cpu_assignment_ranks(struct cpu_assignment *out, const struct cpu_assignment_opts *opts,
                         struct err *e)
{
    AUTO(cpu_units) struct cpu_units *units = all_units(opts);
    if (units->count == 0)
        return err_set(e, -EINVAL, "'%s': no core is among the CPUs that the job may use",
                       topo_name(opts->topo));
    if (opts->slots)
        return bind_to_slots(out, opts, units, e);
    if (check_opts(opts, units, e) < 0)
        return -EINVAL;
    bool is_default = level_of(map_object(opts)) == CPU_UNITS_LEVELS &&
                      bind_object(opts) == CPU_UNITS_LEVELS && units_per_rank(opts) == 0;
    /* If there are more ranks than cores and no option sets the binding, all ranks share all
     * CPUs. */
    if (is_default && !opts->numa && opts->ranks > units->count) {
        for (int i = 0; i < opts->ranks; i++)
            out[i] = (struct cpu_assignment){
                .cpus = opts->restricted ? format_list(opts->cpus) : NULL, .cores = 1};
        return 0;
    }
    AUTO(free) struct binding *b = xcalloc((size_t)opts->ranks, sizeof *b);
    if (map_ranks(b, opts, units, e) < 0)
        return -EINVAL;
    renumber_ranks(b, opts, units);
    bind_all(out, b, opts, units);
    return 0;
}
