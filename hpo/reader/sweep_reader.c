#include "hpo/reader/sweep_reader.h"

#include <math.h>

#include "common/json.h"
#include "hpo/reader/sweep_status.h"
#include "hpo/samplers/sampler.h"
#include "hpo/samplers/sweep_analysis.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "hpo/store/stored_sweep.h"

int sweep_reader_open(struct sweep_reader **out, const char *root, const char *name, struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *v = xzalloc(sizeof *v);
    int rc = sweep_dir_read(&v->dir, root, name, e);
    if (rc == 0)
        rc = stored_sweep_read(&v->spec, v->dir, e);
    if (rc < 0)
        return rc;
    stored_sweep_apply(v->spec, v->dir);
    v->columns = sweep_columns_new(v->spec);
    rc = sweep_reader_update(v, e);
    if (rc < 0)
        return rc;
    *out = TAKE(v);
    return 0;
}

int sweep_reader_update(struct sweep_reader *v, struct err *e)
{
    int rc;
    do
        rc = event_store_read(v->dir->store, sweep_columns_record, v->columns, e);
    while (rc > 0);
    return rc;
}

void sweep_reader_close(struct sweep_reader *v)
{
    if (!v)
        return;
    sweep_columns_free(v->columns);
    spec_free(v->spec);
    sweep_dir_close(v->dir);
    free(v);
}

struct ranked {
    int id;
    double loss; /* NAN: no value */
    bool front, failed, infeasible;
};

static int better_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->front != y->front)
        return x->front ? -1 : 1;
    if (x->failed != y->failed)
        return x->failed ? 1 : -1;
    if (isnan(x->loss) != isnan(y->loss))
        return isnan(x->loss) ? 1 : -1;
    if (x->infeasible != y->infeasible)
        return x->infeasible ? 1 : -1;
    if (!isnan(x->loss) && x->loss != y->loss)
        return x->loss < y->loss ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

json_t *sweep_reader_top(const struct sweep_reader *v, const json_t *front, size_t max)
{
    size_t n = v->columns->count;
    AUTO(free) struct ranked *all = xcalloc(n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        double score = sweep_columns_score(v->columns, i);
        all[i] = (struct ranked){.id = (int)i,
                                 .loss = v->spec->metrics[0].maximize ? -score : score,
                                 .failed = !trial_has_signal(v->columns->trials[i].state),
                                 .infeasible = !sweep_columns_feasible(v->columns, i)};
    }
    for (size_t i = 0; i < json_array_size(front); i++)
        all[json_integer_value(json_array_get(front, i))].front = true;
    qsort(all, n, sizeof *all, better_first);
    json_t *list = json_array();
    for (size_t i = 0; i < n && i < max; i++)
        json_array_append_new(list, sweep_columns_trial_json(v->columns, (size_t)all[i].id));
    return list;
}

/* ---- states --------------------------------------------------------------------------------- */

/* Returns the number of extra sets among those that the user has added. A set is extra if it is not
 * a point of the space, or if it repeats a point more often than the sweep would try it. */
static int count_extra(const struct sweep_reader *v)
{
    AUTO(json) json_t *times = json_object();
    int extra = 0;
    for (size_t i = 0; i < v->columns->count; i++) {
        AUTO(json) json_t *params = sweep_columns_params_json(v->columns, i);
        AUTO(free) char *key = distribution_key(params);
        json_int_t n = json_integer_value(json_object_get(times, key)) + 1;
        json_object_set_new(times, key, json_integer(n));
        if (v->columns->trials[i].added)
            extra += !space_has(v->spec->space, params) || n > v->spec->repeats;
    }
    return extra;
}

struct scheduler_counts sweep_reader_counts(const struct sweep_reader *v)
{
    int added = 0, raised = v->columns->commands.raised;
    for (size_t i = 0; i < v->columns->count; i++)
        added += v->columns->trials[i].added;
    int extra = added > 0 ? count_extra(v) : 0;
    return scheduler_counts_of(v->columns->states, scheduler_wanted(v->spec, raised, added, extra));
}

