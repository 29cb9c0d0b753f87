/* scheduler_health - the faults of workers: who gets trials, which self-tests are due, and whether
 * a worker is left that can start a trial. */
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "hpo/scheduler/scheduler_internal.h"

/* The health of `w` has changed. */
static void changed(struct event_context *ctx, struct worker *w)
{
    ctx->s->due_stale = true;
    worker_capacity_update(ctx->s, w);
    scheduler_emit_action(ctx, SCHEDULER_ACT_HEALTH, w->id, -1, 0, NULL);
}

void scheduler_health_fault(struct event_context *ctx, const struct trial *t, int node,
                            const char *cause)
{
    const char *id = node == 0
                         ? t->worker
                         : json_string_value(json_array_get(t->gang_workers, (size_t)node - 1));
    struct worker *w = scheduler_find_worker(ctx->s, id);
    if (w && worker_health_fault(&w->health, cause, ctx->now_ms))
        changed(ctx, w);
}

static void succeed(struct event_context *ctx, const char *id)
{
    struct worker *w = scheduler_find_worker(ctx->s, id);
    if (w && worker_health_success(&w->health))
        changed(ctx, w);
}

void scheduler_health_success(struct event_context *ctx, const struct trial *t)
{
    succeed(ctx, t->worker);
    for (size_t i = 0; i < json_array_size(t->gang_workers); i++)
        succeed(ctx, json_string_value(json_array_get(t->gang_workers, i)));
}

void scheduler_health_reconnected(struct event_context *ctx, struct worker *w)
{
    (void)worker_health_reconnected(&w->health, ctx->now_ms);
    ctx->s->due_stale = ctx->s->due_stale || w->health.failures > 0;
}

int scheduler_health_tested(struct event_context *ctx, const struct scheduler_event *ev,
                            struct err *e)
{
    const char *cause = NULL;
    if (json_optional_str(&cause, ev->data, "why", e) < 0)
        return -EINVAL;
    struct worker *w = scheduler_find_worker(ctx->s, ev->worker);
    if (w && worker_health_tested(&w->health, cause, ctx->now_ms))
        changed(ctx, w);
    return 0;
}

void scheduler_health_tick(struct event_context *ctx)
{
    for (size_t i = 0; i < ctx->s->worker_count; i++) {
        struct worker *w = ctx->s->workers[i];
        if (w->link == WORKER_LINK_ABSENT || !worker_health_tick(&w->health, ctx->now_ms))
            continue;
        changed(ctx, w);
        if (w->health.state == WORKER_HEALTH_TESTING)
            scheduler_emit_action(ctx, SCHEDULER_ACT_TEST, w->id, -1, 0, NULL);
    }
}

int64_t scheduler_health_deadline(const struct worker *w)
{
    return w->link == WORKER_LINK_ABSENT ? INT64_MAX : worker_health_deadline(&w->health);
}

bool scheduler_expect_workers(struct scheduler *s, bool expected)
{
    bool changed = s->expects_workers != expected;
    s->expects_workers = expected;
    return changed;
}

const char *scheduler_health_none_left(struct scheduler *s)
{
    const struct worker *hopeless = NULL;
    int able = 0;
    if (s->expects_workers)
        return NULL;
    for (size_t i = 0; i < s->worker_count; i++) {
        const struct worker *w = s->workers[i];
        if (w->lost_ms != INT64_MAX)
            return NULL; /* its hello is awaited */
        if (w->link == WORKER_LINK_ABSENT || w->link == WORKER_LINK_LEAVING)
            continue;
        bool fails = worker_health_is_hopeless(&w->health);
        hopeless = fails ? w : hopeless;
        able += !fails;
    }
    if (!hopeless || able >= s->spec->need.nodes)
        return NULL;
    free(s->end_text);
    s->end_text =
        xasprintf("%s: worker %s on %s: %s", stop_reason_text(STOP_REASON_NO_WORKER), hopeless->id,
                  hopeless->node ? hopeless->node : "an unnamed node", hopeless->health.cause);
    return s->end_text;
}

json_t *scheduler_worker_fault(const struct scheduler *s, const char *id)
{
    const struct worker *w = scheduler_find_worker(s, id);
    const struct worker_health *h = w ? &w->health : NULL;
    if (!h || !h->cause)
        return NULL;
    return json_pack("{s:s, s:s, s:I, s:i, s:I}", "state", worker_health_state_name(h->state),
                     "error", h->cause, "since_ms", (json_int_t)h->since_ms, "failures",
                     h->failures, "due_ms",
                     (json_int_t)(worker_health_gets_trials(h) ? 0 : h->due_ms));
}
