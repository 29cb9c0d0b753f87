/* scheduler_commands - commands of the user, with one handler per verb. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/json.h"
#include "hpo/scheduler/scheduler_internal.h"
#include "hpo/space/space.h"

/* Records the command. */
static void record_command(struct event_context *ctx, const json_t *command)
{
    scheduler_emit_record(ctx, SCHEDULER_REC_COMMAND, NULL, 0, json_deep_copy(command));
}

static int has_ended(enum stop_reason reason, struct err *e)
{
    err_set(e, -EINVAL, "the sweep has ended: %s", stop_reason_text(reason));
    return err_hint(e, "drover sweep add, or drover sweep retry");
}

/* ---- stop, pause, resume -------------------------------------------------------------------- */

static int on_stop(struct event_context *ctx, const json_t *command, struct err *e)
{
    bool now = false, finish = false;
    enum stop_reason done = scheduler_done_reason(ctx->s);
    if (done)
        return has_ended(done, e);
    if (json_optional_bool(&now, command, "now", e) < 0 ||
        json_optional_bool(&finish, command, "finish", e) < 0)
        return -EINVAL;
    record_command(ctx, command);
    if (!finish)
        scheduler_stop_all(ctx, STOP_REASON_STOP, now);
    return 0;
}

static int on_pause(struct event_context *ctx, const json_t *command, struct err *e)
{
    bool finish = false;
    enum stop_reason done = scheduler_done_reason(ctx->s);
    if (done)
        return has_ended(done, e);
    if (ctx->s->st.asked.stopped)
        return err_set(e, -EINVAL, "the sweep is being stopped");
    if (json_optional_bool(&finish, command, "finish", e) < 0)
        return -EINVAL;
    record_command(ctx, command);
    if (!finish)
        scheduler_stop_all(ctx, STOP_REASON_PAUSE, false);
    return 0;
}

static int on_resume(struct event_context *ctx, const json_t *command, struct err *e)
{
    if (!ctx->s->st.asked.paused && !ctx->s->st.asked.stopped)
        return err_set(e, -EINVAL, "the sweep is neither paused nor stopped");
    record_command(ctx, command);
    return 0;
}

/* ---- cancel --------------------------------------------------------------------------------- */

static int check_trial(const struct sweep_state *all, const json_t *id, struct err *e)
{
    json_int_t n = json_is_integer(id) ? json_integer_value(id) : -1;
    if (n >= 0 && (size_t)n < all->count)
        return 0;
    err_set(e, -EINVAL, "there is no trial %lld", (long long)n);
    return err_hint(e, all->count ? "trials are numbered from 0 to %zu" : "no trial exists yet",
                    all->count - 1);
}

static int on_cancel(struct event_context *ctx, const json_t *command, struct err *e)
{
    const struct sweep_state *all = &ctx->s->st;
    const json_t *trials = json_object_get(command, "trials");
    bool now = false;
    if (json_optional_bool(&now, command, "now", e) < 0)
        return -EINVAL;
    for (size_t i = 0; i < json_array_size(trials); i++) {
        const json_t *id = json_array_get(trials, i);
        if (check_trial(all, id, e) < 0)
            return -EINVAL;
        enum trial_state was = all->trials[json_integer_value(id)]->state;
        if (trial_is_ended(was))
            return err_set(e, -EINVAL, "trial %lld has ended: %s",
                           (long long)json_integer_value(id), trial_state_name(was));
    }
    if (json_array_size(trials) == 0)
        return err_set(e, -EINVAL, "no trials given");
    record_command(ctx, command);
    for (size_t i = 0; i < json_array_size(trials); i++)
        scheduler_cancel_trial(ctx, all->trials[json_integer_value(json_array_get(trials, i))],
                               now);
    return 0;
}

/* ---- retry ---------------------------------------------------------------------------------- */

static bool has_failed(const struct trial *t)
{
    return t->state == TRIAL_FAILED || t->state == TRIAL_OOM || t->state == TRIAL_INVALID;
}

