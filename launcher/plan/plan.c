#include "launcher/plan/plan.h"

#include <errno.h>
#include <string.h>

#include "launcher/node/topo.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/cpu_assignment.h"
#include "launcher/plan/env.h"
#include "launcher/plan/gpu_assignment.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/plan_partial.h"
#include "launcher/plan/rank_map.h"

enum { RANKS_MAX = 1 << 20 };

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* The hardware threads that the job may use. */
static int choose_cpus(hwloc_bitmap_t set, const struct launch_spec *s, const struct topo *t,
                       struct err *e)
{
    hwloc_bitmap_copy(set, topo_allowed(t));
    if (!s->cpus)
        return 0;
    if (cpu_list_parse(set, s->cpus, e) < 0)
        return err_wrap(e, "CPUs");
    if (hwloc_bitmap_isincluded(set, topo_allowed(t)))
        return 0;
    AUTO(free) char *allowed = NULL;
    hwloc_bitmap_list_asprintf(&allowed, topo_allowed(t));
    return err_set(e, -EINVAL, "CPUs '%s': of '%s' only %s may be used here", s->cpus, topo_name(t),
                   allowed);
}

/* ---- what a machine offers the job ------------------------------------------------------------
 */

struct offer {
    const struct topo *topo;
    struct gpu_assignment *gpus;
    hwloc_bitmap_t cpus;
    struct cpu_assignment_opts want;
    /* Where `placed` ranks go: many nodes that are alike are worked out once. */
    struct cpu_assignment *places;
    int placed;
    bool shared; /* they were worked out for ranks that may share */
};

static void slots_free(struct offer *o)
{
    for (int i = 0; i < o->placed; i++) {
        free(o->places[i].cpus);
        free(o->places[i].mems);
    }
    free(o->places);
    o->places = NULL;
    o->placed = 0;
}

static void offer_free(struct offer *o)
{
    slots_free(o);
    gpu_assignment_free(o->gpus);
    hwloc_bitmap_free(o->cpus);
    free(o);
}

AUTO_DEFINE(offer, struct offer *, offer_free)

static int offer_of(struct offer **out, const struct launch_spec *s, const struct topo *t,
                    char *const *base, struct err *e)
{
    AUTO(offer) struct offer *o = xzalloc(sizeof *o);
    o->topo = t;
    o->cpus = hwloc_bitmap_alloc();
    if (gpu_assignment_make(&o->gpus, s, t, base, e) < 0 || choose_cpus(o->cpus, s, t, e) < 0)
        return -EINVAL;
    o->want = (struct cpu_assignment_opts){.topo = t,
                                           .cpus = o->cpus,
                                           .part = !hwloc_bitmap_isequal(o->cpus, topo_allowed(t)),
                                           .map_by = s->map_by,
                                           .bind_to = s->bind_to,
                                           .rank_by = s->rank_by,
                                           .ppr = s->ppr,
                                           .ppr_of = s->ppr_of,
                                           .cpus_per_rank = s->cpus_per_rank,
                                           .oversubscribe = s->oversubscribe};
    *out = TAKE(o);
    return 0;
}

/* Slots where nobody has said: one a GPU; without GPUs one a core, as far as the cgroup gives time
 * for them. */
static int offered_slots(const struct offer *o)
{
    if (o->gpus->n > 0)
        return o->gpus->n;
    int units = cpu_assignment_units(&o->want), quota = topo_cpu_quota(o->topo);
    return quota > 0 && quota < units ? quota : units;
}

/* Works out `o->places` for so many ranks. */
static int place_so_many(struct offer *o, int ranks, struct err *e)
{
    if (o->placed == ranks && o->shared == o->want.oversubscribe)
        return 0;
    slots_free(o);
    AUTO(free) int *numa = xcalloc((size_t)ranks, sizeof *numa);
    for (int i = 0; i < ranks && o->gpus->n > 0; i++)
        numa[i] = o->gpus->at[i % o->gpus->n].gpu->numa;
    AUTO(free) struct cpu_assignment *places = xcalloc((size_t)ranks, sizeof *places);
    o->want.ranks = ranks;
    o->want.numa = o->gpus->n > 0 ? numa : NULL;
    int rc = cpu_assignment_ranks(places, &o->want, e);
    o->want.numa = NULL;
    if (rc < 0)
        return -EINVAL;
    int quota = topo_cpu_quota(o->topo), most = quota / ranks;
    for (int i = 0; i < ranks && quota > 0; i++)
        if (places[i].cores > most)
            places[i].cores = most > 0 ? most : 1;
    o->places = TAKE(places);
    o->placed = ranks;
    o->shared = o->want.oversubscribe;
    return 0;
}

/* ---- the ranks of a node ----------------------------------------------------------------------
 */

