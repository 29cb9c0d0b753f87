#include "hpo/scheduler/scheduler.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/scheduler/scheduler_internal.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

/* ---- output of a step ----------------------------------------------------------------------- */

static void clear_out(struct scheduler_out *out)
{
    for (size_t i = 0; i < out->record_count; i++)
        json_decref(out->records[i].data);
    out->record_count = out->action_count = 0;
}

void scheduler_out_free(struct scheduler_out *out)
{
    clear_out(out);
    free(out->records);
    free(out->actions);
    *out = (struct scheduler_out){0};
}

void scheduler_emit_action(struct event_context *ctx, enum scheduler_action_kind kind,
                           const char *worker, int trial, int64_t lease, const char *reason)
{
    struct scheduler_out *out = ctx->out;
    out->actions = xrealloc(out->actions, out->action_count + 1, sizeof *out->actions);
    out->actions[out->action_count++] = (struct scheduler_action){
        .kind = kind, .worker = worker, .trial = trial, .lease = lease, .reason = reason};
    if (kind == SCHEDULER_ACT_RUN)
        out->actions[out->action_count - 1].params = ctx->s->st.trials[trial]->params;
}

/* ---- workers -------------------------------------------------------------------------------- */

#define ROW(...) STATES_ROW(WORKER_LINK, __VA_ARGS__)
static const struct states_row worker_link_rows[] = {
    ROW(ABSENT, HELLO, READY),          ROW(READY, HELLO, READY),
    ROW(READY, LATE, UNRESPONSIVE),     ROW(READY, GOES, LEAVING),
    ROW(READY, LOST, ABSENT),           ROW(UNRESPONSIVE, HELLO, READY),
    ROW(UNRESPONSIVE, ANSWERED, READY), ROW(UNRESPONSIVE, GOES, LEAVING),
    ROW(UNRESPONSIVE, LOST, ABSENT),    ROW(LEAVING, HELLO, READY),
    ROW(LEAVING, LOST, ABSENT),
};
static const struct states worker_link_states = STATES_TABLE(worker_link_rows);

void scheduler_worker_step(struct scheduler *s, struct worker *w, enum worker_link_event event)
{
    int next = states_next(&worker_link_states, (int)w->link, (int)event);
    if (next >= 0)
        w->link = (enum worker_link)next;
    worker_capacity_update(s, w);
}

struct worker *scheduler_find_worker(const struct scheduler *s, const char *id)
{
    const json_t *at = id ? json_object_get(s->worker_index, id) : NULL;
    return at ? s->workers[json_integer_value(at)] : NULL;
}

struct worker *scheduler_add_worker(struct scheduler *s, const char *id)
{
    struct worker *w = scheduler_find_worker(s, id);
    if (w)
        return w;
    s->workers = xgrow(s->workers, s->worker_count, sizeof *s->workers);
    s->by_capacity = xgrow(s->by_capacity, s->worker_count, sizeof *s->by_capacity);
    w = xzalloc(sizeof *w);
    w->id = xstrdup(id);
    w->lost_ms = INT64_MAX;
    json_object_set_new(s->worker_index, id, json_integer((json_int_t)s->worker_count));
    w->number = w->capacity_index = s->worker_count;
    s->workers[s->worker_count++] = w;
    worker_capacity_update(s, w);
    return w;
}

void scheduler_worker_settled(struct scheduler *s, struct worker *w)
{
    s->due_stale = s->due_stale || w->lost_ms != INT64_MAX;
    w->lost_ms = INT64_MAX;
}

/* Returns a new sampler with the last model state of the records. */
static struct sampler *make_sampler(struct scheduler *s)
{
    struct sampler_task task;
    sampler_task_of_spec(&task, s->objectives, s->spec, s->stopper);
    struct sampler *sampler = sampler_new(sampler_of(s->spec->method), &task);
    sampler_restore(sampler, s->model_state);
    return sampler;
}

/* ---- records -------------------------------------------------------------------------------- */

/* Discards a proposal that was made ahead, since it does not take account of the newest record.
 * Also replaces the sampler by a new one: after a restart the sampler would not have made this
 * proposal, and both cases must give the same results. */
static void reset_sampler(struct scheduler *s)
{
    json_decref(s->next_params);
    s->next_params = NULL;
    sampler_free(s->sampler);
    s->sampler = make_sampler(s);
}

/* Counts the newest trial, whose parameters are from the user, in s->points. It adds 1, unless it
 * is a point of the space that has fewer than `repeats` trials. */