static int check_retry(const struct sweep_state *all, const json_t *id, struct err *e)
{
    if (check_trial(all, id, e) < 0)
        return -EINVAL;
    json_int_t n = json_integer_value(id);
    enum trial_state was = all->trials[n]->state;
    if (states_next(&trial_states, was, TRIAL_EV_RETRY) >= 0)
        return 0;
    err_set(e, -EINVAL, "trial %lld is %s", (long long)n, trial_state_name(was));
    return err_hint(e, trial_is_ended(was) ? "only failed, oom, invalid and cancelled trials can "
                                             "be retried; 'drover sweep add' tries parameters again"
                                           : "it has not ended");
}

static int on_retry(struct event_context *ctx, const json_t *command, struct err *e)
{
    const struct sweep_state *all = &ctx->s->st;
    const json_t *trials = json_object_get(command, "trials");
    bool failed = false;
    if (json_optional_bool(&failed, command, "failed", e) < 0)
        return -EINVAL;
    AUTO(json) json_t *ids = json_array();
    for (size_t i = 0; failed && i < all->count; i++)
        if (has_failed(all->trials[i]))
            json_array_append_new(ids, json_integer((json_int_t)i));
    for (size_t i = 0; i < json_array_size(trials); i++) {
        if (check_retry(all, json_array_get(trials, i), e) < 0)
            return -EINVAL;
        json_array_append(ids, json_array_get(trials, i));
    }
    if (json_array_size(ids) == 0)
        return err_set(e, -EINVAL, "no trial has failed");
    record_command(ctx, command);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const struct trial *t = all->trials[json_integer_value(json_array_get(ids, i))];
        /* A trial that is named twice is retried once. */
        if (states_next(&trial_states, t->state, TRIAL_EV_RETRY) >= 0)
            scheduler_emit_record(ctx, SCHEDULER_REC_RETRIED, t, t->lease, json_object());
    }
    return 0;
}

/* ---- add ------------------------------------------------------------------------------------ */

static int raise_cap(struct event_context *ctx, const json_t *command, struct err *e)
{
    const struct scheduler *s = ctx->s;
    json_int_t n = json_integer_value(json_object_get(command, "trials"));
    if (s->spec->run_cap == 0) {
        err_set(e, -EINVAL, "the sweep has no run_cap that could be raised");
        return err_hint(e, "it continues until every point of its space is tried");
    }
    if (n < 1 || n > INT_MAX - s->spec->run_cap - s->st.asked.raised)
        return err_set(e, -EINVAL, "cannot add %lld trials", (long long)n);
    record_command(ctx, command);
    return 0;
}

static int on_add(struct event_context *ctx, const json_t *command, struct err *e)
{
    if (json_object_get(command, "trials"))
        return raise_cap(ctx, command, e);
    const json_t *gangs = json_object_get(command, "params");
    AUTO(json) json_t *all = json_array();
    for (size_t i = 0; i < json_array_size(gangs); i++) {
        struct config_node at = config_node_of_json(json_array_get(gangs, i));
        json_t *params = NULL;
        if (space_complete(&params, ctx->s->spec->space, &at, ctx->s->st.count + i, e) < 0)
            return -EINVAL;
        json_array_append_new(all, params);
    }
    if (json_array_size(all) == 0)
        return err_set(e, -EINVAL, "neither 'params' nor 'trials' to add");
    record_command(ctx, command);
    for (size_t i = 0; i < json_array_size(all); i++)
        scheduler_emit_record(
            ctx, SCHEDULER_REC_CREATED, NULL, 0,
            json_pack("{s:O, s:b}", "params", json_array_get(all, i), "added", 1));
    return 0;
}

/* ---- dispatch ------------------------------------------------------------------------------- */

int scheduler_commands_handle(struct event_context *ctx, const json_t *command, struct err *e)
{
    static const struct {
        const char *verb;
        int (*handle)(struct event_context *ctx, const json_t *command, struct err *e);
    } verbs[] = {
        {"stop", on_stop},     {"pause", on_pause}, {"resume", on_resume},
        {"cancel", on_cancel}, {"retry", on_retry}, {"add", on_add},
    };
    const char *id = NULL, *verb = NULL;
    if (json_require_str(&id, command, "ask", e) < 0 ||
        json_require_str(&verb, command, "verb", e) < 0)
        return -EINVAL;
    if (json_object_get(ctx->s->st.commands, id))
        return 0;
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        if (strcmp(verbs[i].verb, verb) == 0)
            return verbs[i].handle(ctx, command, e);
    return err_set(e, -EINVAL, "unknown command '%s'", verb);
}
