#include "launcher/plan/plan.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "launcher/node/topo.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/cpu_assignment.h"
#include "launcher/plan/env.h"
#include "launcher/plan/gpu_assignment.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/plan/rank_map.h"

enum { RANKS_MAX = 1 << 20 };

/* ---- CPUs ----------------------------------------------------------------------------------- */

/* Sets `set` to the hardware threads that the job may use. */
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
    return err_set(e, -EINVAL, "CPUs '%s': only CPUs %s of '%s' may be used", s->cpus, allowed,
                   topo_name(t));
}

/* ---- the resources of a node ---------------------------------------------------------------- */

/* The CPUs and GPUs of a node that the job may use, and the bindings of its ranks. */
struct node_resources {
    const struct topo *topo;
    struct gpu_assignment *gpus;
    hwloc_bitmap_t cpus;
    struct cpu_assignment_opts cpu_opts;
    /* The bindings of the `bound` ranks of a node. They are kept for the next node, since many
     * nodes are alike. */
    struct cpu_assignment *bindings;
    int bound;
    bool oversubscribed; /* the bindings were computed with oversubscription allowed */
};

static void forget_bindings(struct node_resources *res)
{
    for (int i = 0; i < res->bound; i++) {
        free(res->bindings[i].cpus);
        free(res->bindings[i].mems);
    }
    free(res->bindings);
    res->bindings = NULL;
    res->bound = 0;
}

static void node_resources_free(struct node_resources *res)
{
    forget_bindings(res);
    gpu_assignment_free(res->gpus);
    hwloc_bitmap_free(res->cpus);
    free(res);
}

AUTO_DEFINE(node_resources, struct node_resources *, node_resources_free)

static int node_resources_new(struct node_resources **out, const struct launch_spec *s,
                              const struct topo *t, char *const *base, struct err *e)
{
    AUTO(node_resources) struct node_resources *res = xzalloc(sizeof *res);
    res->topo = t;
    res->cpus = hwloc_bitmap_alloc();
    if (gpu_assignment_make(&res->gpus, s, t, base, e) < 0 || choose_cpus(res->cpus, s, t, e) < 0)
        return -EINVAL;
    /* Where the kernel refuses to bind, ranks are not bound unless the user asks for it. */
    bool asked = s->bind_to != PLAN_BIND_DEFAULT || s->bind_slots || s->locations || s->cpus ||
                 s->cpus_per_rank > 0;
    res->cpu_opts = (struct cpu_assignment_opts){
        .topo = t,
        .cpus = res->cpus,
        .restricted = !hwloc_bitmap_isequal(res->cpus, topo_allowed(t)),
        .map_by = s->map_by,
        .bind_to = topo_is_unbindable(t) && !asked ? PLAN_BIND_NONE : s->bind_to,
        .rank_by = s->rank_by,
        .ppr = s->ppr,
        .ppr_of = s->ppr_of,
        .cpus_per_rank = s->cpus_per_rank,
        .oversubscribe = s->oversubscribe};
    *out = TAKE(res);
    return 0;
}

/* Returns the number of slots of a host if the user has given none: one per GPU, or, without GPUs,
 * one per core, but at most the number of CPUs whose time the cgroup allows. */
static int default_slots(const struct node_resources *res)
{
    if (res->gpus->n > 0)
        return res->gpus->n;
    int units = cpu_assignment_units(&res->cpu_opts), quota = topo_cpu_quota(res->topo);
    return quota > 0 && quota < units ? quota : units;
}

/* Computes the bindings of `ranks` ranks. */
static int bind_ranks(struct node_resources *res, int ranks, struct err *e)
{
    if (!res->cpu_opts.slots && res->bound == ranks &&
        res->oversubscribed == res->cpu_opts.oversubscribe)
        return 0;
    forget_bindings(res);
    AUTO(free) int *numa = xcalloc((size_t)ranks, sizeof *numa);
    for (int i = 0; i < ranks && res->gpus->n > 0; i++)
        numa[i] = res->gpus->at[i % res->gpus->n].gpu->numa;
    AUTO(free) struct cpu_assignment *bindings = xcalloc((size_t)ranks, sizeof *bindings);
    res->cpu_opts.ranks = ranks;
    res->cpu_opts.numa = res->gpus->n > 0 ? numa : NULL;
    int rc = cpu_assignment_ranks(bindings, &res->cpu_opts, e);
    res->cpu_opts.numa = NULL;
    if (rc < 0)
        return -EINVAL;
    int quota = topo_cpu_quota(res->topo), limit = quota / ranks;
    for (int i = 0; i < ranks && quota > 0; i++)
        if (bindings[i].cores > limit)
            bindings[i].cores = limit > 0 ? limit : 1;
    res->bindings = TAKE(bindings);
    res->bound = ranks;
    res->oversubscribed = res->cpu_opts.oversubscribe;
    return 0;
}

