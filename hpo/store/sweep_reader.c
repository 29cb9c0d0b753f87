#include "hpo/store/sweep_reader.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/yaml.h"
#include "hpo/samplers/sweep_analysis.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/spec/trial_command.h"
#include "hpo/trial/metric_parse.h"

int sweep_reader_spec(struct spec **out, const char *text, const char *name, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    AUTO(spec) struct spec *s = NULL;
    int rc = yaml_read(&doc, text, strlen(text), name, "command", e);
    if (rc == 0)
        rc = sweep_file_read(&s, doc, e);
    if (rc < 0)
        return rc;
    rc = trial_command_check(s->command, s->program, e);
    if (rc < 0)
        return err_wrap(e, "%s", name);
    for (int i = 0; i < s->metric_count; i++) {
        AUTO(metric_parse) struct metric_parse *m = NULL;
        AUTO(json)
        json_t *one = json_pack("{s:s*}", s->metrics[i].name, s->metrics[i].pattern);
        AUTO(free)
        char *path =
            s->metric_count == 1 ? xstrdup("/metric/pattern") : xasprintf("/metrics/%d/pattern", i);
        struct err why = {0};
        rc = metric_parse_new(&m, one, &why);
        if (rc < 0)
            return yaml_error_at(doc, path, e, rc, "%s", why.text);
    }
    *out = TAKE(s);
    return 0;
}

void sweep_reader_apply_stored(struct spec *s, const struct sweep_dir *d)
{
    s->seed = d->seed;
    json_array_extend(s->warm_start, json_object_get(d->prior, "observations"));
}

static int replay_one(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    return scheduler_replay(arg, r, e);
}

/* Lets the scheduler decide whether the sweep is done, which it does only on an event. The records
 * that follow are not stored. */
static int update_done(struct sweep_reader *v, struct err *e)
{
    struct scheduler_out out = {0};
    int rc = scheduler_handle(v->sched, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0,
                              &out, e);
    scheduler_out_free(&out);
    return rc;
}

/* Loads spec and scheduler from v->dir. */
static int load(struct sweep_reader *v, struct err *e)
{
    int rc = sweep_reader_spec(&v->spec, v->dir->file, "sweep.yaml", e);
    if (rc < 0)
        return rc;
    sweep_reader_apply_stored(v->spec, v->dir);
    rc = scheduler_new(&v->sched, v->spec, e);
    if (rc == 0)
        rc = event_store_replay(v->dir->store, replay_one, v->sched, e);
    if (rc == 0)
        scheduler_replayed(v->sched, 0);
    return rc;
}

int sweep_reader_open_locked(struct sweep_reader **out, const char *root, const char *name,
                             struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *v = xzalloc(sizeof *v);
    const struct sweep_dir_opts opts = {.root = root, .name = name, .must_exist = true};
    int rc = sweep_dir_open(&v->dir, &opts, e);
    if (rc == 0)
        rc = load(v, e);
    if (rc < 0)
        return rc;
    *out = TAKE(v);
    return 0;
}

int sweep_reader_open(struct sweep_reader **out, const char *root, const char *name, struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *v = xzalloc(sizeof *v);
    int rc = sweep_dir_read(&v->dir, root, name, e);
    if (rc == 0)
        rc = load(v, e);
    if (rc == 0)
        rc = update_done(v, e);
    if (rc < 0)
        return rc;
    *out = TAKE(v);
    return 0;
}

void sweep_reader_close(struct sweep_reader *v)
{
    if (!v)
        return;
    scheduler_free(v->sched);
    spec_free(v->spec);
    sweep_dir_close(v->dir);
    free(v);
}

json_t *sweep_reader_trials(const struct sweep_reader *v)
{
    json_t *list = json_array();
    for (int i = 0; i < scheduler_trial_count(v->sched); i++)
        json_array_append_new(list, scheduler_trial_json(v->sched, i));
    return list;
}

static void count_one(json_t *counts, const char *worker)
{
    json_int_t n = json_integer_value(json_object_get(counts, worker));
    json_object_set_new(counts, worker, json_integer(n + 1));
}

/* The number of trials that each worker runs or has a reservation for: {worker id: number}. */
static json_t *count_running(const struct sweep_reader *v)
{
    json_t *counts = json_object();
    struct trial_view all = scheduler_view(v->sched);
    for (size_t i = 0; i < all.count; i++) {
        const struct trial *t = all.trials[i];
        if (!trial_is_active(t->state) || !t->worker)
            continue;
        count_one(counts, t->worker);
        for (size_t k = 0; k < json_array_size(t->gang_workers); k++)
            count_one(counts, json_string_value(json_array_get(t->gang_workers, k)));
    }
    return counts;
}

json_t *sweep_reader_workers(const struct sweep_reader *v)
{
    json_t *list = sweep_dir_workers(v->dir), *w;
    AUTO(json) json_t *counts = count_running(v);
    size_t i;
    json_array_foreach (list, i, w) {
        const char *id = json_string_value(json_object_get(w, "id"));
        json_int_t n = id ? json_integer_value(json_object_get(counts, id)) : 0;
        json_object_set_new(w, "running", json_integer(n));
    }
    return list;
}

const char *sweep_reader_state(const struct sweep_reader *v)
{
    bool coordinated = sweep_dir_owner(v->dir).held;
    if (scheduler_is_stopped(v->sched))
        return "stopped";
    if (scheduler_is_done(v->sched) && !coordinated)
        return "finished";
    return scheduler_is_paused(v->sched) ? "paused" : coordinated ? "running" : "stopped";
}

json_t *sweep_reader_importance(const struct sweep_reader *v)
{
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, objectives, v->spec, NULL);
    struct trial_view trials = scheduler_view(v->sched);
    return task.objective_count > 0 ? sweep_analysis_importance(task.space, objectives, &trials)
                                    : json_null();
}

json_t *sweep_reader_pareto(const struct sweep_reader *v)
{
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, objectives, v->spec, NULL);
    struct trial_view trials = scheduler_view(v->sched);
    return task.objective_count > 1
               ? sweep_analysis_front(objectives, task.objective_count, &trials)
               : NULL;
}

json_t *sweep_reader_json(const struct sweep_reader *v)
{
    json_t *trials = sweep_reader_trials(v), *best = json_null();
    const json_t *t =
        json_array_get(trials, (size_t)scheduler_recommended(v->sched)); /* -1: none */
    if (t)
        best = json_pack("{s:O,s:O,s:O}", "id", json_object_get(t, "id"), "value",
                         json_object_get(t, "value"), "params", json_object_get(t, "params"));
    return json_pack("{s:s,s:s,s:s,s:o,s:o*,s:o,s:o,s:o}", "name", v->dir->name, "method",
                     v->spec->method->name, "state", sweep_reader_state(v), "best", best, "pareto",
                     sweep_reader_pareto(v), "importance", sweep_reader_importance(v), "trials",
                     trials, "workers", sweep_reader_workers(v));
}
