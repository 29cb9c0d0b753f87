/* Rules that every plan keeps, checked on random specs for all recorded machines. The seed is
 * printed; DROVER_TEST_SEED=N repeats a run. */
#include <dirent.h>
#include <stdint.h>
#include <time.h>

#include "common/strbuf.h"
#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/plan_print.h"
#include "tests/unit/test.h"

static const char *const machines[] = {
    "dgx-a100", "dgx-h100",  "h100-container", "workstation-4gpu", "desktop-mixed", "v100-smt-off",
    "xeon-2s",  "epyc-nps2", "laptop",         "vm-2core",         "pod-quota",     "a100-mig"};

static uint64_t state;

static unsigned below(unsigned n)
{
    state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ (z >> 31)) % n);
}

static void seed(void)
{
    const char *given = getenv("DROVER_TEST_SEED");
    struct timespec current;
    clock_gettime(CLOCK_REALTIME, &current);
    state = given ? strtoull(given, NULL, 10) : (uint64_t)current.tv_nsec;
    fprintf(stderr, "# DROVER_TEST_SEED=%llu\n", (unsigned long long)state);
}

static struct topo *machine(const char *name)
{
    struct err e = {0};
    struct topo *t = NULL;
    AUTO(free) char *path = xasprintf("tests/plan/machines/%s.xml", name);
    if (topo_load_file(&t, path, &e) < 0)
        FAIL("%s", e.text);
    return t;
}

static hwloc_bitmap_t set_of(const char *list)
{
    hwloc_bitmap_t b = hwloc_bitmap_alloc();
    CHECK_INT(cpu_list_parse(b, list, NULL), 0);
    return b;
}

/* Returns the number of cores that have a thread in `set`. */
static int cores_in(const struct topo *t, hwloc_const_bitmap_t set)
{
    int n = 0;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo_hwloc(t), HWLOC_OBJ_CORE, core)))
        n += hwloc_bitmap_intersects(core->cpuset, set);
    return n;
}

/* Returns the number of objects of a type that have a thread in `set`. */
static int spans(const struct topo *t, hwloc_obj_type_t type, hwloc_const_bitmap_t set)
{
    int n = 0;
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_obj_by_type(topo_hwloc(t), type, o)))
        n += hwloc_bitmap_intersects(o->cpuset, set);
    return n;
}

/* Returns some of the machine's CPUs as a list; NULL: all. */
static char *some_cpus(const struct topo *t)
{
    if (below(3))
        return NULL;
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    unsigned cpu;
    hwloc_bitmap_foreach_begin (cpu, topo_allowed(t))
        if (below(2))
            hwloc_bitmap_set(set, cpu);
    hwloc_bitmap_foreach_end();
    if (hwloc_bitmap_iszero(set))
        return NULL;
    char *list = NULL;
    hwloc_bitmap_list_asprintf(&list, set);
    return list;
}

/* Returns some of the GPUs in some order; NULL: all. */
static char *some_gpus(const struct topo *t)
{
    if (below(3))
        return NULL;
    AUTO(strbuf) struct strbuf b = {0};
    int n = topo_gpu_count(t), first = n ? (int)below((unsigned)n) : 0;
    for (int i = 0; i < n; i++)
        if (below(2))
            strbuf_printf(&b, "%s%d", b.len ? "," : "", topo_gpu(t, (first + i) % n)->index);
    return strbuf_take(&b);
}

struct random_spec {
    struct launch_spec spec;
    char *cpus, *gpus;
    int gpu_count;      /* the job has */
    hwloc_bitmap_t may; /* the job's CPUs */
};

static char *program[] = {"./train", NULL};

static void random_spec_make(struct random_spec *w, const struct topo *t)
{
    w->cpus = some_cpus(t);
    w->gpus = some_gpus(t);
    w->may = w->cpus ? set_of(w->cpus) : hwloc_bitmap_dup(topo_allowed(t));
    w->gpu_count = topo_gpu_count(t);
    if (w->gpus) {
        w->gpu_count = w->gpus[0] != '\0';
        for (const char *p = w->gpus; *p; p++)
            w->gpu_count += *p == ',';
    }
    unsigned cores = (unsigned)cores_in(t, w->may);
    w->spec =
        (struct launch_spec){.argv = program,
                             .ranks = below(8) ? 1 + (int)below(below(2) ? 10 : cores + 2) : 0,
                             .cpus = w->cpus,
                             .gpus = w->gpus,
                             .oversubscribe = below(2)};
}

static void random_spec_free(struct random_spec *w)
{
    free(w->cpus);
    free(w->gpus);
    hwloc_bitmap_free(w->may);
}

/* Returns the CPUs that a rank must stay within because of its GPU, or the job's CPUs if none of
 * these may be used. */
