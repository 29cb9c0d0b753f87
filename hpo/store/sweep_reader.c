#include "hpo/store/sweep_reader.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/yaml.h"
#include "hpo/samplers/sweep_analysis.h"
#include "hpo/spec/trial_command.h"
#include "hpo/trial/metric_parse.h"

int view_spec(struct spec **out, const char *text, const char *name, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    AUTO(spec) struct spec *s = NULL;
    int rc = yaml_read(&doc, text, strlen(text), name, e);
    if (rc == 0)
        rc = spec_read(&s, doc, e);
    if (rc < 0)
        return rc;
    rc = command_check(s->command, s->program, e);
    if (rc < 0)
        return err_wrap(e, "%s", name);
    for (int i = 0; i < s->metric_count; i++) {
        AUTO(metric) struct metric *m = NULL;
        AUTO(json)
        json_t *one = json_pack("{s:s*}", s->metrics[i].name, s->metrics[i].pattern);
        AUTO(free)
        char *path =
            s->metric_count == 1 ? xstrdup("/metric/pattern") : xasprintf("/metrics/%d/pattern", i);
        struct err why = {0};
        rc = metric_new(&m, one, &why);
        if (rc < 0)
            return yaml_error_at(doc, path, e, rc, "%s", why.text);
    }
    *out = TAKE(s);
    return 0;
}

void view_settle(struct spec *s, const struct sweepdir *d)
{
    s->seed = d->seed;
    json_array_extend(s->prior, json_object_get(d->prior, "observations"));
}

static int replay_one(void *arg, const struct sched_record *r, int64_t msg, struct err *e)
{
    return sched_replay(arg, r, e);
}

/* Whether there is anything left to do: only an event makes the scheduler ask itself. What follows
 * from it is not stored. */
static int look_ahead(struct view *v, struct err *e)
{
    struct sched_out out = {0};
    int rc = sched_step(v->sched, &(struct sched_event){.kind = SCHED_EV_TICK}, 0, &out, e);
    sched_out_free(&out);
    return rc;
}

/* What is stored in v->dir. */
static int load(struct view *v, struct err *e)
{
    int rc = view_spec(&v->spec, v->dir->file, "sweep.yaml", e);
    if (rc < 0)
        return rc;
    view_settle(v->spec, v->dir);
    rc = sched_new(&v->sched, v->spec, e);
    if (rc == 0)
        rc = store_replay(v->dir->store, replay_one, v->sched, e);
    if (rc == 0)
        sched_replayed(v->sched, 0);
    return rc;
}

int view_hold(struct view **out, const char *root, const char *name, struct err *e)
{
    AUTO(view) struct view *v = xzalloc(sizeof *v);
    const struct sweepdir_ask ask = {.root = root, .name = name, .must_exist = true};
    int rc = sweepdir_open(&v->dir, &ask, e);
    if (rc == 0)
        rc = load(v, e);
    if (rc < 0)
        return rc;
    *out = TAKE(v);
    return 0;
}

int view_open(struct view **out, const char *root, const char *name, struct err *e)
{
    AUTO(view) struct view *v = xzalloc(sizeof *v);
    int rc = sweepdir_read(&v->dir, root, name, e);
    if (rc == 0)
        rc = load(v, e);
    if (rc == 0)
        rc = look_ahead(v, e);
    if (rc < 0)
        return rc;
    *out = TAKE(v);
    return 0;
}

void view_close(struct view *v)
{
    if (!v)
        return;
    sched_free(v->sched);
    spec_free(v->spec);
    sweepdir_close(v->dir);
    free(v);
}

json_t *view_trials(const struct view *v)
{
    json_t *list = json_array();
    for (int i = 0; i < sched_trial_count(v->sched); i++)
        json_array_append_new(list, sched_trial_json(v->sched, i));
    return list;
}

static void count_one(json_t *counts, const char *worker)
{
    json_int_t n = json_integer_value(json_object_get(counts, worker));
    json_object_set_new(counts, worker, json_integer(n + 1));
}

/* How many trials each worker runs, or holds places for: an object, by its id. */
static json_t *count_running(const struct view *v)
{
    json_t *counts = json_object();
    struct trial_view all = sched_view(v->sched);
    for (size_t i = 0; i < all.count; i++) {
        const struct trial *t = all.trials[i];
        if (!trial_out(t->state) || !t->worker)
            continue;
        count_one(counts, t->worker);
        for (size_t k = 0; k < json_array_size(t->with); k++)
            count_one(counts, json_string_value(json_array_get(t->with, k)));
    }
    return counts;
}

json_t *view_workers(const struct view *v)
{
    json_t *list = sweepdir_workers(v->dir), *w;
    AUTO(json) json_t *counts = count_running(v);
    size_t i;
    json_array_foreach (list, i, w) {
        const char *id = json_string_value(json_object_get(w, "id"));
        json_int_t n = id ? json_integer_value(json_object_get(counts, id)) : 0;
        json_object_set_new(w, "running", json_integer(n));
    }
    return list;
}

const char *view_state(const struct view *v)
{
    bool busy = sweepdir_owner(v->dir).held;
    if (sched_stopped(v->sched))
        return "stopped";
    if (sched_over(v->sched) && !busy)
        return "finished";
    return sched_paused(v->sched) ? "paused" : busy ? "running" : "stopped";
}

json_t *view_importance(const struct view *v)
{
    struct sampler_goal goals[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, goals, v->spec);
    struct trial_view trials = sched_view(v->sched);
    return task.goal_count > 0 ? insight_importance(task.space, goals, &trials) : json_null();
}

json_t *view_pareto(const struct view *v)
{
    struct sampler_goal goals[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, goals, v->spec);
    struct trial_view trials = sched_view(v->sched);
    return task.goal_count > 1 ? insight_front(goals, task.goal_count, &trials) : NULL;
}

json_t *view_json(const struct view *v)
{
    json_t *trials = view_trials(v), *best = json_null();
    const json_t *t = json_array_get(trials, (size_t)sched_choice(v->sched)); /* -1: none */
    if (t)
        best = json_pack("{s:O,s:O,s:O}", "id", json_object_get(t, "id"), "value",
                         json_object_get(t, "value"), "params", json_object_get(t, "params"));
    return json_pack("{s:s,s:s,s:s,s:o,s:o*,s:o,s:o,s:o}", "name", v->dir->name, "method",
                     spec_method_name(v->spec->method), "state", view_state(v), "best", best,
                     "pareto", view_pareto(v), "importance", view_importance(v), "trials", trials,
                     "workers", view_workers(v));
}
