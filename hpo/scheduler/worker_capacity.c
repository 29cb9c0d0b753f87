/* worker_capacity - finds the workers with the most free slots, in a heap. */
#include <string.h>

#include "hpo/scheduler/scheduler_internal.h"

static int free_slots(const struct worker *w)
{
    bool takes =
        w->link == WORKER_LINK_READY && !w->considered && worker_health_gets_trials(&w->health);
    return takes && w->slots > w->busy ? w->slots - w->busy : 0;
}

/* Returns true if `a` comes before `b`: it has more free slots, or equally many and a lower
 * number. */
static bool has_precedence(const struct worker *a, const struct worker *b)
{
    return free_slots(a) != free_slots(b) ? free_slots(a) > free_slots(b) : a->number < b->number;
}

static void set_heap(struct scheduler *s, size_t at, struct worker *w)
{
    s->by_capacity[at] = w;
    w->capacity_index = at;
}

void worker_capacity_update(struct scheduler *s, struct worker *w)
{
    size_t at = w->capacity_index, n = s->worker_count;
    for (; at > 0 && has_precedence(w, s->by_capacity[(at - 1) / 2]); at = (at - 1) / 2)
        set_heap(s, at, s->by_capacity[(at - 1) / 2]);
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && has_precedence(s->by_capacity[child + 1], s->by_capacity[child]))
            child++;
        if (!has_precedence(s->by_capacity[child], w))
            break;
        set_heap(s, at, s->by_capacity[child]);
    }
    set_heap(s, at, w);
}

static void set_chosen(struct scheduler *s, struct worker *w, bool chosen)
{
    w->considered = chosen;
    worker_capacity_update(s, w);
}

static bool on_another_node(const struct worker *w, struct worker *const *others, int n)
{
    for (int i = 0; i < n; i++)
        if (w->node && others[i]->node && strcmp(w->node, others[i]->node) == 0)
            return false;
    return true;
}

/* Considered workers sink in the heap since they count as having no free slots. At the end they get
 * their slots back. */
bool worker_capacity_largest(struct scheduler *s, struct worker **out, int n)
{
    size_t seen_count = 0;
    int found = 0;
    AUTO(free) struct worker **seen = n > 1 ? xcalloc(s->worker_count + 1, sizeof *seen) : NULL;
    while (found < n && s->worker_count > 0 && free_slots(s->by_capacity[0]) > 0) {
        struct worker *w = s->by_capacity[0];
        if (on_another_node(w, out, found))
            out[found++] = w;
        if (n == 1)
            break;
        seen[seen_count++] = w;
        set_chosen(s, w, true);
    }
    for (size_t i = 0; i < seen_count; i++)
        set_chosen(s, seen[i], false);
    return found == n;
}