static hwloc_bitmap_t cpus_near_gpu(const struct topo *t, const struct random_spec *w, int gpu,
                                    bool *known)
{
    hwloc_bitmap_t home = hwloc_bitmap_dup(w->may);
    *known = false;
    for (int i = 0; i < topo_gpu_count(t); i++) {
        const struct gpu *g = topo_gpu(t, i);
        hwloc_obj_t node =
            g->index == gpu && g->numa >= 0
                ? hwloc_get_numanode_obj_by_os_index(topo_hwloc(t), (unsigned)g->numa)
                : NULL;
        if (node && hwloc_bitmap_intersects(node->cpuset, home)) {
            hwloc_bitmap_and(home, home, node->cpuset);
            *known = true;
        }
    }
    return home;
}

static void check_rank(const struct topo *t, const struct random_spec *w, const struct plan_rank *r,
                       hwloc_const_bitmap_t set)
{
    CHECK(!hwloc_bitmap_iszero(set));
    CHECK(hwloc_bitmap_isincluded(set, w->may));
    CHECK(r->cores >= 1);
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo_hwloc(t), HWLOC_OBJ_CORE, core))) {
        AUTO(bitmap) hwloc_bitmap_t all = hwloc_bitmap_alloc(), mine = hwloc_bitmap_alloc();
        hwloc_bitmap_and(all, core->cpuset, w->may);
        hwloc_bitmap_and(mine, core->cpuset, set);
        CHECK(hwloc_bitmap_iszero(mine) || hwloc_bitmap_isequal(mine, all)); /* whole cores */
    }
    bool known;
    AUTO(bitmap) hwloc_bitmap_t home = cpus_near_gpu(t, w, r->gpu, &known);
    if (known) {
        CHECK(hwloc_bitmap_isincluded(set, home));
        CHECK(r->mems != NULL);
    } else
        CHECK(r->mems == NULL);
}

/* Two ranks have a core in common only if more ranks share the whole of it than it has cores. The
 * sizes of ranks inside the same NUMA node differ by at most one core. */
static void check_pairs(const struct topo *t, const struct plan *p, hwloc_bitmap_t *sets)
{
    for (int i = 0; i < p->world_size; i++)
        for (int j = i + 1; j < p->world_size; j++) {
            if (hwloc_bitmap_intersects(sets[i], sets[j])) {
                int same = 0;
                for (int k = 0; k < p->world_size; k++)
                    same += hwloc_bitmap_isequal(sets[k], sets[i]);
                CHECK(hwloc_bitmap_isequal(sets[i], sets[j]));
                CHECK(same > cores_in(t, sets[i]));
                CHECK_INT(p->ranks[i].cores, 1);
            }
            AUTO(bitmap) hwloc_bitmap_t both = hwloc_bitmap_dup(sets[i]);
            hwloc_bitmap_or(both, both, sets[j]);
            if (spans(t, HWLOC_OBJ_NUMANODE, both) == 1)
                CHECK(abs(cores_in(t, sets[i]) - cores_in(t, sets[j])) <= 1);
        }
}

/* On whole machines (whose NUMA nodes are alike): no core is idle, and no rank crosses a package
 * or a NUMA node if there are enough ranks. */
static void check_whole(const struct topo *t, const struct random_spec *w, const struct plan *p,
                        hwloc_bitmap_t *sets)
{
    AUTO(bitmap) hwloc_bitmap_t used = hwloc_bitmap_alloc();
    static const hwloc_obj_type_t bounds[] = {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_NUMANODE};
    hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topo_hwloc(t));
    for (int i = 0; i < p->world_size; i++) {
        hwloc_bitmap_or(used, used, sets[i]);
        for (size_t b = 0; b < COUNT_OF(bounds) && w->gpu_count == 0; b++)
            if (p->world_size >= spans(t, bounds[b], all))
                CHECK_INT(spans(t, bounds[b], sets[i]), 1);
    }
    if (w->gpu_count == 0)
        CHECK(hwloc_bitmap_isequal(used, w->may));
    if (p->world_size <= 2 && cores_in(t, w->may) >= 4)
        CHECK(cores_in(t, sets[0]) > 1);
}

static void check_plan(const struct topo *t, const struct random_spec *w, const struct plan *p)
{
    AUTO(free) hwloc_bitmap_t *sets = xcalloc((size_t)p->world_size, sizeof(hwloc_bitmap_t));
    if (!p->ranks[0].cpus) {
        CHECK(w->gpu_count == 0 && p->world_size > cores_in(t, w->may));
        CHECK(hwloc_bitmap_isequal(w->may, topo_allowed(t))); /* else bound to the job's CPUs */
        return;
    }
    for (int i = 0; i < p->world_size; i++) {
        sets[i] = set_of(p->ranks[i].cpus);
        check_rank(t, w, &p->ranks[i], sets[i]);
    }
    check_pairs(t, p, sets);
    if (!w->cpus &&
        hwloc_bitmap_isequal(topo_allowed(t), hwloc_topology_get_complete_cpuset(topo_hwloc(t))))
        check_whole(t, w, p, sets);
    for (int i = 0; i < p->world_size; i++)
        hwloc_bitmap_free(sets[i]);
}