static void count_added(struct scheduler *s)
{
    struct trial_view view = sweep_state_view(&s->st);
    const json_t *params = view.trials[view.count - 1]->params;
    if (isinf(s->points))
        return;
    sampler_observe(s->sampler, &view);
    s->points +=
        !space_has(s->spec->space, params) || sampler_times(s->sampler, params) > s->spec->repeats;
}

/* Updates the next proposal and the model state after a record of a trial. */
static void update_next(struct scheduler *s, const struct scheduler_record *r)
{
    bool added = json_is_true(json_object_get(r->data, "added"));
    if (r->kind == SCHEDULER_REC_CREATED && !added) {
        json_decref(s->next_params);
        s->next_params = NULL;
        json_t *learnt = json_object_get(r->data, "learnt");
        if (learnt) { /* a record without it: the sampler has learned nothing new */
            json_decref(s->model_state);
            s->model_state = json_incref(learnt);
        }
    } else if (r->kind == SCHEDULER_REC_RETRIED || /* the sampler may know the trial's end */
               (s->next_params &&
                (r->kind == SCHEDULER_REC_REPORT || r->kind == SCHEDULER_REC_ENDED ||
                 r->kind == SCHEDULER_REC_CREATED))) {
        reset_sampler(s);
    }
    if (added)
        count_added(s);
}

/* Adds 1 to the worker's number of busy slots, or subtracts 1. */
static void count_slot(struct scheduler *s, const char *worker, bool taken)
{
    struct worker *w = scheduler_add_worker(s, worker);
    w->busy += taken ? 1 : -1;
    worker_capacity_update(s, w);
}

/* Applies a record, and updates the workers' numbers of busy slots. */
static int apply(struct scheduler *s, const struct scheduler_record *r, struct err *e)
{
    size_t id = (size_t)r->trial;
    const struct trial *t = r->trial >= 0 && id < s->st.count ? s->st.trials[id] : NULL;
    bool was_out = t && trial_is_active(t->state);
    if (sweep_state_apply(&s->st, r, e) < 0)
        return -EINVAL;
    if (r->kind == SCHEDULER_REC_COMMAND)
        return 0;
    t = s->st.trials[id];
    bool is_out = trial_is_active(t->state);
    if (is_out != was_out) {
        count_slot(s, t->worker, is_out);
        for (size_t i = 0; i < json_array_size(t->gang_workers); i++)
            count_slot(s, json_string_value(json_array_get(t->gang_workers, i)), is_out);
    }
    s->due_stale = s->due_stale || (s->spec->timeout_ms > 0 && r->kind != SCHEDULER_REC_REPORT);
    update_next(s, r);
    return 0;
}

void scheduler_emit_record(struct event_context *ctx, enum scheduler_record_kind kind,
                           const struct trial *t, int64_t lease, json_t *data)
{
    struct scheduler_out *out = ctx->out;
    int trial = kind == SCHEDULER_REC_COMMAND ? -1 : t ? t->id : (int)ctx->s->st.count;
    struct scheduler_record r = {
        .kind = kind, .at_ms = ctx->now_ms, .trial = trial, .lease = lease, .data = data};
    struct err e = {0};
    bool was_out = t && trial_is_active(t->state);
    if (!data || apply(ctx->s, &r, &e) < 0)
        abort(); /* a decision contradicts the state, which is a bug */
    if (was_out && !trial_is_active(t->state))
        scheduler_gang_end(ctx, t);
    out->records = xrealloc(out->records, out->record_count + 1, sizeof *out->records);
    out->records[out->record_count++] = r;
}

/* ---- what runs next ------------------------------------------------------------------------- */

static int failures(const struct scheduler *s)
{
    const int *n = s->st.counts;
    return n[TRIAL_FAILED] + n[TRIAL_OOM] + n[TRIAL_INVALID];
}

enum stop_reason scheduler_closed_reason(const struct scheduler *s)
{
    const int *n = s->st.counts;
    if (s->st.asked.stopped)
        return STOP_REASON_SWEEP_STOPPED;
    if (s->st.target_hit)
        return STOP_REASON_TARGET_REACHED;
    if (s->spec->give_up_after > 0 && n[TRIAL_DONE] + n[TRIAL_PRUNED] == 0 &&
        failures(s) - s->replayed_failures >= s->spec->give_up_after)
        return STOP_REASON_GAVE_UP;
    return STOP_REASON_NONE;
}

