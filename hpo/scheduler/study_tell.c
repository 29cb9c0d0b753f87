/* study_tell - the results of trials. All results of a request are read before the first is
 * applied. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "hpo/scheduler/study_internal.h"
#include "hpo/space/space.h"

struct result {
    struct trial *trial; /* NULL: a trial that the study did not suggest */
    json_t *params;      /* if trial is NULL, the parameters of the new trial */
    enum trial_state state;
    double step;
    json_t *values;  /* NULL: none */
    bool has_values; /* of all objectives; false: the values reported before count */
};

struct results {
    struct result *items;
    size_t count;
};

static void results_free(struct results *r)
{
    for (size_t i = 0; i < r->count; i++) {
        json_decref(r->items[i].params);
        json_decref(r->items[i].values);
    }
    free(r->items);
    free(r);
}
AUTO_DEFINE(results, struct results *, results_free)

/* ---- reading -------------------------------------------------------------------------------- */

static int read_state(enum trial_state *out, const struct config_node *n, struct err *e)
{
    static const enum trial_state states[] = {TRIAL_DONE, TRIAL_FAILED, TRIAL_OOM, TRIAL_PRUNED};
    const char *names[COUNT_OF(states)];
    struct config_node at = config_node_member(n, "state");
    const char *word = json_string_value(at.value);
    *out = TRIAL_DONE;
    if (!at.value)
        return 0;
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        names[i] = trial_state_name(states[i]);
        if (word && strcmp(word, names[i]) == 0) {
            *out = states[i];
            return 0;
        }
    }
    config_node_error(&at, e, "unknown state '%s'", word ? word : json_type_name(at.value));
    const char *near = word ? opt_suggest(word, names, COUNT_OF(names)) : NULL;
    return near ? err_hint(e, "\"state\":\"%s\"", near)
                : err_hint(e, "done, failed, oom or pruned");
}

/* Reads `value` and `values` into r->values, which stays NULL if there are none. Sets `*finite` to
 * true if the values of all objectives are finite. */
static int read_values(struct result *r, bool *finite, const struct study *s,
                       const struct config_node *n, struct err *e)
{
    const char *names[SPEC_METRICS_MAX + OUTCOME_MAX];
    struct config_node all = config_node_member(n, "values"), at = s->named ? all : *n;
    size_t objectives = s->objective_count, count = objectives + s->outcomes.count;
    *finite = true;
    for (size_t i = 0; i < count; i++)
        names[i] = i < objectives ? s->names[i] : s->outcomes.at[i - objectives].metric;
    size_t skip = s->named ? 0 : objectives; /* `value` is a member of the result */
    if (all.value && config_node_only_keys(&all, names + skip, count - skip, "values", e) < 0)
        return -EINVAL;
    r->has_values = config_node_has(n, s->named ? "values" : "value");
    if (r->has_values || all.value)
        r->values = json_object();
    for (size_t i = r->has_values ? 0 : objectives; i < count; i++) {
        const struct config_node *from = i < objectives ? &at : &all;
        double x = 0;
        if (i >= objectives && (!all.value || !config_node_has(from, names[i])))
            continue; /* the trial is not known to be feasible */
        if (study_read_value(&x, from, names[i], e) < 0)
            return -EINVAL;
        *finite = *finite && (i >= objectives || isfinite(x));
        json_object_set_new(r->values, names[i], json_number(x));
    }
    return 0;
}

/* Checks that a done or pruned trial has a value, either in the result or in an earlier report. If
 * the value is not finite, the state becomes failed. */
static int check_value(struct result *r, bool finite, const struct study *s,
                       const struct config_node *n, struct err *e)
{
    const struct trial *t = r->trial;
    bool reported = t && t->points_lease;
    if (!r->has_values && reported && (s->objective_count == 1 || r->state == TRIAL_PRUNED)) {
        finite = !t->diverged;
    } else if (!r->has_values) {
        const char *key = s->named ? "values" : "value";
        config_node_error(n, e, "'%s' is missing", key);
        return err_hint(e, "\"%s\":…, or \"state\":\"failed\"", key);
    }
    if (!finite) {
        r->state = TRIAL_FAILED;
        return 0;
    }
    if (isnan(r->step)) {
        config_node_error(n, e, "'step' is missing: a pruned trial needs the step of its value");
        return err_hint(e, "\"step\":9");
    }
    if (!reported || r->step >= t->last_step)
        return 0;
    return config_node_error(n, e, "trial %d has reported step %.15g and cannot end at step %.15g",
                             t->id, t->last_step, r->step);
}