static void describe(const char *name, const struct random_spec *w)
{
    fprintf(stderr, "# %s: ranks %d, cpus %s, gpus %s%s, map %d, bind %d, %d CPUs a rank\n", name,
            w->spec.ranks, w->cpus ? w->cpus : "all", w->gpus ? w->gpus : "all",
            w->spec.oversubscribe ? ", oversubscribed" : "", (int)w->spec.map_by,
            (int)w->spec.bind_to, w->spec.cpus_per_rank);
}

/* A failing test ends here and prints the spec that it checked. */
static struct random_spec *current;
static const char *now_on;

static void on_exit_describe(void)
{
    if (current)
        describe(now_on, current);
}

TEST(as_usual_no_core_is_shared_and_ranks_stay_beside_their_gpus)
{
    seed();
    atexit(on_exit_describe);
    for (size_t m = 0; m < COUNT_OF(machines); m++) {
        AUTO(topo) struct topo *t = machine(now_on = machines[m]);
        for (int i = 0; i < 60; i++) {
            struct random_spec w;
            struct err e = {0};
            random_spec_make(&w, t);
            current = &w;
            AUTO(plan) struct plan *p = NULL;
            if (plan_make(&p, &w.spec, t, NULL, &e) == 0)
                check_plan(t, &w, p);
            else if (w.gpu_count == 0 || w.spec.ranks <= w.gpu_count || w.spec.oversubscribe)
                FAIL("%s", e.text);
            random_spec_free(&w);
            current = NULL;
        }
    }
}

TEST(explicit_mapping_and_binding_keep_inside_the_jobs_cpus)
{
    seed();
    atexit(on_exit_describe);
    int made = 0;
    for (size_t m = 0; m < COUNT_OF(machines); m++) {
        AUTO(topo) struct topo *t = machine(now_on = machines[m]);
        for (int i = 0; i < 150; i++) {
            struct random_spec w;
            struct err e = {0};
            random_spec_make(&w, t);
            current = &w;
            w.spec.map_by = (enum plan_map)below(PLAN_MAP_PPR + 1);
            w.spec.rank_by = (enum plan_map)below(PLAN_MAP_NODE + 1);
            w.spec.ppr = 1 + (int)below(4);
            w.spec.ppr_of =
                (enum plan_map)(PLAN_MAP_CORE + below(PLAN_MAP_NODE - PLAN_MAP_CORE + 1));
            w.spec.bind_to = (enum plan_bind)below(PLAN_BIND_PACKAGE + 1);
            w.spec.cpus_per_rank = below(3) ? 0 : (int)below(5);
            AUTO(plan) struct plan *p = NULL;
            if (plan_make(&p, &w.spec, t, NULL, &e) < 0)
                CHECK(e.text[0]);
            for (int r = 0; p && r < p->world_size; r++) {
                CHECK(p->ranks[r].cores >= 1);
                if (!p->ranks[r].cpus)
                    continue;
                AUTO(bitmap) hwloc_bitmap_t set = set_of(p->ranks[r].cpus);
                CHECK(!hwloc_bitmap_iszero(set) && hwloc_bitmap_isincluded(set, w.may));
                if (w.spec.bind_to == PLAN_BIND_HWTHREAD && w.spec.cpus_per_rank == 0)
                    CHECK_INT(hwloc_bitmap_weight(set), 1);
                if (w.spec.bind_to == PLAN_BIND_CORE && w.spec.cpus_per_rank == 0)
                    CHECK_INT(cores_in(t, set), 1);
                if (w.spec.bind_to == PLAN_BIND_NUMA)
                    CHECK_INT(spans(t, HWLOC_OBJ_NUMANODE, set), 1);
            }
            made += p != NULL;
            random_spec_free(&w);
            current = NULL;
        }
    }
    CHECK(made > 300);
}

TEST(the_same_wish_gives_the_same_plan)
{
    seed();
    AUTO(topo) struct topo *t = machine("dgx-a100");
    for (int i = 0; i < 20; i++) {
        struct random_spec w;
        random_spec_make(&w, t);
        w.spec.oversubscribe = true;
        AUTO(plan) struct plan *a = NULL, *b = NULL;
        CHECK_INT(plan_make(&a, &w.spec, t, NULL, NULL), 0);
        CHECK_INT(plan_make(&b, &w.spec, t, NULL, NULL), 0);
        json_t *x = plan_print_json(a), *y = plan_print_json(b);
        CHECK(x && y && json_equal(x, y));
        json_decref(x);
        json_decref(y);
        random_spec_free(&w);
    }
}
