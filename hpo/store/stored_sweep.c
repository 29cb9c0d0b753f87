#include "hpo/store/stored_sweep.h"

#include <string.h>

#include "common/json.h"
#include "common/yaml.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/spec/trial_command.h"
#include "hpo/trial/metric_parse.h"

static int read_text(struct spec **out, const char *text, const char *name, bool stored,
                     struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    AUTO(spec) struct spec *s = NULL;
    int rc = yaml_read(&doc, text, strlen(text), name, "command", e);
    if (rc == 0)
        rc = stored ? sweep_file_read_stored(&s, doc, e) : sweep_file_read(&s, doc, e);
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
        if (rc == 0 && !stored)
            rc = metric_parse_check(m, &why);
        if (rc < 0)
            return yaml_error_at(doc, path, e, rc, "%s", why.text);
    }
    *out = TAKE(s);
    return 0;
}

int stored_sweep_spec(struct spec **out, const char *text, const char *name, struct err *e)
{
    return read_text(out, text, name, false, e);
}

int stored_sweep_read(struct spec **out, const struct sweep_dir *d, struct err *e)
{
    return read_text(out, d->file, "sweep.yaml", true, e);
}

void stored_sweep_apply(struct spec *s, const struct sweep_dir *d)
{
    s->seed = d->seed;
    json_array_extend(s->warm_start, json_object_get(d->prior, "observations"));
}

static int replay_one(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    return scheduler_replay(arg, r, e);
}

int stored_sweep_lock(struct stored_sweep **out, const char *root, const char *name,
                      struct sweep_owner_watch *watch, struct err *e)
{
    AUTO(stored_sweep) struct stored_sweep *v = xzalloc(sizeof *v);
    const struct sweep_dir_opts opts = {
        .root = root, .name = name, .must_exist = true, .watch = watch};
    int rc = sweep_dir_open(&v->dir, &opts, e);
    if (rc == 0)
        rc = stored_sweep_read(&v->spec, v->dir, e);
    if (rc < 0)
        return rc;
    stored_sweep_apply(v->spec, v->dir);
    rc = scheduler_new(&v->sched, v->spec, e);
    if (rc == 0)
        rc = event_store_replay(v->dir->store, replay_one, v->sched, e);
    if (rc < 0)
        return rc;
    scheduler_replayed(v->sched, 0);
    *out = TAKE(v);
    return 0;
}

void stored_sweep_close(struct stored_sweep *v)
{
    if (!v)
        return;
    scheduler_free(v->sched);
    spec_free(v->spec);
    sweep_dir_close(v->dir);
    free(v);
}
