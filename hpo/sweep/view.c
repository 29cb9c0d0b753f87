#include "hpo/sweep/view.h"

#include <errno.h>
#include <string.h>

#include "common/yaml.h"
#include "hpo/search/command.h"
#include "hpo/sweep/metric.h"

int view_spec(struct spec **out, const char *text, const char *name, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    AUTO(spec) struct spec *s = NULL;
    AUTO(metric) struct metric *m = NULL;
    int rc = yaml_read(&doc, text, strlen(text), name, e);
    if (rc == 0)
        rc = spec_read(&s, doc, e);
    if (rc < 0)
        return rc;
    rc = command_check(s->command, s->program, e);
    if (rc < 0)
        return err_wrap(e, "%s", name);
    struct err why = {0};
    rc = metric_new(&m, s->metric.name, s->metric.pattern, &why);
    if (rc < 0)
        return yaml_error_at(doc, "/metric/pattern", e, rc, "%s", why.text);
    *out = TAKE(s);
    return 0;
}

static int replay_one(void *arg, const struct sched_record *r, int64_t msg, struct err *e)
{
    return sched_replay(arg, r, e);
}

int view_open(struct view **out, const char *root, const char *name, struct err *e)
{
    AUTO(view) struct view *v = xzalloc(sizeof *v);
    int rc = sweepdir_read(&v->dir, root, name, e);
    if (rc == 0)
        rc = view_spec(&v->spec, v->dir->file, "sweep.yaml", e);
    if (rc == 0) {
        v->spec->seed = v->dir->seed;
        rc = sched_new(&v->sched, v->spec, e);
    }
    if (rc == 0)
        rc = store_replay(v->dir->store, replay_one, v->sched, e);
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

json_t *view_trials(const struct sched *s)
{
    json_t *list = json_array();
    for (int i = 0; i < sched_trial_count(s); i++)
        json_array_append_new(list, sched_trial_json(s, i));
    return list;
}

json_t *view_json(const char *name, const struct spec *spec, const struct sched *s, bool running)
{
    const char *state = running ? "running" : sched_over(s) ? "finished" : "stopped";
    json_t *trials = view_trials(s), *best = json_null();
    const json_t *t = json_array_get(trials, (size_t)sched_best(s)); /* -1 is beyond any */
    if (t)
        best = json_pack("{s:O,s:O,s:O}", "id", json_object_get(t, "id"), "value",
                         json_object_get(t, "value"), "params", json_object_get(t, "params"));
    return json_pack("{s:s,s:s,s:s,s:o,s:o}", "name", name, "method",
                     spec_method_name(spec->method), "state", state, "best", best, "trials",
                     trials);
}