/* Returns true if the sweep has all trials that run_cap allows. Trials with parameters from the
 * user do not count. */
static bool capped(const struct scheduler *s)
{
    size_t own = s->st.count - (size_t)s->st.added;
    return s->spec->run_cap > 0 && own >= (size_t)s->spec->run_cap + (size_t)s->st.asked.raised;
}

/* Returns the parameters of the next new trial (borrowed), or NULL if there is none. */
static json_t *next_params(struct scheduler *s)
{
    if (capped(s) || s->exhausted)
        return NULL;
    if (!s->next_params) {
        struct trial_view view = sweep_state_view(&s->st);
        const json_t *given = json_array_get(s->spec->start, s->st.count - (size_t)s->st.added);
        s->next_params = given ? json_incref((json_t *)given) : sampler_next(s->sampler, &view);
        s->exhausted = !s->next_params;
    }
    return s->next_params;
}

enum stopper_verdict scheduler_judge_report(const struct scheduler *s, const struct trial *t)
{
    struct trial_view view = sweep_state_view(&s->st);
    return t->state == TRIAL_RUNNING
               ? stopper_judge(s->stopper, s->spec->metrics[0].maximize, &view, t)
               : STOPPER_CONTINUE;
}

/* Returns the paused trial that should continue now, or NULL if there is none. `last`: no new trial
 * can start. */
static struct trial *next_paused(const struct scheduler *s, bool last)
{
    if (s->st.counts[TRIAL_PAUSED] == 0)
        return NULL;
    struct trial_view view = sweep_state_view(&s->st);
    int id = stopper_resume(s->stopper, s->spec->metrics[0].maximize, &view, last);
    return id < 0 ? NULL : s->st.trials[id];
}

static struct trial *create(struct event_context *ctx, json_t *params)
{
    struct scheduler *s = ctx->s;
    scheduler_emit_record(
        ctx, SCHEDULER_REC_CREATED, NULL, 0,
        json_pack("{s:O, s:o*}", "params", params, "learnt", sampler_save(s->sampler)));
    return s->st.trials[s->st.count - 1];
}

/* Returns a trial for a free slot, or NULL if there is none. In this order: the first waiting
 * trial, a paused trial that should continue, a new trial and, if none can start, a paused trial
 * that should be finished. */
static struct trial *pick(struct event_context *ctx)
{
    struct scheduler *s = ctx->s;
    struct trial *waiting = sweep_state_waiting(&s->st);
    if (waiting)
        return waiting;
    struct trial *paused = next_paused(s, false);
    json_t *params = paused ? NULL : next_params(s);
    if (!params)
        return paused ? paused : next_paused(s, true);
    return create(ctx, params);
}

/* The time that a slot may wait for a proposal, as a share of the mean run time of a trial. */
static const double wait_share = 0.005;

/* With at least this many active trials, the next trial is created ahead. Its proposal cannot use
 * the result of the trial whose slot it will get. With few active trials this loss is large and the
 * gain is small. */
enum { PREFETCH_ACTIVE_MIN = 4 };

bool scheduler_wants_prefetch(const struct scheduler *s)
{
    const struct sweep_state *t = &s->st;
    if (t->ended_count == 0 || t->active_count < PREFETCH_ACTIVE_MIN ||
        t->counts[TRIAL_WAITING] > 0 || s->draining || t->asked.paused || s->exhausted ||
        scheduler_closed_reason(s) || capped(s) ||
        stopper_pauses(s->stopper)) /* the new trial would go before a paused one */
        return false;
    size_t ended = (size_t)t->ended_count;
    return sampler_seconds(s->sampler, ended) > wait_share * t->ended_seconds / (double)ended;
}

/* Until a slot is free, the new trial waits as a requeued one does. */
void scheduler_prefetch(struct event_context *ctx)
{
    json_t *params = scheduler_wants_prefetch(ctx->s) ? next_params(ctx->s) : NULL;
    if (params)
        create(ctx, params);
}

/* Leases the trial to the first of n workers. The other workers reserve slots for it. */
static void lease_to_gang(struct event_context *ctx, struct trial *t, struct worker *const *gang,
                          int n)
{
    int64_t lease = (int64_t)ctx->s->st.lease_count + 1;
    json_t *with = n > 1 ? json_array() : NULL;
    for (int i = 1; i < n; i++)
        json_array_append_new(with, json_string(gang[i]->id));
    scheduler_emit_record(
        ctx, SCHEDULER_REC_LEASED, t, lease,
        json_pack("{s:s, s:s?, s:o*}", "worker", gang[0]->id, "node", gang[0]->node, "with", with));
    if (with)
        scheduler_gang_begin(ctx, t);
    else
        scheduler_emit_action(ctx, SCHEDULER_ACT_RUN, gang[0]->id, t->id, lease, NULL);
}