/* Reads the trial that the result is for: `id` names a suggested trial; `params` describes a trial
 * that the study did not suggest. */
static int read_trial(struct result *r, const struct study *s, const struct config_node *n,
                      json_t *seen, struct err *e)
{
    struct config_node params = config_node_member(n, "params"), id = config_node_member(n, "id");
    if (!id.value == !params.value) {
        config_node_error(n, e, "a result has either 'id' or 'params'");
        return err_hint(e, "{\"id\":0,\"value\":1.5}");
    }
    if (params.value)
        return space_params(&r->params, s->space, &params, e);
    r->trial = study_find_trial(s, n, TRIAL_EV_END, e);
    if (!r->trial)
        return -EINVAL;
    char key[16];
    snprintf(key, sizeof key, "%d", r->trial->id);
    if (json_object_get(seen, key))
        return config_node_error(&id, e, "trial %s has two results", key);
    json_object_set_new(seen, key, json_null());
    return 0;
}

static int read_result(struct result *r, const struct study *s, const struct config_node *n,
                       json_t *seen, struct err *e)
{
    const char *const keys[] = {"id",    "params", "state", "step", s->named ? "values" : "value",
                                "values"};
    size_t count = COUNT_OF(keys) - (s->outcomes.count == 0);
    if (config_node_only_keys(n, keys, count, "a result", e) < 0 ||
        read_trial(r, s, n, seen, e) < 0 || read_state(&r->state, n, e) < 0)
        return -EINVAL;
    const struct trial *t = r->trial;
    bool finite = true;
    r->step = t && t->points_lease ? t->last_step : r->state == TRIAL_PRUNED ? NAN : 0;
    if (study_read_step(&r->step, n, e) < 0 || read_values(r, &finite, s, n, e) < 0)
        return -EINVAL;
    bool failed = r->state == TRIAL_FAILED || r->state == TRIAL_OOM;
    return failed ? 0 : check_value(r, finite, s, n, e);
}

/* ---- all or nothing ------------------------------------------------------------------------- */

static void apply(struct study *s, const struct result *r)
{
    struct trial *t = r->trial ? r->trial : study_add_trial(s, r->params);
    if (r->values && (r->state == TRIAL_DONE || r->state == TRIAL_PRUNED))
        trial_report(t, r->step, r->values, s->objectives[0].metric, s->objectives[0].maximize);
    t->state = r->state;
    t->end_order = ++s->ended_count;
}

json_t *study_tell(struct study *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"op", "results"};
    struct config_node list = config_node_member(n, "results");
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "tell", e) < 0)
        return NULL;
    if (!json_is_array(list.value)) {
        config_node_error(n, e, "'results' must be a list, not %s", json_type_name(list.value));
        err_hint(e, "{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":1.5}]}");
        return NULL;
    }
    AUTO(results) struct results *all = xzalloc(sizeof *all);
    AUTO(json) json_t *seen = json_object(); /* a set of ids */
    size_t count = json_array_size(list.value);
    all->items = xcalloc(count + 1, sizeof *all->items);
    for (size_t i = 0; i < count; i++) {
        struct config_node at = config_node_item(&list, i);
        all->count++;
        if (read_result(&all->items[i], s, &at, seen, e) < 0)
            return NULL;
    }
    AUTO(json) json_t *ids = json_array();
    for (size_t i = 0; i < count; i++) {
        if (!all->items[i].trial)
            json_array_append_new(ids, json_integer((json_int_t)s->count));
        apply(s, &all->items[i]);
    }
    return json_array_size(ids) > 0 ? json_pack("{s:b, s:O}", "ok", 1, "ids", ids)
                                    : json_pack("{s:b}", "ok", 1);
}
