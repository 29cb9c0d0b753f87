/* scheduler_gang - trials over several nodes. One worker of the gang runs the trial, and each of
 * the others reserves a slot for it. The trial starts when all slots are reserved. */
#include <string.h>

#include "common/strbuf.h"
#include "hpo/scheduler/scheduler_internal.h"

enum { RESERVE_MS = 10000 /* time in which a slot must be reserved */ };

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

/* Returns the pending gang of the trial. Returns NULL if all its slots are reserved, or the trial
 * runs on one node. */
static struct scheduler_gang *find(const struct scheduler *s, const struct trial *t)
{
    for (size_t i = 0; i < s->gang_count; i++)
        if (s->gangs[i].trial == t->id)
            return &s->gangs[i];
    return NULL;
}

static void remove_gang(struct scheduler *s, struct scheduler_gang *gang)
{
    json_decref(gang->reserved);
    *gang = s->gangs[--s->gang_count];
    s->due_stale = true;
}

bool scheduler_gang_is_pending(const struct scheduler *s, const struct trial *t)
{
    return find(s, t) != NULL;
}

void scheduler_gang_begin(struct event_context *ctx, const struct trial *t)
{
    struct scheduler *s = ctx->s;
    s->gangs = xrealloc(s->gangs, s->gang_count + 1, sizeof *s->gangs);
    s->gangs[s->gang_count++] =
        (struct scheduler_gang){t->id, ctx->now_ms + RESERVE_MS, json_object()};
    s->due_stale = true;
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++)
        scheduler_emit_action(ctx, SCHEDULER_ACT_RESERVE, scheduler_find_worker(s, other(t, i))->id,
                              t->id, t->lease, NULL);
}

void scheduler_gang_end(struct event_context *ctx, const struct trial *t)
{
    struct scheduler_gang *gang = find(ctx->s, t);
    if (gang)
        remove_gang(ctx->s, gang);
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++) {
        const struct worker *w = scheduler_find_worker(ctx->s, other(t, i));
        if (w->link != WORKER_LINK_ABSENT)
            scheduler_emit_action(ctx, SCHEDULER_ACT_STOP, w->id, t->id, t->lease,
                                  "its trial has ended");
    }
}

/* Tells the worker to run the trial, since all slots are reserved. */
static void run(struct event_context *ctx, const struct trial *t, struct scheduler_gang *gang)
{
    struct scheduler *s = ctx->s;
    struct scheduler_out *out = ctx->out;
    json_decref(s->gang_nodes);
    s->gang_nodes = json_array();
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++) {
        const struct worker *w = scheduler_find_worker(s, other(t, i));
        json_array_append_new(s->gang_nodes, json_pack("{s:s?, s:O}", "node", w->node, "resources",
                                                       json_object_get(gang->reserved, w->id)));
    }
    remove_gang(s, gang);
    scheduler_emit_action(ctx, SCHEDULER_ACT_RUN, scheduler_find_worker(s, t->worker)->id, t->id,
                          t->lease, NULL);
    out->actions[out->action_count - 1].gang_nodes = s->gang_nodes;
}

void scheduler_gang_reserved(struct event_context *ctx, const struct scheduler_event *ev)
{
    struct worker *w = scheduler_find_worker(ctx->s, ev->worker);
    const struct trial *t = sweep_state_leased(&ctx->s->st, ev->lease);
    struct scheduler_gang *gang = t && t->lease == ev->lease ? find(ctx->s, t) : NULL;
    if (w)
        scheduler_worker_step(ctx->s, w, WORKER_LINK_EV_ANSWERED);
    if (!w || !gang || strcmp(t->worker, w->id) == 0 || !scheduler_gang_has_worker(w, t) ||
        !ev->data)
        return;
    json_object_set(gang->reserved, w->id, ev->data);
    if (json_object_size(gang->reserved) == json_array_size(t->gang_workers))
        run(ctx, t, gang);
}

struct trial *scheduler_gang_overdue(struct event_context *ctx, char **awaited)
{
    struct scheduler *s = ctx->s;
    for (size_t i = 0; i < s->gang_count; i++) {
        if (s->gangs[i].due_ms > ctx->now_ms)
            continue;
        struct trial *t = s->st.trials[s->gangs[i].trial];
        AUTO(strbuf) struct strbuf names = {0};
        for (size_t k = 0; k < json_array_size(t->gang_workers); k++) {
            struct worker *w = scheduler_find_worker(s, other(t, k));
            if (json_object_get(s->gangs[i].reserved, w->id))
                continue;
            strbuf_printf(&names, "%s%s on %s", names.len ? ", " : "", w->id,
                          w->node ? w->node : "an unnamed node");
            scheduler_worker_step(s, w, WORKER_LINK_EV_LATE);
        }
        *awaited = xasprintf("no slot was reserved within %d s by %s", RESERVE_MS / 1000,
                             strbuf_str(&names));
        return t;
    }
    return NULL;
}

int64_t scheduler_gang_deadline(const struct scheduler *s)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < s->gang_count; i++)
        if (s->gangs[i].due_ms < due)
            due = s->gangs[i].due_ms;
    return due;
}

void scheduler_gangs_free(struct scheduler *s)
{
    for (size_t i = 0; i < s->gang_count; i++)
        json_decref(s->gangs[i].reserved);
    free(s->gangs);
    json_decref(s->gang_nodes);
}
