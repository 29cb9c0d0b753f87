#include "hpo/exchange/import_sweep.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "hpo/store/stored_sweep.h"
#include "hpo/store/sweep_dir.h"

struct writer {
    struct event_store *store;
    struct err *e;
    int trial;
    int64_t lease, now_ms;
};

/* Takes over the reference to `data`. */
static int append(struct writer *w, enum scheduler_record_kind kind, int64_t at_ms, int64_t lease,
                  json_t *data)
{
    const struct scheduler_record r = {kind, at_ms, w->trial, lease, data};
    int rc = event_store_append(w->store, &r, 0, w->e);
    json_decref(data);
    return rc;
}

static int64_t time_of(const json_t *trial, const char *key, int64_t otherwise)
{
    int64_t ms = json_integer_value(json_object_get(trial, key));
    return ms > 0 ? ms : otherwise;
}

/* The reports of a trial: step -> values. Curves first; what has no curve, or another last value,
 * is reported at the last step. Returns a list of [step, values] in the order of steps (new
 * reference). */
static int by_step(const void *a, const void *b)
{
    double x = json_number_value(json_array_get(*(json_t *const *)a, 0));
    double y = json_number_value(json_array_get(*(json_t *const *)b, 0));
    return x < y ? -1 : x > y;
}

static json_t *sorted(const json_t *by_text)
{
    size_t n = json_object_size(by_text), i = 0;
    json_t **rows = xcalloc(n + 1, sizeof *rows), *row, *list = json_array();
    const char *key;
    json_object_foreach ((json_t *)by_text, key, row)
        rows[i++] = row;
    qsort(rows, n, sizeof *rows, by_step);
    for (i = 0; i < n; i++)
        json_array_append(list, rows[i]);
    free(rows);
    return list;
}

static void add_value(json_t *by_text, double step, const char *name, json_t *value)
{
    char key[32];
    snprintf(key, sizeof key, "%.17g", step);
    json_t *row = json_object_get(by_text, key);
    if (!row)
        json_object_set_new(by_text, key, row = json_pack("[f,{}]", step));
    json_object_set(json_array_get(row, 1), name, value);
}

static json_t *reports_of(const json_t *trial)
{
    AUTO(json) json_t *by_text = json_object();
    json_t *curve, *point, *value;
    const char *name;
    size_t i;
    double step, last = 0;
    json_object_foreach (json_object_get(trial, "curves"), name, curve)
        json_array_foreach (curve, i, point) {
            if (json_as_number(&step, json_array_get(point, 0)) < 0)
                continue;
            add_value(by_text, step, name, json_array_get(point, 1));
            last = step > last ? step : last;
        }
    json_object_foreach (json_object_get(trial, "metrics"), name, value)
        add_value(by_text, last, name, value);
    return sorted(by_text);
}

static int write_reports(struct writer *w, const json_t *trial, int64_t begin_ms, int64_t end_ms)
{
    AUTO(json) json_t *rows = reports_of(trial);
    size_t i, n = json_array_size(rows);
    json_t *row;
    int rc = 0;
    json_array_foreach (rows, i, row) {
        int64_t at_ms = begin_ms + (end_ms - begin_ms) * (int64_t)(i + 1) / (int64_t)n;
        if (rc == 0)
            rc = append(w, SCHEDULER_REC_REPORT, at_ms, w->lease,
                        json_pack("{s:O, s:O}", "step", json_array_get(row, 0), "values",
                                  json_array_get(row, 1)));
    }
    return rc;
}

static int write_trial(struct writer *w, const struct import_trials *t, const json_t *trial)
{
    int64_t end_ms = time_of(trial, "ended_ms", w->now_ms);
    int64_t begin_ms = time_of(trial, "leased_ms", end_ms);
    const char *node = json_string_value(json_object_get(trial, "node"));
    const char *error = json_string_value(json_object_get(trial, "error"));
    json_t *value = json_object_get(json_object_get(trial, "metrics"), t->metrics[0].name);
    if (t->value_best && json_is_number(json_object_get(trial, "value")))
        value = json_object_get(trial, "value");
    double seconds = json_number_value(json_object_get(trial, "seconds"));
    int rc = append(w, SCHEDULER_REC_CREATED, time_of(trial, "created_ms", begin_ms), 0,
                    json_pack("{s:O}", "params", json_object_get(trial, "params")));
    w->lease++;
    if (rc == 0)
        rc = append(w, SCHEDULER_REC_LEASED, begin_ms, w->lease,
                    json_pack("{s:s, s:s}", "worker", "import", "node", node ? node : "import"));
    if (rc == 0)
        rc = write_reports(w, trial, begin_ms, end_ms);
    if (rc == 0)
        rc = append(w, SCHEDULER_REC_ENDED, end_ms, w->lease,
                    json_pack("{s:O, s:o, s:f, s:s*}", "state", json_object_get(trial, "state"),
                              "value", json_is_number(value) ? json_incref(value) : json_null(),
                              "seconds", seconds, "error", error));
    w->trial++;
    return rc;
}

static int write_trials(struct sweep_dir *d, const struct import_trials *t, const char *source,
                        struct err *e)
{
    struct writer w = {.store = d->store, .e = e, .now_ms = (int64_t)time(NULL) * 1000};
    AUTO(free) char *ended = xasprintf("imported from %s", source);
    size_t i;
    json_t *trial;
    int rc = 0;
    json_array_foreach (t->trials, i, trial)
        if (rc == 0)
            rc = write_trial(&w, t, trial);
    if (rc == 0)
        rc = event_store_put(d->store, SWEEP_DIR_META_ENDED, ended, e);
    return rc == 0 ? event_store_commit(d->store, e) : rc;
}

int import_sweep_write(const struct import_trials *t, const char *root, const char *name,
                       const char *source, struct err *e)
{
    AUTO(free) char *file = NULL, *known = NULL;
    AUTO(spec) struct spec *spec = NULL;
    int rc = import_trials_file(&file, t, name, e);
    if (rc == 0)
        rc = stored_sweep_spec(&spec, file, source, e);
    if (rc < 0)
        return rc;
    if (sweep_dir_find(&known, root, name, NULL) == 0) {
        err_set(e, -EEXIST, "there is a sweep '%s' in '%s'", name, root);
        return err_hint(e, "--name, or drover sweep rm %s", name);
    }
    AUTO(sweep_dir) struct sweep_dir *d = NULL;
    rc = sweep_dir_open(&d, &(struct sweep_dir_opts){.root = root, .name = name, .file = file}, e);
    return rc == 0 ? write_trials(d, t, source, e) : rc;
}
