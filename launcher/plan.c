#include "launcher/plan.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/strbuf.h"
#include "launcher/env.h"
#include "launcher/place.h"
#include "launcher/topo.h"

enum { RANKS_MAX = 1 << 20 };

void plan_free(struct plan *p)
{
    if (!p)
        return;
    for (int i = 0; p->ranks && i < p->world_size; i++) {
        struct plan_rank *r = &p->ranks[i];
        free(r->gpu_uuid);
        free(r->cpus);
        free(r->mems);
        strv_free(r->env);
    }
    for (int i = 0; p->nodes && i < p->node_count; i++)
        free(p->nodes[i].name);
    free(p->ranks);
    free(p->nodes);
    free(p->job_id);
    free(p->master_addr);
    free(p->wdir);
    strv_free(p->argv);
    strv_free(p->env);
    free(p);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* GPUs of a node, in an order: positions for topo_gpu(). */
struct chosen {
    int *at;
    int n;
    bool seen; /* the job's ranks see just these, in this order, by themselves */
};

static void chosen_free(struct chosen *c)
{
    if (c)
        free(c->at);
    free(c);
}

AUTO_DEFINE(chosen, struct chosen *, chosen_free)

static bool has(const struct chosen *c, int at)
{
    for (int i = 0; i < c->n; i++)
        if (c->at[i] == at)
            return true;
    return false;
}

/* The GPU that a word of a list means: an index, or a UUID or its beginning where that is unique
 * ("GPU-5c8b"), as CUDA takes them. -1: none. */
static int gpu_called(const struct topo *t, const char *word, size_t len)
{
    int found = -1;
    if (len > 0 && len < 8 && strspn(word, "0123456789") >= len) {
        int index = 0;
        for (size_t i = 0; i < len; i++)
            index = index * 10 + (word[i] - '0');
        for (int i = 0; i < topo_gpu_count(t); i++)
            if (topo_gpu(t, i)->index == index)
                found = i;
        return found;
    }
    if (len < 5 || strncmp(word, "GPU-", 4) != 0)
        return -1;
    for (int i = 0; i < topo_gpu_count(t); i++)
        if (strncmp(topo_gpu(t, i)->uuid, word, len) == 0) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

/* What CUDA_VISIBLE_DEVICES shows, by CUDA's rules (CUDA C++ Programming Guide, "CUDA Environment
 * Variables"): in its order, up to the first word that names no GPU; nothing where one stands
 * twice. Parts of GPUs (MIG) are named by UUIDs of their own: which GPU they are on is not known
 * here, and such a job is planned as one without GPUs. */
static struct chosen *visible_gpus(const struct topo *t, const char *list)
{
    struct chosen *c = xzalloc(sizeof *c);
    c->at = xcalloc((size_t)topo_gpu_count(t), sizeof *c->at);
    if (!list) {
        for (int i = 0; i < topo_gpu_count(t); i++)
            c->at[c->n++] = i;
        return c;
    }
    for (const char *p = list;;) {
        while (isspace((unsigned char)*p))
            p++;
        size_t len = strcspn(p, ", \t");
        int at = gpu_called(t, p, len);
        if (at < 0)
            return c;
        if (has(c, at)) {
            c->n = 0;
            return c;
        }
        c->at[c->n++] = at;
        p += len;
        p += strspn(p, " \t");
        if (*p++ != ',')
            return c;
    }
}

/* Of the visible GPUs those that the job is given, in the order of `list` ("0,2", UUIDs; empty:
 * none). */
static int given_gpus(struct chosen **out, const struct topo *t, const struct chosen *visible,
                      const char *list, struct err *e)
{
    AUTO(chosen) struct chosen *c = xzalloc(sizeof *c);
    c->at = xcalloc((size_t)topo_gpu_count(t), sizeof *c->at);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        int at = gpu_called(t, p, len);
        if (at < 0)
            return err_set(e, -EINVAL, "GPU '%.*s': '%s' has %d GPUs, and none of that name",
                           (int)len, p, topo_name(t), topo_gpu_count(t));
        if (!has(visible, at))
            return err_set(e, -EINVAL, "GPU '%.*s' is hidden by CUDA_VISIBLE_DEVICES", (int)len, p);
        if (has(c, at))
            return err_set(e, -EINVAL, "GPU '%.*s' is named twice in '%s'", (int)len, p, list);
        c->at[c->n++] = at;
        p += len;
        if (*p == ',' && !*++p)
            return err_set(e, -EINVAL, "GPUs '%s': the list ends with a comma", list);
    }
    *out = TAKE(c);
    return 0;
}

static int choose_gpus(struct chosen **out, const struct launch_spec *s, const struct topo *t,
                       char *const *base, struct err *e)
{
    AUTO(chosen)
    struct chosen *visible = visible_gpus(t, env_chosen(base, s->env, "CUDA_VISIBLE_DEVICES"));
    visible->seen = true;
    if (!s->gpus) {
        *out = TAKE(visible);
        return 0;
    }
    AUTO(chosen) struct chosen *given = NULL;
    if (given_gpus(&given, t, visible, s->gpus, e) < 0)
        return -EINVAL;
    given->seen = given->n == visible->n &&
                  memcmp(given->at, visible->at, (size_t)given->n * sizeof *given->at) == 0;
    *out = TAKE(given);
    return 0;
}

static int check_gpus(const struct plan *p, const struct launch_spec *s, const struct chosen *gpus,
                      struct err *e)
{
    if (gpus->n == 0 || p->world_size <= gpus->n || s->oversubscribe)
        return 0;
    err_set(e, -EINVAL, "%d ranks, but the job has %d GPU%s on '%s'", p->world_size, gpus->n,
            gpus->n == 1 ? "" : "s", p->nodes[0].name);
    return err_hint(e,
                    "-np %d for one a GPU; --oversubscribe to share them; --gpus '' for a job that "
                    "uses none",
                    gpus->n);
}

/* CUDA_VISIBLE_DEVICES, where the ranks would see others: all of the job's GPUs for every rank;
 * LOCAL_RANK counts them, as torchrun's users expect. Indexes mean NVML's, in the order of the
 * bus; CUDA's own order is the fastest first. */
static void show_gpus(char ***env, const struct launch_spec *s, const struct topo *t,
                      const struct chosen *gpus, char *const *base)
{
    bool mixed = false;
    for (int i = 1; i < topo_gpu_count(t); i++)
        mixed |= strcmp(topo_gpu(t, i)->name, topo_gpu(t, 0)->name) != 0;
    if (mixed && gpus->n > 0 && !env_chosen(base, s->env, "CUDA_DEVICE_ORDER"))
        env_set(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if (gpus->seen)
        return;
    AUTO(strbuf) struct strbuf list = {0};
    for (int i = 0; i < gpus->n; i++)
        strbuf_printf(&list, "%s%d", i ? "," : "", topo_gpu(t, gpus->at[i])->index);
    env_set(env, "CUDA_VISIBLE_DEVICES", "%s", strbuf_str(&list));
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* The hardware threads that the job may use. */
static int choose_cpus(hwloc_bitmap_t set, const struct launch_spec *s, const struct topo *t,
                       struct err *e)
{
    hwloc_bitmap_copy(set, topo_allowed(t));
    if (!s->cpus)
        return 0;
    if (topo_list_parse(set, s->cpus, e) < 0)
        return err_wrap(e, "CPUs");
    if (hwloc_bitmap_isincluded(set, topo_allowed(t)))
        return 0;
    AUTO(free) char *allowed = NULL;
    hwloc_bitmap_list_asprintf(&allowed, topo_allowed(t));
    return err_set(e, -EINVAL, "CPUs '%s': of '%s' only %s may be used here", s->cpus, topo_name(t),
                   allowed);
}

/* One rank a GPU; without GPUs one a core, as far as the cgroup gives time for them. */
static int rank_count(const struct launch_spec *s, const struct place_want *w, int gpus)
{
    if (s->ranks > 0)
        return s->ranks;
    if (gpus > 0)
        return gpus;
    int units = place_units(w), quota = topo_cpu_quota(w->topo);
    return quota > 0 && quota < units ? quota : units;
}

static int place_all(struct plan *p, const struct place_want *w, struct err *e)
{
    AUTO(free) struct place *places = xcalloc((size_t)w->ranks, sizeof *places);
    if (place_ranks(places, w, e) < 0)
        return -EINVAL;
    int quota = topo_cpu_quota(w->topo), most = quota / w->ranks;
    for (int i = 0; i < w->ranks; i++) {
        struct plan_rank *r = &p->ranks[i];
        r->cpus = places[i].cpus;
        r->mems = places[i].mems;
        r->cores = places[i].cores;
        if (quota > 0 && r->cores > most)
            r->cores = most > 0 ? most : 1;
    }
    return 0;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int check_spec(const struct launch_spec *s, struct err *e)
{
    if (s->ranks < 0 || s->ranks > RANKS_MAX)
        return err_set(e, -EINVAL, "%d ranks: 1 to %d are possible", s->ranks, RANKS_MAX);
    if (s->cpus_per_rank < 0)
        return err_set(e, -EINVAL, "%d CPUs a rank: at least 1 is needed", s->cpus_per_rank);
    if (!s->argv || !s->argv[0])
        return err_set(e, -EINVAL, "there is no program to run");
    return 0;
}

/* Who runs where: all on this node; the i-th on the i-th GPU, and so on in turn. */
static void seat_ranks(struct plan *p, const struct topo *t, const struct chosen *gpus, int *numa)
{
    for (int i = 0; i < p->world_size; i++) {
        struct plan_rank *r = &p->ranks[i];
        *r = (struct plan_rank){.rank = i, .local_rank = i, .gpu = -1};
        numa[i] = -1;
        if (gpus->n == 0)
            continue;
        const struct gpu *g = topo_gpu(t, gpus->at[i % gpus->n]);
        r->gpu = g->index;
        r->gpu_uuid = g->uuid[0] ? xstrdup(g->uuid) : NULL;
        numa[i] = g->numa;
    }
}

static struct plan *new_plan(const struct launch_spec *s, const struct topo *t, int ranks)
{
    struct plan *p = xzalloc(sizeof *p);
    p->world_size = ranks;
    p->ranks = xcalloc((size_t)ranks, sizeof *p->ranks);
    p->node_count = 1;
    p->nodes = xcalloc(1, sizeof *p->nodes);
    p->nodes[0] = (struct plan_node){xstrdup(topo_name(t)), ranks, true};
    p->job_id = xstrdup(s->job_id ? s->job_id : "job");
    p->master_addr = xstrdup("127.0.0.1");
    p->wdir = s->wdir ? xstrdup(s->wdir) : NULL;
    p->argv = strv_copy(s->argv);
    return p;
}

int plan_make(struct plan **out, const struct launch_spec *s, const struct topo *t,
              char *const *base_env, struct err *e)
{
    AUTO(chosen) struct chosen *gpus = NULL;
    AUTO(bitmap) hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (check_spec(s, e) < 0 || choose_gpus(&gpus, s, t, base_env, e) < 0 ||
        choose_cpus(cpus, s, t, e) < 0)
        return -EINVAL;
    struct place_want want = {.topo = t,
                              .cpus = cpus,
                              .part = !hwloc_bitmap_isequal(cpus, topo_allowed(t)),
                              .map_by = s->map_by,
                              .bind_to = s->bind_to,
                              .cpus_per_rank = s->cpus_per_rank,
                              .oversubscribe = s->oversubscribe};
    want.ranks = rank_count(s, &want, gpus->n);
    AUTO(plan) struct plan *p = new_plan(s, t, want.ranks);
    if (check_gpus(p, s, gpus, e) < 0)
        return -EINVAL;
    AUTO(free) int *numa = xcalloc((size_t)want.ranks, sizeof *numa);
    seat_ranks(p, t, gpus, numa);
    want.numa = gpus->n > 0 ? numa : NULL;
    if (place_all(p, &want, e) < 0)
        return -EINVAL;
    p->env = env_job(p, s, base_env, want.ranks > place_units(&want));
    for (int i = 0; i < want.ranks; i++) {
        struct plan_rank *r = &p->ranks[i];
        r->env = env_rank(p, r, s, base_env);
        show_gpus(&r->env, s, t, gpus, base_env);
    }
    *out = TAKE(p);
    return 0;
}