static void dispatch(struct event_context *ctx)
{
    struct scheduler *s = ctx->s;
    int nodes = s->spec->need.nodes;
    struct worker *gang[RESOURCES_NODES_MAX];
    size_t limit = s->spec->parallel > 0 ? (size_t)s->spec->parallel : SIZE_MAX;
    while (!s->draining && !s->st.asked.paused && !scheduler_closed_reason(s) &&
           s->st.active_count < limit) {
        struct trial *t = worker_capacity_largest(s, gang, nodes) ? pick(ctx) : NULL;
        if (!t)
            break;
        lease_to_gang(ctx, t, gang, nodes);
    }
}

/* Cancels the waiting trials: no trial starts any more, so they would wait forever. */
static void cancel_waiting(struct event_context *ctx, enum stop_reason reason)
{
    struct scheduler *s = ctx->s;
    for (struct trial *t; (t = sweep_state_waiting(&s->st));)
        scheduler_emit_record(ctx, SCHEDULER_REC_ENDED, t, t->lease,
                              json_pack("{s:s, s:n, s:f, s:s}", "state", "cancelled", "value",
                                        "seconds", 0.0, "why", stop_reason_word(reason)));
}

/* Ends the trials that are still paused as pruned, since they were not good enough to continue. */
static void prune_paused(struct event_context *ctx)
{
    struct scheduler *s = ctx->s;
    for (size_t i = 0; i < s->st.count && s->st.counts[TRIAL_PAUSED] > 0; i++) {
        struct trial *t = s->st.trials[i];
        if (t->state == TRIAL_PAUSED)
            scheduler_end_trial(ctx, t, TRIAL_PRUNED, t->seconds, NULL);
    }
}

enum stop_reason scheduler_done_reason(struct scheduler *s)
{
    if (s->st.active_count > 0)
        return STOP_REASON_NONE;
    enum stop_reason reason = scheduler_closed_reason(s);
    if (reason || s->st.counts[TRIAL_WAITING] > 0 || next_paused(s, false) || next_params(s) ||
        next_paused(s, true))
        return reason;
    return capped(s) ? STOP_REASON_RUN_CAP : STOP_REASON_EXHAUSTED;
}

/* If the sweep has ended, sets s->end_reason and emits SCHEDULER_ACT_END. Does this only once. */
static void finish_if_done(struct event_context *ctx)
{
    struct scheduler *s = ctx->s;
    if (s->end_reason || s->st.active_count > 0)
        return;
    enum stop_reason reason = scheduler_done_reason(s);
    const char *text = NULL;
    if (reason) {
        cancel_waiting(ctx, reason);
        prune_paused(ctx);
    } else if (s->draining) {
        reason = STOP_REASON_DRAINED;
    } else if (!s->st.asked.paused && (text = scheduler_health_none_left(s))) {
        reason = STOP_REASON_NO_WORKER;
    } else {
        return;
    }
    s->end_reason = reason;
    scheduler_emit_action(ctx, SCHEDULER_ACT_END, NULL, -1, 0,
                          text ? text : stop_reason_text(reason));
}

/* Computes s->due_ms. Reports do not change it, so this is not called after each report. */
static void update_deadline(struct scheduler *s)
{
    int64_t due = scheduler_gang_deadline(s);
    for (size_t i = 0; i < s->worker_count; i++) {
        int64_t tested = scheduler_health_deadline(s->workers[i]);
        int64_t next = tested < s->workers[i]->lost_ms ? tested : s->workers[i]->lost_ms;
        due = next < due ? next : due;
    }
    for (size_t i = 0; s->spec->timeout_ms > 0 && i < s->st.active_count; i++) {
        const struct trial *t = s->st.trials[s->st.active[i]];
        if (t->state != TRIAL_STOPPING && t->state != TRIAL_PAUSING &&
            t->leased_ms + s->spec->timeout_ms < due)
            due = t->leased_ms + s->spec->timeout_ms;
    }
    s->due_ms = due;
    s->due_stale = false;
}

