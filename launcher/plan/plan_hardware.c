#include "launcher/plan/plan_hardware.h"

#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/node/topo.h"

/* Returns hwloc's name of the CPU, or NULL. Borrowed. */
static const char *cpu_model(const struct topo *t)
{
    hwloc_topology_t h = topo_hwloc(t);
    hwloc_obj_t package = hwloc_get_obj_by_type(h, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    return model ? model : hwloc_obj_get_info_by_name(hwloc_get_root_obj(h), "CPUModel");
}

/* Appends text without the blanks with which vendors fill it up. */
static void add_words(struct strbuf *b, const char *text)
{
    const char *before = "";
    for (size_t n; *(text += strspn(text, " \t")); text += n, before = " ") {
        n = strcspn(text, " \t");
        strbuf_puts(b, before);
        strbuf_add(b, text, n);
    }
}

/* Appends "N x NAME and M x OTHER" for `n` names; those that are equal are counted. */
static void add_counted(struct strbuf *b, const char *const *names, int n, int times)
{
    AUTO(free) int *counts = xcalloc((size_t)n + 1, sizeof *counts);
    for (int i = 0; i < n; i++) { /* counts[i]: equal names, at the first of them */
        int first = 0;
        while (strcmp(names[first], names[i]) != 0)
            first++;
        counts[first]++;
    }
    for (int i = 0; i < n; i++) {
        if (counts[i] == 0)
            continue;
        strbuf_printf(b, "%s%d x ", i > 0 ? " and " : "", counts[i] * times);
        add_words(b, names[i]);
    }
}

char *plan_hardware_node(const struct topo *t, const struct gpu_assignment *gpus, int ranks)
{
    AUTO(strbuf) struct strbuf b = {0};
    const char *model = cpu_model(t);
    add_words(&b, model && *model ? model : "unknown CPU");
    int n = gpus->n < ranks ? gpus->n : ranks;
    AUTO(strv) char **names = NULL;
    for (int i = 0; i < n; i++) {
        const struct gpu_assignment_rank *g = &gpus->at[i];
        strv_push(&names, xasprintf("%s%s", g->gpu->name[0] ? g->gpu->name : "unknown GPU",
                                    g->gpu->mig_uuids[0][0] ? " (MIG)" : ""));
    }
    if (n > 0)
        strbuf_puts(&b, " with ");
    add_counted(&b, (const char *const *)names, n, 1);
    return strbuf_take(&b);
}

static void add_cpus(struct strbuf *b, const struct plan *p)
{
    int least = p->ranks[0].cores, most = least, bound = 0;
    for (int i = 0; i < p->world_size; i++) {
        least = p->ranks[i].cores < least ? p->ranks[i].cores : least;
        most = p->ranks[i].cores > most ? p->ranks[i].cores : most;
        bound += p->ranks[i].cpus != NULL;
    }
    const char *how = bound == p->world_size ? "bound " : bound > 0 ? "partly bound " : "";
    strbuf_printf(b, ", %d", least);
    if (most > least)
        strbuf_printf(b, " to %d", most);
    strbuf_printf(b, " %score%s per rank", how, most > 1 ? "s" : "");
}

char *plan_hardware_job(const struct plan *p, const struct launch_spec *s)
{
    int times = s->external_part.nodes > 0 ? s->external_part.nodes : 1;
    int ranks = plan_world_size(p, s);
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(free) const char **names = xcalloc((size_t)p->node_count, sizeof *names);
    for (int i = 0; i < p->node_count; i++)
        names[i] = p->nodes[i].hardware;
    strbuf_printf(&b, "%d rank%s on ", ranks, plural_s(ranks));
    add_counted(&b, names, p->node_count, times);
    add_cpus(&b, p);
    return strbuf_take(&b);
}

int plan_hardware_gpus(const struct plan *p)
{
    AUTO(bitmap) hwloc_bitmap_t seen = hwloc_bitmap_alloc();
    int gpus = 0;
    for (int n = 0; n < p->node_count; n++) {
        hwloc_bitmap_zero(seen);
        for (int i = 0; i < p->nodes[n].local_size; i++) {
            int gpu = p->ranks[p->nodes[n].ranks[i]].gpu;
            if (gpu >= 0)
                hwloc_bitmap_set(seen, (unsigned)gpu);
        }
        gpus += hwloc_bitmap_weight(seen);
    }
    return gpus;
}
