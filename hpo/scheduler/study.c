#include "hpo/scheduler/study.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "hpo/samplers/sweep_analysis.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/scheduler/study_internal.h"
#include "hpo/space/space.h"
#include "hpo/spec/spec_outcomes.h"

enum { ASK_MAX = 100000 };

void study_free(struct study *s)
{
    if (!s)
        return;
    sampler_free(s->sampler);
    stopper_free(s->stopper);
    for (size_t i = 0; i < s->count; i++)
        trial_free(s->trials[i]);
    free(s->trials);
    space_free(s->space);
    strv_free(s->names);
    outcome_clear(&s->outcomes);
    free(s);
}

/* ---- init ----------------------------------------------------------------------------------- */

static int read_method(const struct spec_method **out, const struct config_node *n, struct err *e)
{
    AUTO(json) json_t *bayes = json_string("bayes"); /* the default */
    struct config_node at = config_node_member(n, "method");
    if (!at.value)
        at.value = bayes;
    return sweep_file_method(out, &at, e);
}

static int read_goal(struct sampler_objective *g, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "goal");
    const char *word = json_string_value(at.value);
    if (!at.value || (word && strcmp(word, "minimize") == 0))
        return 0;
    g->maximize = word && strcmp(word, "maximize") == 0;
    if (g->maximize)
        return 0;
    config_node_error(&at, e, "'goal' must be minimize or maximize, not %s",
                      word ? word : json_type_name(at.value));
    return err_hint(e, "\"goal\":\"%s\"",
                    word && word[0] == 'm' && word[1] == 'a' ? "maximize" : "minimize");
}

static int add_goal(struct study *s, const char *name, const struct config_node *n, struct err *e)
{
    for (size_t i = 0; i < s->objective_count; i++)
        if (strcmp(s->names[i], name) == 0)
            return config_node_error(n, e, "the objective '%s' is given twice", name);
    /* the last value of a trial counts */
    struct sampler_objective g = {.last = true};
    if (read_goal(&g, n, e) < 0)
        return -EINVAL;
    strv_push(&s->names, xstrdup(name));
    g.metric = s->names[s->objective_count];
    s->objectives[s->objective_count++] = g;
    return 0;
}

static int read_goals(struct study *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"name", "goal"};
    struct config_node list = config_node_member(n, "metrics");
    size_t count = json_array_size(list.value);
    s->named = list.value != NULL;
    if (!s->named)
        return add_goal(s, "value", n, e);
    if (count < 1 || count > SPEC_METRICS_MAX)
        return config_node_error(&list, e, "'metrics' must be a list of 1 to %d objectives",
                                 SPEC_METRICS_MAX);
    if (config_node_has(n, "goal"))
        return config_node_error(n, e, "with 'metrics', 'goal' belongs into each of its items");
    for (size_t i = 0; i < count; i++) {
        struct config_node at = config_node_item(&list, i);
        AUTO(free) char *name = NULL;
        if (config_node_only_keys(&at, keys, COUNT_OF(keys), "an objective", e) < 0 ||
            config_node_text(&name, &at, "name", e) < 0)
            return -EINVAL;
        if (!name || !name[0])
            return config_node_error(&at, e, "the objective's 'name' is missing");
        if (add_goal(s, name, &at, e) < 0)
            return -EINVAL;
    }
    return 0;
}

static int read_space(struct study *s, const struct spec_method *method,
                      const struct config_node *n, char ***notices, struct err *e)
{
    struct config_node at = config_node_member(n, "space"), when = config_node_member(n, "when"),
                       constraints = config_node_member(n, "constraints");
    if (!json_is_array(at.value) && !json_is_object(at.value)) {
        config_node_error(&at, e, "'space' must be a list of parameters, or a mapping, not %s",
                          json_type_name(at.value));
        return err_hint(e, "\"space\":[{\"name\":\"lr\",\"type\":\"float\",\"low\":1e-5,"
                           "\"high\":0.1,\"log\":true}]");
    }
    if (json_is_array(at.value) ? space_read_list(&s->space, &at, e) < 0
                                : space_read(&s->space, &at, method->needs_grid, notices, e) < 0)
        return -EINVAL;
    if ((when.value && space_add_conditions(s->space, &when, e) < 0) ||
        (constraints.value && space_add_constraints(s->space, &constraints, e) < 0))
        return -EINVAL;
    if (!method->needs_grid || isfinite(space_count(s->space)))
        return 0;
    config_node_error(&at, e, "method %s has no points for a parameter of type float",
                      method->name);
    return err_hint(e, "\"type\":\"int\" or \"cat\"; or another method");
}