/* Returns true if nothing is left to do: the coordinator has stored the end, or all trials have
 * ended. */
static bool is_done(const struct sweep_reader *v, const char *ended)
{
    struct scheduler_counts c = sweep_reader_counts(v);
    int open = c.waiting + c.running + c.stopping + c.paused;
    if (ended)
        return *ended && open == 0;
    return open == 0 && c.total_wanted >= 0 && v->columns->count >= (size_t)c.total_wanted;
}

/* `ended` and `left` hold what the status borrows; the caller frees them. */
static struct sweep_status status_of(const struct sweep_reader *v, char **ended, char **left)
{
    if (event_store_get(ended, v->dir->store, SWEEP_DIR_META_ENDED, NULL) < 0)
        *ended = NULL;
    if (event_store_get(left, v->dir->store, SWEEP_DIR_META_LEFT, NULL) < 0)
        *left = NULL;
    return sweep_status_of(&(struct sweep_status_facts){.coordinated = sweep_dir_owner(v->dir).held,
                                                        .paused = v->columns->commands.paused,
                                                        .stopped = v->columns->commands.stopped,
                                                        .done = is_done(v, *ended),
                                                        .ended = *ended,
                                                        .left = *left});
}

void sweep_reader_set_status(const struct sweep_reader *v, json_t *o)
{
    AUTO(free) char *ended = NULL, *left = NULL;
    struct sweep_status s = status_of(v, &ended, &left);
    json_object_set_new(o, "state", json_string(s.state));
    json_object_set_new(o, "reason", s.reason ? json_text(s.reason) : json_null());
}

void sweep_reader_status_text(struct strbuf *out, const struct sweep_reader *v)
{
    AUTO(free) char *ended = NULL, *left = NULL;
    struct sweep_status s = status_of(v, &ended, &left);
    sweep_status_text(out, &s);
}

/* Returns, for each worker, the number of trials that it runs or has a reservation for: {worker id:
 * number}. */
static json_t *count_running(const struct sweep_reader *v)
{
    json_t *counts = json_object();
    const struct text_table *texts = &v->columns->texts;
    for (size_t i = 0; i < v->columns->count; i++) {
        const struct columns_trial *t = &v->columns->trials[i];
        const char *worker = text_table_at(texts, t->worker);
        if (!trial_is_active(t->state) || !worker)
            continue;
        AUTO(json) json_t *gang = sweep_columns_gang(v->columns, i);
        json_array_insert_new(gang, 0, json_string(worker));
        for (size_t k = 0; k < json_array_size(gang); k++) {
            const char *id = json_string_value(json_array_get(gang, k));
            json_int_t n = json_integer_value(json_object_get(counts, id));
            json_object_set_new(counts, id, json_integer(n + 1));
        }
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

/* ---- analysis ------------------------------------------------------------------------------- */

/* Returns at most `max` of the trials that have a value, spread evenly. */
static struct trial_view sample(const struct sweep_reader *v, size_t max)
{
    size_t count = v->columns->count, n = 0;
    AUTO(free) int *ids = xcalloc(count + 1, sizeof *ids);
    for (size_t i = 0; i < count; i++)
        if (!isnan(sweep_columns_score(v->columns, i)))
            ids[n++] = (int)i;
    size_t kept = n < max ? n : max;
    for (size_t i = 0; i < kept; i++)
        ids[i] = ids[i * n / kept];
    return sweep_columns_view(v->columns, ids, kept);
}

/* Asks the sampler, with its model state, for the best trial and for its note (NULL: not needed).
 * Leaves both as they are if there is no model, or if there are too many trials. */
static void ask_sampler(const struct sweep_reader *v, int *best, char **note)
{
    /* Only a method that learns has a model. */
    if (!v->spec->method->learns_from_warm_start || v->columns->count > READER_ANALYSED_MAX)
        return;
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, objectives, v->spec, NULL);
    AUTO(sampler) struct sampler *sampler = sampler_new(sampler_of(v->spec->method), &task);
    AUTO(json) json_t *model_state = sweep_columns_model_state(v->columns);
    struct trial_view all = sweep_columns_all(v->columns);
    sampler_restore(sampler, model_state);
    if (best)
        *best = sampler_best(sampler, &all);
    if (note)
        *note = sampler_note(sampler, &all);
    sweep_columns_view_free(&all);
}

int sweep_reader_recommended(const struct sweep_reader *v)
{
    int chosen = -1;
    ask_sampler(v, &chosen, NULL);
    return chosen >= 0 ? chosen : sweep_columns_best(v->columns);
}

char *sweep_reader_note(const struct sweep_reader *v)
{
    char *note = NULL;
    ask_sampler(v, NULL, &note);
    return note;
}

/* `resamples`: for the ranges of the shares; -1: the shares. */
static json_t *importance(const struct sweep_reader *v, size_t trials_max, int resamples)
{
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, objectives, v->spec, NULL);
    if (task.objective_count == 0)
        return json_null();
    struct trial_view trials = sample(v, trials_max);
    json_t *shares = resamples < 0 ? sweep_analysis_importance(task.space, objectives, &trials)
                                   : sweep_analysis_importance_ranges(task.space, objectives,
                                                                      &trials, resamples);
    sweep_columns_view_free(&trials);
    return shares;
}