int scheduler_handle(struct scheduler *s, const struct scheduler_event *ev, int64_t now_ms,
                     struct scheduler_out *out, struct err *e)
{
    clear_out(out);
    struct event_context ctx = {.s = s, .out = out, .now_ms = now_ms};
    if (scheduler_events_handle(&ctx, ev, e) < 0)
        return -EINVAL;
    if (ev->kind != SCHEDULER_EV_REPORT || s->st.counts[TRIAL_PAUSED] > 0)
        dispatch(&ctx); /* a report frees no slot, but a paused trial may now continue */
    finish_if_done(&ctx);
    if (s->due_stale)
        update_deadline(s);
    return 0;
}

bool scheduler_is_done(const struct scheduler *s)
{
    return s->end_reason != STOP_REASON_NONE;
}

bool scheduler_is_paused(const struct scheduler *s)
{
    return s->st.asked.paused;
}

bool scheduler_is_stopped(const struct scheduler *s)
{
    return s->st.asked.stopped;
}

bool scheduler_lacks_workers(const struct scheduler *s)
{
    return s->end_reason == STOP_REASON_NO_WORKER;
}

int64_t scheduler_deadline(const struct scheduler *s)
{
    return s->due_ms;
}

/* ---- creation and replay -------------------------------------------------------------------- */

/* Returns the number of trials after which every point has `repeats` trials. Sets of `start` that
 * are not points, or are repeated too often, count in addition. */
static double count_points(const struct spec *spec)
{
    double trials = space_count(spec->space) * spec->repeats;
    AUTO(json) json_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(spec->start); i++) {
        const json_t *params = json_array_get(spec->start, i);
        AUTO(free) char *key = distribution_key(params);
        json_int_t before = json_integer_value(json_object_get(seen, key));
        trials += !space_has(spec->space, params) || before >= spec->repeats;
        json_object_set_new(seen, key, json_integer(before + 1));
    }
    return trials;
}

static int wanted(const struct spec *spec, double points, int raised, int added)
{
    double cap = (double)spec->run_cap + raised + added;
    double trials = spec->run_cap > 0 && points > cap ? cap : points;
    return trials <= INT_MAX ? (int)trials : -1;
}

int scheduler_trials_wanted(const struct scheduler *s)
{
    return wanted(s->spec, s->points, s->st.asked.raised, s->st.added);
}

int scheduler_wanted(const struct spec *spec, int raised, int added, int extra)
{
    return wanted(spec, count_points(spec) + extra, raised, added);
}

int scheduler_new(struct scheduler **out, const struct spec *spec, struct err *e)
{
    if (spec->early_terminate && !spec->metrics[0].name)
        return err_set(e, -EINVAL, "early stopping needs a metric to compare");
    AUTO(scheduler) struct scheduler *s = xzalloc(sizeof *s);
    struct config_node stop = config_node_of_json(spec->early_terminate);
    if (spec->early_terminate && stopper_new(&s->stopper, &stop, &spec->outcomes, e) < 0)
        return -EINVAL;
    s->spec = spec;
    s->st.spec = spec;
    s->sampler = make_sampler(s);
    s->worker_index = json_object();
    s->points = count_points(spec);
    s->due_ms = INT64_MAX;
    *out = TAKE(s);
    return 0;
}

void scheduler_free(struct scheduler *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->worker_count; i++) {
        free(s->workers[i]->id);
        free(s->workers[i]->node);
        worker_health_clear(&s->workers[i]->health);
        free(s->workers[i]);
    }
    scheduler_gangs_free(s);
    free(s->end_text);
    free(s->notice);
    free(s->workers);
    free(s->by_capacity);
    json_decref(s->worker_index);
    json_decref(s->next_params);
    json_decref(s->model_state);
    sampler_free(s->sampler);
    stopper_free(s->stopper);
    sweep_state_free(&s->st);
    free(s);
}

int scheduler_replay(struct scheduler *s, const struct scheduler_record *r, struct err *e)
{
    if (apply(s, r, e) < 0)
        return -EINVAL;
    if (r->kind == SCHEDULER_REC_REPORT && stopper_has_memory(s->stopper))
        (void)scheduler_judge_report(
            s, s->st.trials[r->trial]); /* ignored: the next record has the effect of the verdict */
    return 0;
}

void scheduler_replayed(struct scheduler *s, int64_t now_ms)
{
    for (size_t i = 0; i < s->worker_count; i++)
        if (s->workers[i]->busy > 0)
            s->workers[i]->lost_ms = now_ms + s->spec->lost_after_ms;
    update_deadline(s);
    sampler_restore(s->sampler, s->model_state);
    s->replayed_failures = failures(s);
}