static void rank_clear(struct plan_rank *r)
{
    free(r->gpu_uuid);
    free(r->cpus);
    free(r->mems);
    strv_free(r->env);
    *r = (struct plan_rank){
        .rank = r->rank, .node = r->node, .local_rank = r->local_rank, .gpu = -1};
}

static char *copy_of(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

/* The i-th rank of a node is on its i-th GPU, and so on in turn. */
static void set_rank(struct plan_rank *r, const struct offer *o)
{
    const struct cpu_assignment *at = &o->places[r->local_rank];
    rank_clear(r);
    r->cpus = copy_of(at->cpus);
    r->mems = copy_of(at->mems);
    r->cores = at->cores;
    if (o->gpus->n == 0)
        return;
    const struct gpu_assignment_rank *its = &o->gpus->at[r->local_rank % o->gpus->n];
    r->gpu = its->gpu->index;
    r->gpu_uuid = its->uuid[0] ? xstrdup(its->uuid) : NULL;
}

static int set_node(struct plan *p, int node, const struct launch_spec *s, struct offer *o,
                    char *const *base, struct err *e)
{
    if (gpu_assignment_check(&p->nodes[node], s, o->gpus, e) < 0 ||
        place_so_many(o, p->nodes[node].local_size, e) < 0)
        return -EINVAL;
    bool crowded = p->nodes[node].local_size > cpu_assignment_units(&o->want);
    for (int i = 0; i < p->world_size; i++) {
        struct plan_rank *r = &p->ranks[i];
        if (r->node != node)
            continue;
        set_rank(r, o);
        r->env = env_rank(p, r, s, base, crowded);
        gpu_assignment_show(&r->env, r, s, o->topo, o->gpus, base);
        plan_partial_program(r, p->world_size, s, base);
    }
    return 0;
}

int plan_set_node(struct plan *p, int node, const struct launch_spec *s, const struct topo *t,
                  char *const *base_env, struct err *e)
{
    AUTO(offer) struct offer *o = NULL;
    if (offer_of(&o, s, t, base_env, e) < 0)
        return -EINVAL;
    return set_node(p, node, s, o, base_env, e);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int check_spec(const struct launch_spec *s, struct err *e)
{
    if (s->ranks < 0 || s->ranks > RANKS_MAX)
        return err_set(e, -EINVAL, "%d ranks: 1 to %d are possible", s->ranks, RANKS_MAX);
    if (s->cpus_per_rank < 0)
        return err_set(e, -EINVAL, "%d CPUs a rank: at least 1 is needed", s->cpus_per_rank);
    if (s->per_node < 0 || s->per_node > RANKS_MAX || s->ppr < 0 || s->ppr > RANKS_MAX ||
        (s->map_by == PLAN_MAP_PPR && s->ppr == 0))
        return err_set(e, -EINVAL, "ranks a node or object: 1 to %d are possible", RANKS_MAX);
    if (!s->argv || !s->argv[0])
        return err_set(e, -EINVAL, "there is no program to run");
    return 0;
}

static int choose_engine(enum plan_engine *out, const struct launch_spec *s, char *const *base,
                         struct err *e)
{
    const char *far = NULL;
    for (int i = 0; s->hosts && i < s->hosts->count && !far; i++)
        far = s->hosts->at[i].here ? NULL : s->hosts->at[i].name;
    *out = s->engine;
    if (s->engine == PLAN_ENGINE_LOCAL && far) {
        err_set(e, -EINVAL, "host '%s' is another machine, and the local engine knows this one",
                far);
        return err_hint(e, "leave out --engine local, or use -H localhost:N");
    }
    if (s->engine != PLAN_ENGINE_AUTO)
        return 0;
    if (!far)
        *out = PLAN_ENGINE_LOCAL;
    else
        *out = allocation_slurm_has(base, s->hosts) ? PLAN_ENGINE_SRUN : PLAN_ENGINE_MPIRUN;
    return 0;
}

static bool is_among(const struct launch_spec *s)
{
    for (int i = 0; s->hosts && i < s->hosts->count; i++)
        if (s->hosts->at[i].here)
            return true;
    return !s->hosts;
}

/* The hosts as seat.c wants them. Where nobody has said how many slots one has, it is taken to be
 * as this machine, if this is one of them; a login node tells nothing of its cluster. */
static struct rank_map_host *seat_hosts(int *count, const struct launch_spec *s,
                                        const struct offer *o)
{
    static const struct host own = {.here = true};
    const struct host *hosts = s->hosts ? s->hosts->at : &own;
    *count = s->hosts ? s->hosts->count : 1;
    bool among = is_among(s);
    struct rank_map_host *h = xcalloc((size_t)*count, sizeof *h);
    int slots = offered_slots(o);
    int objects = s->map_by == PLAN_MAP_PPR ? cpu_assignment_objects(&o->want, s->ppr_of) : 1;
    for (int i = 0; i < *count; i++)
        h[i] = (struct rank_map_host){.name = hosts[i].here ? topo_name(o->topo) : hosts[i].name,
                                      .slots = hosts[i].slots ? hosts[i].slots
                                               : among        ? slots
                                                              : 0,
                                      .slots_given = hosts[i].slots > 0,
                                      .max_slots = hosts[i].max_slots,
                                      .objects = objects};
    return h;
}

/* Nodes are the hosts with ranks. */
static void take_seats(struct plan *p, const struct launch_spec *s,
                       const struct rank_map_host *hosts, int host_count,
                       const struct rank_map *seats)
{
    AUTO(free) int *size = xcalloc((size_t)host_count, sizeof *size);
    AUTO(free) int *node = xcalloc((size_t)host_count, sizeof *node);
    for (int i = 0; i < p->world_size; i++)
        size[seats[i].host]++;
    p->nodes = xcalloc((size_t)host_count, sizeof *p->nodes);
    for (int i = 0; i < host_count; i++) {
        if (size[i] == 0)
            continue;
        node[i] = p->node_count++;
        p->nodes[node[i]] = (struct plan_node){.name = xstrdup(hosts[i].name),
                                               .local_size = size[i],
                                               .here = !s->hosts || s->hosts->at[i].here};
    }
    p->ranks = xcalloc((size_t)p->world_size, sizeof *p->ranks);
    for (int i = 0; i < p->world_size; i++)
        p->ranks[i] = (struct plan_rank){
            .rank = i, .node = node[seats[i].host], .local_rank = seats[i].local_rank, .gpu = -1};
}

static int seat_all(struct plan *p, const struct launch_spec *s, const struct offer *o,
                    struct err *e)
{
    int count = 0;
    AUTO(free) struct rank_map_host *hosts = seat_hosts(&count, s, o);
    if (s->map_by == PLAN_MAP_PPR && hosts[0].objects == 0)
        return err_set(e, -EINVAL, "'%s' shows no such object to map ranks by", topo_name(o->topo));
    AUTO(free) struct rank_map *seats = NULL;
    int ranks = rank_map_make(&seats, s, hosts, count, e);
    if (ranks < 0)
        return -EINVAL;
    p->world_size = ranks;
    if (s->stdin_rank < 0 || s->stdin_rank >= ranks)
        return err_set(e, -EINVAL, "stdin for rank %d, but the job has ranks 0 to %d",
                       s->stdin_rank, ranks - 1);
    take_seats(p, s, hosts, count, seats);
    return 0;
}

/* What this machine offers; where it is none of the hosts, and lacks what was asked for (a login
 * node has no GPU 3), what it offers without that wish. */
static int assume_offer(struct offer **out, const struct launch_spec *s, const struct topo *t,
                        char *const *base, struct err *e)
{
    struct launch_spec less = *s;
    less.gpus = less.cpus = NULL;
    int rc = offer_of(out, s, t, base, e);
    return rc < 0 && !is_among(s) ? offer_of(out, &less, t, base, e) : rc;
}

/* A far node may have more than this machine: that it has too little is said when it is known. */
static int set_assumed(struct plan *p, int node, const struct launch_spec *s, struct offer *o,
                       char *const *base, struct err *e)
{
    struct launch_spec sharing = *s;
    sharing.oversubscribe = o->want.oversubscribe = s->oversubscribe || !p->nodes[node].here;
    return set_node(p, node, &sharing, o, base, e);
}

int plan_make(struct plan **out, const struct launch_spec *s, const struct topo *t,
              char *const *base_env, struct err *e)
{
    AUTO(offer) struct offer *o = NULL;
    AUTO(plan) struct plan *p = xzalloc(sizeof *p);
    if (check_spec(s, e) < 0 || choose_engine(&p->engine, s, base_env, e) < 0 ||
        assume_offer(&o, s, t, base_env, e) < 0 || seat_all(p, s, o, e) < 0)
        return -EINVAL;
    p->job_id = xstrdup(s->job_id ? s->job_id : "job");
    p->master_addr = p->node_count == 1 ? xstrdup("127.0.0.1") : NULL;
    p->wdir = copy_of(s->wdir);
    p->argv = strv_copy(s->argv);
    for (int i = 0; i < p->node_count; i++)
        if (set_assumed(p, i, s, o, base_env, e) < 0)
            return -EINVAL;
    p->env = env_job(p, s, base_env);
    plan_partial_of_job(p, s);
    *out = TAKE(p);
    return 0;
}
