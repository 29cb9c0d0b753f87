#include "launcher/plan/job_map.h"

#include <string.h>

struct job_map *job_map_new(const struct plan *p, int node)
{
    struct job_map *m = xzalloc(sizeof *m);
    m->job_id = xstrdup(p->job_id);
    m->node_count = p->node_count;
    m->ranks = p->world_size;
    m->node = node;
    m->rank_nodes = xcalloc((size_t)p->world_size, sizeof *m->rank_nodes);
    m->local = xcalloc((size_t)p->world_size, sizeof *m->local);
    for (int i = 0; i < p->node_count; i++)
        strv_push(&m->nodes, xstrdup(p->nodes[i].name));
    for (int i = 0; i < p->world_size; i++) {
        const struct plan_rank *r = &p->ranks[i];
        m->rank_nodes[i] = r->node;
        if (r->node != node)
            continue;
        m->local[m->local_count++] = i;
        strv_push(&m->cpus, xstrdup(r->cpus ? r->cpus : ""));
    }
    return m;
}

static int *copy_numbers(const int *from, int n)
{
    int *to = xcalloc((size_t)n, sizeof *to);
    if (n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

struct job_map *job_map_copy(const struct job_map *m)
{
    struct job_map *c = xzalloc(sizeof *c);
    *c = *m;
    c->job_id = xstrdup(m->job_id);
    c->nodes = strv_copy(m->nodes);
    c->rank_nodes = copy_numbers(m->rank_nodes, m->ranks);
    c->local = copy_numbers(m->local, m->local_count);
    c->cpus = strv_copy(m->cpus);
    return c;
}

int job_map_index(const struct job_map *m, int rank)
{
    int low = 0, high = m->local_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (m->local[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->local_count && m->local[low] == rank ? low : -1;
}

void job_map_free(struct job_map *m)
{
    if (!m)
        return;
    free(m->job_id);
    strv_free(m->nodes);
    free(m->rank_nodes);
    free(m->local);
    strv_free(m->cpus);
    free(m);
}