static int read_seed(uint64_t *out, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "seed");
    if (at.value && (!json_is_integer(at.value) || json_integer_value(at.value) < 0))
        return config_node_error(&at, e, "'seed' must be an integer of 0 or more");
    *out = (uint64_t)json_integer_value(at.value);
    return 0;
}

static int read_stop(struct study *s, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "early_terminate");
    int rc = at.value ? stopper_new(&s->stopper, &at, &s->outcomes, e) : 0;
    return rc == 0 && s->stopper ? stopper_check(s->stopper, &at, e) : rc;
}

static json_t *init(struct study **out, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"op",
                                       "space",
                                       "seed",
                                       "budget",
                                       "batch",
                                       "goal",
                                       "method",
                                       "metrics",
                                       "repeats",
                                       "when",
                                       "constraints",
                                       "early_terminate",
                                       "outcome_constraints"};
    AUTO(study) struct study *s = xzalloc(sizeof *s);
    AUTO(strv) char **notices = NULL;
    const struct spec_method *method = NULL;
    s->task =
        (struct sampler_task){.repeats = 1, .objectives = s->objectives, .outcomes = &s->outcomes};
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "init", e) < 0 ||
        read_method(&method, n, e) < 0 || read_space(s, method, n, &notices, e) < 0 ||
        read_goals(s, n, e) < 0 || read_seed(&s->task.seed, n, e) < 0 ||
        config_node_int(&s->task.budget, n, "budget", 1, INT_MAX, e) < 0 ||
        config_node_int(&s->task.batch, n, "batch", 1, INT_MAX, e) < 0 ||
        config_node_int(&s->task.repeats, n, "repeats", 1, INT_MAX, e) < 0 ||
        spec_outcomes_read(&s->outcomes, n, e) < 0 || read_stop(s, n, e) < 0)
        return NULL;
    s->task.space = s->space;
    s->task.objective_count = s->objective_count;
    s->task.max_iter = stopper_max_iter(s->stopper);
    s->sampler = sampler_new(sampler_of(method), &s->task);
    *out = TAKE(s);
    json_t *reply = json_pack("{s:b}", "ok", 1);
    for (size_t i = 0; i < strv_len(notices); i++) {
        if (i == 0)
            json_object_set_new(reply, "notices", json_array());
        json_array_append_new(json_object_get(reply, "notices"), json_string(notices[i]));
    }
    return reply;
}

/* ---- trials --------------------------------------------------------------------------------- */

struct trial *study_add_trial(struct study *s, json_t *params)
{
    s->trials = xgrow(s->trials, s->count, sizeof *s->trials);
    struct trial *t = s->trials[s->count] = trial_new((int)s->count, params, 0);
    s->count++;
    return t;
}

static struct trial_view view_of(const struct study *s)
{
    return (struct trial_view){(const struct trial *const *)s->trials, s->count};
}

static void apply_event(struct trial *t, enum trial_event ev)
{
    t->state = (enum trial_state)states_next(&trial_states, t->state, ev);
}

struct trial *study_find_trial(const struct study *s, const struct config_node *n,
                               enum trial_event ev, struct err *e)
{
    struct config_node at = config_node_member(n, "id");
    int id = -1;
    if (!at.value)
        config_node_error(n, e, "'id' is missing");
    if (!at.value || config_node_int(&id, n, "id", 0, INT_MAX, e) < 0)
        return NULL;
    if ((size_t)id >= s->count) {
        config_node_error(&at, e, "there is no trial %d", id);
        return NULL;
    }
    struct trial *t = s->trials[id];
    /* A paused trial cannot report: requests and replies alternate, so no report can be late. */
    bool late_report = t->state == TRIAL_PAUSED && ev == TRIAL_EV_REPORT;
    if (states_next(&trial_states, t->state, ev) >= 0 && !late_report)
        return t;
    if (trial_is_ended(t->state)) {
        config_node_error(&at, e, "trial %d has already ended (%s)", id,
                          trial_state_name(t->state));
    } else {
        config_node_error(&at, e, "trial %d is %s", id, trial_state_name(t->state));
        err_hint(e, "continue it after an ask has returned \"resume\":%d", id);
    }
    return NULL;
}

