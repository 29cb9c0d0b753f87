#include "hpo/stoppers/stopper.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/stoppers/stopper_internal.h"

/* The table of stoppers, in the order of help texts and hints. */
extern const struct stopper_ops stopper_hyperband, stopper_asha, stopper_curve, stopper_median;

static const struct stopper_ops *const rows[] = {
    &stopper_hyperband,
    &stopper_asha,
    &stopper_curve,
    &stopper_median,
};

const char *stopper_row(size_t i, const char **help)
{
    if (i >= COUNT_OF(rows))
        return NULL;
    *help = rows[i]->help;
    return rows[i]->name;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const struct stopper_ops *find_row(const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "type");
    const char *word = json_string_value(at.value), *names[COUNT_OF(rows)];
    if (!json_is_object(n->value) || !word) {
        config_node_error(n, e, "'early_terminate' must be a mapping with a 'type'");
        return NULL;
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        names[i] = rows[i]->name;
        if (strcmp(word, names[i]) == 0)
            return rows[i];
    }
    config_node_error(&at, e, "unknown type '%s' of early_terminate", word);
    config_node_hint(&at, e, "type", word, names, COUNT_OF(names));
    return NULL;
}

int stopper_new(struct stopper **out, const struct config_node *n, const struct outcomes *outcomes,
                struct err *e)
{
    const struct stopper_ops *ops = find_row(n, e);
    if (!ops)
        return -EINVAL;
    const char *keys[STOPPER_KEYS_MAX + 1] = {"type"};
    size_t count = 1;
    for (; ops->keys[count - 1]; count++)
        keys[count] = ops->keys[count - 1];
    AUTO(free) char *where = xasprintf("early_terminate of type %s", ops->name);
    AUTO(stopper) struct stopper *s = xzalloc(sizeof *s);
    s->ops = ops;
    s->outcomes = outcomes;
    if (config_node_only_keys(n, keys, count, where, e) < 0 || ops->read(s, n, e) < 0)
        return -EINVAL;
    *out = TAKE(s);
    return 0;
}

int stopper_check(const struct stopper *s, const struct config_node *n, struct err *e)
{
    struct config_node max = config_node_member(n, "max_iter");
    return s->max_iter && s->max_iter < s->least
               ? config_node_error(&max, e,
                                   "'max_iter' must be %.15g or more: no rung lies within %d",
                                   s->least, s->max_iter)
               : 0;
}

json_t *stopper_json(const struct stopper *s)
{
    json_t *o = json_pack("{s:s}", "type", s->ops->name);
    s->ops->json(s, o);
    return o;
}

/* ---- keys that several stoppers have -------------------------------------------------------- */

static const double eta_min = 1.1;

int stopper_rungs_read(struct stopper_rungs *r, const struct config_node *n, bool close,
                       double standard, struct err *e)
{
    struct config_node at = config_node_member(n, "eta");
    r->eta = standard;
    if (config_node_int(&r->min_iter, n, "min_iter", 1, INT_MAX, e) < 0 ||
        config_node_int(&r->max_iter, n, "max_iter", 1, INT_MAX, e) < 0 ||
        config_node_real(&r->eta, n, "eta", e) < 0)
        return -EINVAL;
    if (!(r->eta > 1))
        return config_node_error(&at, e, "'eta' must be above 1");
    if (close || r->eta >= eta_min)
        return 0;
    config_node_error(&at, e, "'eta' must be %g or more: a smaller one makes thousands of rungs",
                      eta_min);
    return err_hint(e, "eta: %g", standard);
}

void stopper_rungs_json(const struct stopper_rungs *r, json_t *to)
{
    if (r->min_iter)
        json_object_set_new(to, "min_iter", json_integer(r->min_iter));
    if (r->max_iter)
        json_object_set_new(to, "max_iter", json_integer(r->max_iter));
    json_object_set_new(to, "eta", json_real(r->eta));
}

/* ---- judging -------------------------------------------------------------------------------- */

/* Returns the trials that are compared: `all` without those that are done and not feasible. The
 * caller frees `*kept`. */
static struct trial_view compared(const struct stopper *s, const struct trial_view *all,
                                  const struct trial ***kept)
{
    size_t n = 0;
    if (!s->outcomes || s->outcomes->count == 0)
        return *all;
    *kept = xcalloc(all->count + 1, sizeof **kept);
    for (size_t i = 0; i < all->count; i++) {
        const struct trial *t = all->trials[i];
        if (t->state != TRIAL_DONE || outcome_feasible(s->outcomes, t->metrics))
            (*kept)[n++] = t;
    }
    return (struct trial_view){*kept, n};
}

enum stopper_verdict stopper_judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                   const struct trial *t)
{
    AUTO(free) const struct trial **kept = NULL;
    if (!s)
        return STOPPER_CONTINUE;
    struct trial_view these = compared(s, view, &kept);
    return s->ops->judge(s, maximize, &these, t);
}

char *stopper_unused(const struct stopper *s, const struct trial_view *view)
{
    double furthest = -INFINITY;
    int done = 0;
    for (size_t i = 0; s && i < view->count; i++) {
        const struct trial *t = view->trials[i];
        done += t->state == TRIAL_DONE;
        if (t->curve.count > 0)
            furthest =
                fmax(furthest, s->ops->reached ? s->ops->reached(t) : (double)t->curve.count);
    }
    if (!isfinite(furthest)) /* they have reported nothing */
        return NULL;
    if (furthest < s->first)
        return xasprintf("early_terminate had no effect: no trial reached %s %.15g",
                         s->ops->by_steps ? "step" : "report", ceil(s->first));
    if (done < s->min_done)
        return xasprintf("early_terminate had no effect: min_trials is %d, and the number of "
                         "trials that are done is %d",
                         s->min_done, done);
    return NULL;
}

int stopper_resume(const struct stopper *s, bool maximize, const struct trial_view *view, bool last)
{
    AUTO(free) const struct trial **kept = NULL;
    if (!stopper_pauses(s))
        return -1;
    struct trial_view these = compared(s, view, &kept);
    return s->ops->resume(s, maximize, &these, last);
}

bool stopper_pauses(const struct stopper *s)
{
    return s && s->ops->resume;
}

bool stopper_has_memory(const struct stopper *s)
{
    return s && s->ops->has_memory;
}

const char *stopper_name(const struct stopper *s)
{
    return s->ops->name;
}

int stopper_max_iter(const struct stopper *s)
{
    return s ? s->max_iter : 0;
}

int stopper_max_step(const struct stopper *s)
{
    return s && s->ops->by_steps ? s->max_iter : 0;
}

void stopper_free(struct stopper *s)
{
    if (!s)
        return;
    if (s->ops->clear && s->config)
        s->ops->clear(s->config);
    free(s->config);
    free(s);
}