json_t *sweep_reader_importance(const struct sweep_reader *v)
{
    return importance(v, READER_ANALYSED_MAX, -1);
}

json_t *sweep_reader_importance_ranges(const struct sweep_reader *v, int resamples)
{
    return importance(v, READER_RESAMPLED_MAX, resamples);
}

json_t *sweep_reader_pareto(const struct sweep_reader *v)
{
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, objectives, v->spec, NULL);
    if (task.objective_count < 2)
        return NULL;
    struct trial_view all = sweep_columns_all(v->columns);
    json_t *front = sweep_analysis_front(&task, &all);
    sweep_columns_view_free(&all);
    return front;
}

static void print_member(FILE *out, const char *before, const char *name, json_t *value)
{
    AUTO(free) char *text = json_line(value);
    fprintf(out, "%s\"%s\":%s", before, name, text);
    json_decref(value);
}

static json_t *best_json(const struct sweep_reader *v)
{
    int best = sweep_reader_recommended(v);
    AUTO(json) json_t *t = best < 0 ? NULL : sweep_columns_trial_json(v->columns, (size_t)best);
    return t ? json_pack("{s:O,s:O,s:O}", "id", json_object_get(t, "id"), "value",
                         json_object_get(t, "value"), "params", json_object_get(t, "params"))
             : json_null();
}

void sweep_reader_print_json(const struct sweep_reader *v, FILE *out)
{
    json_t *pareto = sweep_reader_pareto(v);
    AUTO(json) json_t *status = json_object();
    sweep_reader_set_status(v, status);
    print_member(out, "{", "name", json_string(v->dir->name));
    print_member(out, ",", "method", json_string(v->spec->method->name));
    print_member(out, ",", "state", json_incref(json_object_get(status, "state")));
    print_member(out, ",", "reason", json_incref(json_object_get(status, "reason")));
    print_member(out, ",", "best", best_json(v));
    if (pareto)
        print_member(out, ",", "pareto", pareto);
    print_member(out, ",", "importance", sweep_reader_importance(v));
    fputs(",\"trials\":[", out);
    for (size_t i = 0; i < v->columns->count; i++) {
        AUTO(json) json_t *t = sweep_columns_trial_json(v->columns, i);
        AUTO(free) char *text = json_line(t);
        fprintf(out, "%s%s", i > 0 ? "," : "", text);
    }
    fputs("]", out);
    print_member(out, ",", "workers", sweep_reader_workers(v));
    fputs("}\n", out);
}
