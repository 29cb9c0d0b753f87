/* sched_set - trials over several nodes: one worker runs it, the others hold a place each, and it
 * is not run before all of them have reserved theirs. */
#include <string.h>

#include "common/strbuf.h"
#include "hpo/scheduler/scheduler_internal.h"

enum { HELD_MS = 10000 /* for a place to be reserved */ };

static const char *other(const struct trial *t, size_t i)
{
    return json_string_value(json_array_get(t->gang_workers, i));
}

bool scheduler_gang_has_worker(const struct worker *w, const struct trial *t)
{
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++)
        if (strcmp(other(t, i), w->id) == 0)
            return true;
    return strcmp(t->worker, w->id) == 0;
}

/* NULL: all its places are reserved, or it needs none. */
static struct scheduler_gang *find(const struct scheduler *s, const struct trial *t)
{
    for (size_t i = 0; i < s->set_count; i++)
        if (s->sets[i].trial == t->id)
            return &s->sets[i];
    return NULL;
}

static void drop(struct scheduler *s, struct scheduler_gang *set)
{
    json_decref(set->held);
    *set = s->sets[--s->set_count];
    s->due_stale = true;
}

bool scheduler_gang_is_pending(const struct scheduler *s, const struct trial *t)
{
    return find(s, t) != NULL;
}

void scheduler_gang_begin(struct event_context *st, const struct trial *t)
{
    struct scheduler *s = st->s;
    s->sets = xrealloc(s->sets, s->set_count + 1, sizeof *s->sets);
    s->sets[s->set_count++] = (struct scheduler_gang){t->id, st->now_ms + HELD_MS, json_object()};
    s->due_stale = true;
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++)
        scheduler_emit_action(st, SCHEDULER_ACT_RESERVE, scheduler_find_worker(s, other(t, i))->id,
                              t->id, t->lease, NULL);
}

void scheduler_gang_end(struct event_context *st, const struct trial *t)
{
    struct scheduler_gang *set = find(st->s, t);
    if (set)
        drop(st->s, set);
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++) {
        const struct worker *w = scheduler_find_worker(st->s, other(t, i));
        if (w->connected)
            scheduler_emit_action(st, SCHEDULER_ACT_STOP, w->id, t->id, t->lease,
                                  "its trial has ended");
    }
}

/* All places are reserved. */
static void run(struct event_context *st, const struct trial *t, struct scheduler_gang *set)
{
    struct scheduler *s = st->s;
    struct scheduler_out *out = st->out;
    json_decref(s->others);
    s->others = json_array();
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++) {
        const struct worker *w = scheduler_find_worker(s, other(t, i));
        json_array_append_new(s->others, json_pack("{s:s?, s:O}", "node", w->node, "resources",
                                                   json_object_get(set->held, w->id)));
    }
    drop(s, set);
    scheduler_emit_action(st, SCHEDULER_ACT_RUN, scheduler_find_worker(s, t->worker)->id, t->id,
                          t->lease, NULL);
    out->actions[out->action_count - 1].others = s->others;
}

void scheduler_gang_reserved(struct event_context *st, const struct scheduler_event *ev)
{
    struct worker *w = scheduler_find_worker(st->s, ev->worker);
    const struct trial *t = sweep_state_leased(&st->s->st, ev->lease);
    struct scheduler_gang *set = t && t->lease == ev->lease ? find(st->s, t) : NULL;
    if (w && w->unresponsive) {
        w->unresponsive = false;
        worker_capacity_update(st->s, w);
    }
    if (!w || !set || strcmp(t->worker, w->id) == 0 || !scheduler_gang_has_worker(w, t) ||
        !ev->data)
        return;
    json_object_set(set->held, w->id, ev->data);
    if (json_object_size(set->held) == json_array_size(t->gang_workers))
        run(st, t, set);
}

struct trial *scheduler_gang_overdue(struct event_context *st, char **awaited)
{
    struct scheduler *s = st->s;
    for (size_t i = 0; i < s->set_count; i++) {
        if (s->sets[i].due_ms > st->now_ms)
            continue;
        struct trial *t = s->st.trials[s->sets[i].trial];
        AUTO(strbuf) struct strbuf names = {0};
        for (size_t k = 0; k < json_array_size(t->gang_workers); k++) {
            struct worker *w = scheduler_find_worker(s, other(t, k));
            if (json_object_get(s->sets[i].held, w->id))
                continue;
            strbuf_printf(&names, "%s%s on %s", names.len ? ", " : "", w->id,
                          w->node ? w->node : "a node without a name");
            w->unresponsive = true;
            worker_capacity_update(s, w);
        }
        *awaited =
            xasprintf("no place was reserved in %d s by %s", HELD_MS / 1000, strbuf_str(&names));
        return t;
    }
    return NULL;
}

int64_t scheduler_gang_deadline(const struct scheduler *s)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < s->set_count; i++)
        if (s->sets[i].due_ms < due)
            due = s->sets[i].due_ms;
    return due;
}

void scheduler_gangs_free(struct scheduler *s)
{
    for (size_t i = 0; i < s->set_count; i++)
        json_decref(s->sets[i].held);
    free(s->sets);
    json_decref(s->others);
}
