/* sched_room - which worker has the most free places, without looking at all of them: a heap. */
#include <string.h>

#include "hpo/scheduler/scheduler_internal.h"

static int room(const struct worker *w)
{
    bool takes = w->connected && !w->leaving && !w->unresponsive && !w->considered;
    return takes && w->places > w->busy ? w->places - w->busy : 0;
}

/* The more room the earlier; then in the order in which they came. */
static bool goes_before(const struct worker *a, const struct worker *b)
{
    return room(a) != room(b) ? room(a) > room(b) : a->number < b->number;
}

static void put(struct scheduler *s, size_t at, struct worker *w)
{
    s->by_capacity[at] = w;
    w->roomy_at = at;
}

void worker_capacity_update(struct scheduler *s, struct worker *w)
{
    size_t at = w->roomy_at, n = s->worker_count;
    for (; at > 0 && goes_before(w, s->by_capacity[(at - 1) / 2]); at = (at - 1) / 2)
        put(s, at, s->by_capacity[(at - 1) / 2]);
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && goes_before(s->by_capacity[child + 1], s->by_capacity[child]))
            child++;
        if (!goes_before(s->by_capacity[child], w))
            break;
        put(s, at, s->by_capacity[child]);
    }
    put(s, at, w);
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

/* Whom it has looked at sinks in the heap, and is put back at the end. */
bool worker_capacity_largest(struct scheduler *s, struct worker **out, int n)
{
    size_t seen_count = 0;
    int found = 0;
    AUTO(free) struct worker **seen = n > 1 ? xcalloc(s->worker_count + 1, sizeof *seen) : NULL;
    while (found < n && s->worker_count > 0 && room(s->by_capacity[0]) > 0) {
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