/* ---- the ranks of a node -------------------------------------------------------------------- */

static void rank_clear(struct plan_rank *r)
{
    free(r->gpu_uuid);
    free(r->cpus);
    free(r->mems);
    strv_free(r->env);
    strv_free(r->argv);
    free(r->wdir);
    *r = (struct plan_rank){
        .rank = r->rank, .node = r->node, .local_rank = r->local_rank, .gpu = -1};
}

static char *copy_of(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

/* Sets the GPU and the binding of a rank. The i-th rank of a node gets the i-th GPU of the node. If
 * there are more ranks than GPUs, the GPUs are reused in turn. */
static void set_rank(struct plan_rank *r, const struct node_resources *res)
{
    const struct cpu_assignment *at = &res->bindings[r->local_rank];
    rank_clear(r);
    r->cpus = copy_of(at->cpus);
    r->mems = copy_of(at->mems);
    r->cores = at->cores;
    if (res->gpus->n == 0)
        return;
    const struct gpu_assignment_rank *gpu = &res->gpus->at[r->local_rank % res->gpus->n];
    r->gpu = gpu->gpu->index;
    r->gpu_uuid = gpu->uuid[0] ? xstrdup(gpu->uuid) : NULL;
}

/* Applies spec.apps to a rank without a program: sets its argv, its working directory and the
 * variables of its program, unless the program is spec.argv. A variable without a value gets the
 * value that `base_env` has. */
static void set_program(struct plan_rank *r, int world_size, const struct launch_spec *s,
                        char *const *base_env)
{
    const struct launch_app *a = NULL;
    int first = world_size;
    for (int i = s->app_count - 1; i >= 0 && r->rank < first; i--) {
        a = &s->apps[i];
        first -= a->ranks;
    }
    if (!a || r->rank < first)
        return;
    r->argv = strv_copy(a->argv);
    r->wdir = copy_of(a->wdir);
    for (size_t i = 0; a->env && a->env[i]; i++) {
        size_t len = strcspn(a->env[i], "=");
        AUTO(free) char *name = xstrndup(a->env[i], len);
        const char *value = a->env[i][len] ? a->env[i] + len + 1 : env_get(base_env, name);
        if (value)
            env_set(&r->env, name, "%s", value);
    }
}

/* Returns the CPUs that the user has given to each local rank of a node, or NULL if the user has
 * given none. The caller frees the array; its strings are borrowed. */
static const char **given_slots(const struct plan *p, int node, const struct launch_spec *s)
{
    size_t lists = strv_len((char **)s->bind_slots);
    if (!s->locations && lists == 0)
        return NULL;
    const char **slots = xcalloc((size_t)p->nodes[node].local_size, sizeof *slots);
    for (int i = 0; i < p->nodes[node].local_size; i++) {
        const struct plan_rank *r = &p->ranks[p->nodes[node].ranks[i]];
        if (s->locations)
            slots[r->local_rank] = s->locations[r->rank].slots;
        else if ((size_t)r->local_rank < lists)
            slots[r->local_rank] = s->bind_slots[r->local_rank];
    }
    return slots;
}

static int set_node(struct plan *p, int node, const struct launch_spec *s,
                    struct node_resources *res, char *const *base, struct err *e)
{
    AUTO(free) const char **slots = given_slots(p, node, s);
    res->cpu_opts.slots = slots;
    int rc = gpu_assignment_check(&p->nodes[node], s, res->gpus, e);
    if (rc == 0)
        rc = bind_ranks(res, p->nodes[node].local_size, e);
    res->cpu_opts.slots = NULL;
    if (rc < 0)
        return -EINVAL;
    free(p->nodes[node].hardware);
    p->nodes[node].hardware = plan_hardware_node(res->topo, res->gpus, p->nodes[node].local_size);
    bool oversubscribed = p->nodes[node].local_size > cpu_assignment_units(&res->cpu_opts);
    for (int i = 0; i < p->nodes[node].local_size; i++) {
        struct plan_rank *r = &p->ranks[p->nodes[node].ranks[i]];
        set_rank(r, res);
        r->env = env_rank(p, r, s, base, oversubscribed);
        gpu_assignment_show(&r->env, r, s, res->topo, res->gpus, base);
        set_program(r, p->world_size, s, base);
    }
    return 0;
}

int plan_set_node(struct plan *p, int node, const struct launch_spec *s, const struct topo *t,
                  char *const *base_env, struct err *e)
{
    AUTO(node_resources) struct node_resources *res = NULL;
    if (node_resources_new(&res, s, t, base_env, e) < 0)
        return -EINVAL;
    return set_node(p, node, s, res, base_env, e);
}

/* ---- the plan ------------------------------------------------------------------------------- */

static int check_spec(const struct launch_spec *s, struct err *e)
{
    if (s->ranks < 0 || s->ranks > RANKS_MAX)
        return err_set(e, -EINVAL, "%d ranks: must be 1 to %d", s->ranks, RANKS_MAX);
    if (s->cpus_per_rank < 0)
        return err_set(e, -EINVAL, "%d CPUs per rank: must be at least 1", s->cpus_per_rank);
    if (s->per_node < 0 || s->per_node > RANKS_MAX || s->ppr < 0 || s->ppr > RANKS_MAX ||
        (s->map_by == PLAN_MAP_PPR && s->ppr == 0))
        return err_set(e, -EINVAL, "ranks per node or object: must be 1 to %d", RANKS_MAX);
    if (!s->argv || !s->argv[0])
        return err_set(e, -EINVAL, "no program to run");
    return 0;
}

static bool is_local(const char *engine)
{
    return engine && strcmp(engine, PLAN_ENGINE_LOCAL) == 0;
}

/* Returns a host that is not this machine, or NULL. */
static const char *other_machine(const struct launch_spec *s)
{
    for (int i = 0; s->hosts && i < s->hosts->count; i++)
        if (!s->hosts->at[i].here)
            return s->hosts->at[i].name;
    return NULL;
}

bool plan_spec_is_local(const struct launch_spec *s)
{
    return s->engine ? is_local(s->engine) : !other_machine(s);
}

static int choose_engine(const char **out, const struct launch_spec *s, char *const *base,
                         struct err *e)
{
    const char *remote = other_machine(s);
    *out = s->engine;
    if (is_local(s->engine) && remote) {
        err_set(e, -EINVAL,
                "host '%s' is another machine: the local engine starts ranks only on this one",
                remote);
        return err_hint(e, "omit --engine local, or use -H localhost:N");
    }
    if (s->engine)
        return 0;
    if (!remote)
        *out = PLAN_ENGINE_LOCAL;
    else
        *out = allocation_slurm_has(base, s->hosts) ? "slurm"
               : s->remote_engine                   ? s->remote_engine
                                                    : "openmpi";
    return 0;
}

static bool includes_this_machine(const struct launch_spec *s)
{
    for (int i = 0; s->hosts && i < s->hosts->count; i++)
        if (s->hosts->at[i].here)
            return true;
    return !s->hosts;
}

/* Returns the hosts for rank_map.c. If this machine is one of the hosts, a host without slots gets
 * as many slots as this machine has. Otherwise this machine may be a login node, which is not like
 * the nodes of its cluster. */
static struct rank_map_host *mapping_hosts(int *count, const struct launch_spec *s,
                                           const struct node_resources *res)
{
    static const struct host own = {.here = true};
    const struct host *hosts = s->hosts ? s->hosts->at : &own;
    *count = s->hosts ? s->hosts->count : 1;
    bool this_is_a_host = includes_this_machine(s);
    struct rank_map_host *h = xcalloc((size_t)*count, sizeof *h);
    int slots = default_slots(res);
    int objects = s->map_by == PLAN_MAP_PPR ? cpu_assignment_objects(&res->cpu_opts, s->ppr_of) : 1;
    for (int i = 0; i < *count; i++)
        h[i] = (struct rank_map_host){.name = hosts[i].here ? topo_name(res->topo) : hosts[i].name,
                                      .slots = hosts[i].slots   ? hosts[i].slots
                                               : this_is_a_host ? slots
                                                                : 0,
                                      .slots_given = hosts[i].slots > 0,
                                      .max_slots = hosts[i].max_slots,
                                      .objects = objects};
    return h;
}

/* Returns the slots that `some` has on each of the job's hosts; the caller frees the array. Returns
 * NULL if `some` is NULL, which means that every host may be used. */
static int *slots_of(const struct hosts *some, const struct hosts *all)
{
    if (!some)
        return NULL;
    int *slots = xcalloc((size_t)all->count, sizeof *slots);
    for (int i = 0; i < all->count; i++)
        for (int k = 0; k < some->count; k++)
            if (strcmp(some->at[k].name, all->at[i].name) == 0 ||
                (some->at[k].here && all->at[i].here))
                slots[i] += some->at[k].slots > 0 ? some->at[k].slots : INT_MAX;
    return slots;
}

/* Maps the ranks of a job whose programs have hosts of their own. */
static int map_programs(struct rank_map **out, const struct launch_spec *s,
                        const struct rank_map_host *hosts, int host_count, struct err *e)
{
    int n = s->app_count + 1, first = s->ranks;
    AUTO(free) struct rank_map_program *programs = xcalloc((size_t)n, sizeof *programs);
    for (int i = 0; i < s->app_count; i++) {
        programs[i + 1] =
            (struct rank_map_program){s->apps[i].ranks, slots_of(s->apps[i].hosts, s->hosts)};
        first -= s->apps[i].ranks;
    }
    programs[0] = (struct rank_map_program){first, slots_of(s->own_hosts, s->hosts)};
    int rc = rank_map_programs(out, s, programs, n, hosts, host_count, e);
    for (int i = 0; i < n; i++)
        free(programs[i].slots);
    return rc;
}

/* Maps the ranks as a rank file says. */
static int map_locations(struct rank_map **out, const struct launch_spec *s, struct err *e)
{
    int n = s->ranks ? s->ranks : s->location_count;
    if (n > s->location_count) {
        err_set(e, -EINVAL, "%d ranks, but the rank file has %d", n, s->location_count);
        return err_hint(e, "-np %d, or more lines in the rank file", s->location_count);
    }
    AUTO(free) struct rank_map *map = xcalloc((size_t)n, sizeof *map);
    AUTO(free) int *used = xcalloc((size_t)s->hosts->count, sizeof *used);
    for (int i = 0; i < n; i++) {
        int h = 0;
        while (h < s->hosts->count && strcmp(s->hosts->at[h].name, s->locations[i].host) != 0 &&
               !(s->hosts->at[h].here && s->locations[i].here))
            h++;
        if (h == s->hosts->count)
            return err_set(e, -EINVAL, "rank %d: host '%s' is not one of the job's", i,
                           s->locations[i].host);
        map[i] = (struct rank_map){h, used[h]++};
    }
    *out = TAKE(map);
    return n;
}

static bool has_program_hosts(const struct launch_spec *s)
{
    bool any = s->own_hosts != NULL;
    for (int i = 0; i < s->app_count; i++)
        any |= s->apps[i].hosts != NULL;
    return any && s->hosts;
}

/* Sets nodes and ranks of the plan. Nodes are the hosts that have ranks. */
static void set_mapping(struct plan *p, const struct launch_spec *s,
                        const struct rank_map_host *hosts, int host_count,
                        const struct rank_map *map)
{
    AUTO(free) int *size = xcalloc((size_t)host_count, sizeof *size);
    AUTO(free) int *node = xcalloc((size_t)host_count, sizeof *node);
    for (int i = 0; i < p->world_size; i++)
        size[map[i].host]++;
    p->nodes = xcalloc((size_t)host_count, sizeof *p->nodes);
    for (int i = 0; i < host_count; i++) {
        if (size[i] == 0)
            continue;
        node[i] = p->node_count++;
        p->nodes[node[i]] = (struct plan_node){.name = xstrdup(hosts[i].name),
                                               .ranks = xcalloc((size_t)size[i], sizeof(int)),
                                               .port = s->hosts ? s->hosts->at[i].port : 0,
                                               .here = !s->hosts || s->hosts->at[i].here};
    }
    p->ranks = xcalloc((size_t)p->world_size, sizeof *p->ranks);
    for (int i = 0; i < p->world_size; i++) {
        struct plan_node *n = &p->nodes[node[map[i].host]];
        n->ranks[n->local_size++] = i;
        p->ranks[i] = (struct plan_rank){
            .rank = i, .node = node[map[i].host], .local_rank = map[i].local_rank, .gpu = -1};
    }
}

static int map_ranks(struct plan *p, const struct launch_spec *s, const struct node_resources *res,
                     struct err *e)
{
    int count = 0;
    AUTO(free) struct rank_map_host *hosts = mapping_hosts(&count, s, res);
    if (s->map_by == PLAN_MAP_PPR && hosts[0].objects == 0)
        return err_set(e, -EINVAL, "cannot map ranks: '%s' has no object of that kind",
                       topo_name(res->topo));
    AUTO(free) struct rank_map *map = NULL;
    int ranks = s->locations           ? map_locations(&map, s, e)
                : has_program_hosts(s) ? map_programs(&map, s, hosts, count, e)
                                       : rank_map_make(&map, s, hosts, count, e);
    if (ranks < 0)
        return -EINVAL;
    p->world_size = ranks;
    if (s->node.stdin_rank < 0 || s->node.stdin_rank >= ranks)
        return err_set(e, -EINVAL, "stdin for rank %d: the job has ranks 0 to %d",
                       s->node.stdin_rank, ranks - 1);
    if (s->shown_rank >= ranks)
        return err_set(e, -EINVAL, "output of rank %d: the job has ranks 0 to %d", s->shown_rank,
                       ranks - 1);
    set_mapping(p, s, hosts, count, map);
    return 0;
}

/* Sets `*out` to the resources of this machine, which every node is assumed to have. If this
 * machine is not one of the hosts and lacks the requested CPUs or GPUs (a login node may have no
 * GPU 3), the request is ignored. */
static int assume_resources(struct node_resources **out, const struct launch_spec *s,
                            const struct topo *t, char *const *base, struct err *e)
{
    struct launch_spec without_limits = *s;
    without_limits.gpus = without_limits.cpus = NULL;
    int rc = node_resources_new(out, s, t, base, e);
    return rc < 0 && !includes_this_machine(s)
               ? node_resources_new(out, &without_limits, t, base, e)
               : rc;
}

/* Sets the ranks of a node as if the node were this machine. Another node may have more resources,
 * so missing resources are reported only when the topology of that node is known. */
static int set_node_as_assumed(struct plan *p, int node, const struct launch_spec *s,
                               struct node_resources *res, char *const *base, struct err *e)
{
    struct launch_spec spec = *s;
    spec.needs_gpus = s->needs_gpus && p->nodes[node].here;
    if (!p->nodes[node].here) {
        spec.locations = NULL;
        spec.bind_slots = NULL;
    }
    spec.oversubscribe = res->cpu_opts.oversubscribe = s->oversubscribe || !p->nodes[node].here;
    return set_node(p, node, &spec, res, base, e);
}

int plan_world_size(const struct plan *p, const struct launch_spec *s)
{
    const struct launch_external_part *part = &s->external_part;
    return part->nodes == 0       ? p->world_size
           : part->world_size > 0 ? part->world_size
                                  : p->world_size * part->nodes;
}

int plan_make(struct plan **out, const struct launch_spec *s, const struct topo *t,
              char *const *base_env, struct err *e)
{
    AUTO(node_resources) struct node_resources *res = NULL;
    AUTO(plan) struct plan *p = xzalloc(sizeof *p);
    if (check_spec(s, e) < 0 || choose_engine(&p->engine, s, base_env, e) < 0 ||
        assume_resources(&res, s, t, base_env, e) < 0 || map_ranks(p, s, res, e) < 0)
        return -EINVAL;
    if (s->stdin_all && !plan_is_local(p)) {
        err_set(e, -EINVAL, "stdin for all ranks: only on this node");
        return err_hint(e, "--stdin RANK, or a file that every rank opens");
    }
    p->job_id = xstrdup(s->job_id ? s->job_id : "job");
    const struct launch_external_part *part = &s->external_part;
    if (part->nodes > 0)
        p->first_rank = part->world_size > 0 ? part->first_rank : p->world_size * part->node;
    p->master_addr = copy_of(part->nodes > 0      ? part->master_addr
                             : p->node_count == 1 ? "127.0.0.1"
                                                  : NULL);
    p->master_port = s->node.master_port;
    p->wdir = copy_of(s->wdir);
    p->argv = strv_copy(s->argv);
    for (int i = 0; i < p->node_count; i++)
        if (set_node_as_assumed(p, i, s, res, base_env, e) < 0)
            return -EINVAL;
    p->env = env_job(p, s, base_env);
    *out = TAKE(p);
    return 0;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    for (int i = 0; p->ranks && i < p->world_size; i++)
        rank_clear(&p->ranks[i]);
    for (int i = 0; p->nodes && i < p->node_count; i++) {
        free(p->nodes[i].name);
        free(p->nodes[i].ranks);
        free(p->nodes[i].hardware);
    }
    free(p->ranks);
    free(p->nodes);
    free(p->job_id);
    free(p->master_addr);
    free(p->wdir);
    strv_free(p->argv);
    strv_free(p->env);
    free(p);
}
