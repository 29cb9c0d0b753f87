/* scheduler_reports - what the user should know about reports, each said once. */
#include <math.h>

#include "common/json.h"
#include "hpo/scheduler/scheduler_internal.h"
#include "hpo/trial/metric_guess.h"

static void say(struct event_context *ctx, bool *said, char *text)
{
    free(ctx->s->notice);
    ctx->s->notice = text;
    *said = true;
    scheduler_emit_action(ctx, SCHEDULER_ACT_NOTICE, NULL, -1, 0, text);
}

bool scheduler_reports_dropped(struct event_context *ctx, const struct trial *t, const json_t *data)
{
    struct scheduler *s = ctx->s;
    double step = 0;
    (void)json_as_number(&step, json_object_get(data, "step")); /* none is 0 */
    bool beyond = !s->said.step && isfinite(step) && fabs(step) >= STEPS;
    bool unnamed = !beyond && !s->said.unnamed && json_object_get(data, "");
    if (beyond)
        say(ctx, &s->said.step,
            xasprintf("trial %d reports step %.15g, which does not fit in 64 bits: reports without "
                      "a valid step are counted",
                      t->id, step));
    if (unnamed)
        say(ctx, &s->said.unnamed,
            xasprintf("trial %d reports a metric whose name is empty: it is dropped", t->id));
    return beyond || unnamed;
}

/* Returns true if the trial has reported another value of the metric at this step, under its last
 * lease, and a further step since. */
static bool is_again(const struct trial *t, double step, double value)
{
    size_t n = t->points_lease == t->lease ? trial_curve_until(&t->curve, step) : 0;
    return n > 0 && t->curve.points[n - 1].step == step && t->curve.newest != step &&
           t->curve.points[n - 1].value != value;
}

void scheduler_reports_check(struct event_context *ctx, const struct trial *t, double step,
                             const json_t *values)
{
    struct scheduler *s = ctx->s;
    const char *metric = s->spec->metrics[0].name;
    int end = stopper_max_step(s->stopper);
    double value = NAN;
    if (!metric || json_as_number(&value, json_object_get(values, metric)) < 0)
        return;
    if (!s->said.beyond && end > 0 && step > end &&
        trial_curve_until(&t->curve, 0) == t->curve.count)
        say(ctx, &s->said.beyond,
            xasprintf("early_terminate: max_iter is %d, but trial %d reports '%s' first at step "
                      "%.15g, beyond all rungs, so trials cannot be compared on their way; give "
                      "min_iter and max_iter in the steps that are reported, or report steps from "
                      "1 to %d",
                      end, t->id, metric, step, end));
    else if (!s->said.again && isfinite(value) && is_again(t, step, value))
        say(ctx, &s->said.again,
            xasprintf("trial %d reports '%s' again at step %.15g: its best and its last value are "
                      "those of all reports, its curve has the newest report of each step; report "
                      "steps that increase to keep all points",
                      t->id, metric, step));
}

void scheduler_reports_end(struct event_context *ctx, const struct trial *t)
{
    struct scheduler *s = ctx->s;
    const char *metric = outcome_unreported(&s->spec->outcomes, t->metrics);
    if (s->said.unbounded || !metric)
        return;
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "outcome_constraints: trial %d is infeasible: ", t->id);
    metric_guess_unreported(&b, metric, t->metrics);
    say(ctx, &s->said.unbounded, strbuf_take(&b));
}