int study_read_step(double *out, const struct config_node *n, struct err *e)
{
    if (config_node_real(out, n, "step", e) < 0)
        return -EINVAL;
    struct config_node at = config_node_member(n, "step");
    return at.value && *out < 0 ? config_node_error(&at, e, "'step' must not be negative") : 0;
}

int study_read_value(double *out, const struct config_node *n, const char *key, struct err *e)
{
    struct config_node at = config_node_member(n, key);
    if (!at.value)
        return config_node_error(n, e, "'%s' is missing", key);
    if (json_as_number(out, at.value) == 0)
        return 0;
    config_node_error(&at, e, "'%s' must be a number, not %s", key, json_type_name(at.value));
    return err_hint(e, "a number, \"nan\", \"inf\" or \"-inf\"");
}

/* ---- ask ------------------------------------------------------------------------------------ */

/* Resumes the paused trial that stopper_resume() selects. Returns its id, or -1 if there is none.
 */
static int resume(struct study *s, bool last)
{
    struct trial_view view = view_of(s);
    int id = stopper_resume(s->stopper, s->objectives[0].maximize, &view, last);
    if (id < 0)
        return -1;
    struct trial *t = s->trials[id];
    apply_event(t, TRIAL_EV_LEASE);
    t->lease++;
    /* A trial is paused after a report, so it has a point. */
    t->resumed_at = t->curve.points[t->curve.count - 1].step;
    return id;
}

static json_t *ask(struct study *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"op", "n"};
    int requested = 1;
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "ask", e) < 0 ||
        config_node_int(&requested, n, "n", 1, ASK_MAX, e) < 0)
        return NULL;
    int resumed = resume(s, false);
    json_t *list = json_array(), *reply = json_pack("{s:o}", "trials", list);
    struct trial_view before = view_of(s);
    AUTO(free) char *note = sampler_note(s->sampler, &before);
    if (note)
        json_object_set_new(reply, "note", json_string(note));
    for (int i = resumed >= 0; i < requested; i++) {
        struct trial_view view = view_of(s);
        AUTO(json) json_t *params = sampler_next(s->sampler, &view);
        if (!params) {
            json_object_set_new(reply, "exhausted", json_true());
            if (resumed < 0)
                resumed = resume(s, true);
            break;
        }
        struct trial *t = study_add_trial(s, params);
        apply_event(t, TRIAL_EV_LEASE);
        t->lease = 1;
        json_array_append_new(list, json_pack("{s:i, s:O}", "id", t->id, "params", params));
    }
    if (resumed >= 0)
        json_object_set_new(reply, "resume", json_integer(resumed));
    return reply;
}

/* ---- report --------------------------------------------------------------------------------- */

static json_t *report(struct study *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"op", "id", "step", "value"};
    static const char *const words[] = {
        [STOPPER_CONTINUE] = "go", [STOPPER_STOP] = "stop", [STOPPER_PAUSE] = "pause"};
    const struct sampler_objective *g = &s->objectives[0];
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "report", e) < 0)
        return NULL;
    struct trial *t = study_find_trial(s, n, TRIAL_EV_REPORT, e);
    if (!t)
        return NULL;
    double value = 0, step = t->points_lease ? t->last_step + 1 : 0;
    if (study_read_step(&step, n, e) < 0 || study_read_value(&value, n, "value", e) < 0)
        return NULL;
    AUTO(json) json_t *values = json_pack("{s:o}", g->metric, json_number(value));
    trial_report(t, step, values, g->metric, g->maximize);
    apply_event(t, TRIAL_EV_REPORT);
    struct trial_view view = view_of(s);
    enum stopper_verdict v = t->state == TRIAL_STOPPING
                                 ? STOPPER_STOP
                                 : stopper_judge(s->stopper, g->maximize, &view, t);
    if (v == STOPPER_STOP && t->state != TRIAL_STOPPING)
        apply_event(t, TRIAL_EV_STOP);
    if (v == STOPPER_PAUSE) { /* the study runs no process whose end it must wait for */
        apply_event(t, TRIAL_EV_PAUSE);
        apply_event(t, TRIAL_EV_PAUSED);
    }
    return json_pack("{s:s}", "action", words[v]);
}

/* ---- best ----------------------------------------------------------------------------------- */

/* Returns {"id","params","value"} (new reference). If objectives have names, "values" replaces
 * "value" and has a member per objective. */
static json_t *trial_json(const struct study *s, const struct trial *t)
{
    double y[SPEC_METRICS_MAX] = {0};
    sampler_values(s->objectives, s->objective_count, t, y);
    json_t *o = json_pack("{s:i, s:O}", "id", t->id, "params", t->params);
    json_t *to = s->named ? json_object() : o;
    for (size_t i = 0; i < s->objective_count; i++)
        json_object_set_new(to, s->names[i], json_real(s->objectives[i].maximize ? -y[i] : y[i]));
    if (s->named)
        json_object_set_new(o, "values", to);
    return o;
}

/* Returns the best trial by the first objective: the sampler's recommended trial or, if it has
 * none, the feasible trial with the best value. Returns NULL if there is none. */
static const struct trial *best_trial(struct study *s)
{
    const struct trial *best = NULL;
    double least = INFINITY, y = 0;
    struct trial_view view = view_of(s);
    int chosen = sampler_best(s->sampler, &view);
    if (chosen >= 0)
        return s->trials[chosen];
    for (size_t i = 0; i < s->count; i++) {
        const struct trial *t = s->trials[i];
        if (!trial_has_signal(t->state) || !sampler_values(s->objectives, 1, t, &y) || y >= least ||
            !outcome_feasible(&s->outcomes, t->metrics))
            continue;
        best = t;
        least = y;
    }
    return best;
}

static json_t *best(struct study *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"op"};
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "best", e) < 0)
        return NULL;
    if (!s->named) {
        const struct trial *t = best_trial(s);
        return json_pack("{s:o?}", "best", t ? trial_json(s, t) : NULL);
    }
    struct trial_view view = view_of(s);
    AUTO(json) json_t *front = sweep_analysis_front(&s->task, &view);
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(front); i++)
        json_array_append_new(
            list, trial_json(s, s->trials[json_integer_value(json_array_get(front, i))]));
    return json_pack("{s:o}", "pareto", list);
}

/* ---- requests ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    json_t *(*run)(struct study *s, const struct config_node *n, struct err *e); /* NULL: init() */
} ops[] = {
    {"init", NULL}, {"ask", ask}, {"tell", study_tell}, {"report", report}, {"best", best},
};

static int find_op(size_t *out, const struct config_node *n, struct err *e)
{
    const char *names[COUNT_OF(ops)];
    struct config_node at = config_node_member(n, "op");
    const char *word = json_string_value(at.value);
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        names[i] = ops[i].name;
        if (word && strcmp(word, names[i]) == 0) {
            *out = i;
            return 0;
        }
    }
    if (!json_is_object(n->value))
        config_node_error(n, e, "a request must be a mapping, not %s", json_type_name(n->value));
    else if (word)
        config_node_error(&at, e, "unknown op '%s'", word);
    else
        config_node_error(n, e, "'op' must be a word, not %s", json_type_name(at.value));
    const char *near = word ? opt_suggest(word, names, COUNT_OF(names)) : NULL;
    return near ? err_hint(e, "\"op\":\"%s\"", near)
                : err_hint(e, "init, ask, tell, report or best");
}

json_t *study_answer(struct study **s, const json_t *request, struct err *e)
{
    struct config_node n = config_node_of_json(request);
    size_t op = 0;
    if (find_op(&op, &n, e) < 0)
        return NULL;
    if (!*s && ops[op].run) {
        err_set(e, -EINVAL, "'%s' before init", ops[op].name);
        err_hint(e, "{\"op\":\"init\",\"space\":[…]}");
        return NULL;
    }
    if (*s && !ops[op].run) {
        err_set(e, -EINVAL, "init was already sent: one process runs one search");
        return NULL;
    }
    return ops[op].run ? ops[op].run(*s, &n, e) : init(s, &n, e);
}
