#include "hpo/reader/sweep_columns.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/reader/json_scan.h"
#include "hpo/space/space.h"

struct sweep_columns *sweep_columns_new(const struct spec *spec)
{
    struct sweep_columns *c = xzalloc(sizeof *c);
    const char *metric = spec->metrics[0].name;
    c->spec = spec;
    c->metric = text_table_add(&c->texts, metric, metric ? strlen(metric) : 0);
    return c;
}

static void clear_trial(struct columns_trial *t)
{
    for (int i = 0; i < t->metric_count; i++)
        trial_curve_clear(&t->metrics[i].curve);
    free(t->metrics);
}

void sweep_columns_free(struct sweep_columns *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        clear_trial(&c->trials[i]);
    for (size_t i = 0; i < c->param_count; i++) {
        strv_free(c->params[i].path);
        free(c->params[i].name);
        free(c->params[i].kinds);
        free(c->params[i].cells);
    }
    free(c->trials);
    free(c->leases);
    free(c->params);
    free(c->model_state);
    text_table_clear(&c->texts);
    free(c);
}

static int damaged(const struct event_store_row *r, const char *what, struct err *e)
{
    return err_set(e, -EBADMSG, "damaged: record %lld: trial %d, lease %lld: %s", (long long)r->seq,
                   r->trial, (long long)r->lease, what);
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* Returns true if the space has a parameter below this name. An object with this name is then a
 * group. */
static bool is_group(const struct sweep_columns *c, const char *dotted)
{
    for (size_t i = 0; i < space_dims(c->spec->space); i++)
        if (strncmp(space_name(c->spec->space, i), dotted, strlen(dotted)) == 0)
            return true;
    return false;
}

/* A group of parameters. A NULL pointer to a group means the top level. */
struct group {
    const struct group *above;
    const char *name;
    const char *dotted; /* "outer.group.": with the names of the groups around it */
};

static void push_path(char ***path, const struct group *g)
{
    if (!g)
        return;
    push_path(path, g->above);
    strv_push(path, xstrdup(g->name));
}

static bool is_param(const struct columns_param *column, const struct group *g, const char *name)
{
    size_t len = g ? strlen(g->dotted) : 0;
    return (!g || strncmp(column->name, g->dotted, len) == 0) &&
           strcmp(column->name + len, name) == 0;
}

/* Returns the column of a parameter. The search begins at *next, since most trials have the same
 * parameters in the same order. */
static struct columns_param *column_of(struct sweep_columns *c, const struct group *g,
                                       const char *name, size_t *next)
{
    for (size_t i = 0; i < c->param_count; i++) {
        size_t k = (*next + i) % c->param_count;
        if (is_param(&c->params[k], g, name)) {
            *next = k + 1;
            return &c->params[k];
        }
    }
    c->params = xgrow(c->params, c->param_count, sizeof *c->params);
    struct columns_param *column = &c->params[c->param_count++];
    *column = (struct columns_param){.name = xasprintf("%s%s", g ? g->dotted : "", name)};
    push_path(&column->path, g);
    strv_push(&column->path, xstrdup(name));
    return column;
}

static void set_value(struct sweep_columns *c, struct columns_param *column, size_t trial,
                      const struct json_scan_member *m)
{
    if (trial >= column->cap) {
        size_t cap = column->cap ? 2 * column->cap : 64;
        while (cap <= trial)
            cap *= 2;
        column->kinds = xrealloc(column->kinds, cap, sizeof *column->kinds);
        column->cells = xrealloc(column->cells, cap, sizeof *column->cells);
        memset(column->kinds + column->cap, COLUMNS_ABSENT, cap - column->cap);
        column->cap = cap;
    }
    static const double exact = 9007199254740992.0; /* 2^53: larger integers stay text */
    if (m->kind == JSON_SCAN_REAL || (m->kind == JSON_SCAN_INTEGER && fabs(m->number) < exact)) {
        column->kinds[trial] = m->kind == JSON_SCAN_REAL ? COLUMNS_REAL : COLUMNS_INTEGER;
        column->cells[trial].number = m->number;
    } else {
        column->kinds[trial] = COLUMNS_JSON;
        column->cells[trial].json = text_table_add(&c->texts, m->text, m->len);
    }
}

static bool read_params(struct sweep_columns *c, size_t trial, const struct group *g,
                        const char *text, size_t *next)
{
    struct json_scan s = json_scan_begin(text);
    bool ok = true;
    for (struct json_scan_member m; json_scan_next(&s, &m);) {
        AUTO(free)
        char *dotted =
            m.kind == JSON_SCAN_OBJECT ? xasprintf("%s%s.", g ? g->dotted : "", m.key) : NULL;
        const struct group inner = {g, m.key, dotted};
        if (dotted && is_group(c, dotted))
            ok = ok && read_params(c, trial, &inner, m.text, next);
        else
            set_value(c, column_of(c, g, m.key, next), trial, &m);
    }
    return ok && !s.failed;
}

/* ---- records -------------------------------------------------------------------------------- */

static int apply_created(struct sweep_columns *c, const struct event_store_row *r, struct err *e)
{
    const char *params = NULL, *learnt = NULL;
    size_t next = 0, learnt_len = 0;
    bool added = false;
    struct json_scan s = json_scan_begin(r->data);
    for (struct json_scan_member m; json_scan_next(&s, &m);) {
        if (strcmp(m.key, "params") == 0 && m.kind == JSON_SCAN_OBJECT)
            params = m.text;
        else if (strcmp(m.key, "added") == 0)
            added = m.len == 4 && memcmp(m.text, "true", 4) == 0;
        else if (strcmp(m.key, "learnt") == 0) {
            learnt = m.text;
            learnt_len = m.len;
        }
    }
    if (r->lease != 0 || r->trial < 0 || (size_t)r->trial != c->count || s.failed || !params)
        return damaged(r, "created out of order, or without parameters", e);
    c->trials = xgrow(c->trials, c->count, sizeof *c->trials);
    if (!read_params(c, c->count, NULL, params, &next))
        return damaged(r, "its parameters are malformed", e);
    c->trials[c->count++] = (struct columns_trial){.state = TRIAL_WAITING,
                                                   .created_ms = r->at_ms,
                                                   .changed_seq = r->seq,
                                                   .added = added,
                                                   .worker = TEXT_TABLE_NONE,
                                                   .node = TEXT_TABLE_NONE,
                                                   .error = TEXT_TABLE_NONE,
                                                   .why = TEXT_TABLE_NONE};
    c->states[TRIAL_WAITING]++;
    c->seq = r->seq;
    if (!added && learnt) { /* a trial without it: the sampler has learned nothing new */
        free(c->model_state);
        c->model_state = xstrndup(learnt, learnt_len);
    }
    return 0;
}

static int apply_command(struct sweep_columns *c, const struct event_store_row *r, struct err *e)
{
    AUTO(json) json_t *data = json_loadb(r->data, r->len, 0, NULL);
    const struct scheduler_record record = {r->kind, r->at_ms, r->trial, r->lease, data};
    if (!sweep_state_command(&c->commands, &record))
        return damaged(r, "an invalid command", e);
    c->seq = r->seq;
    return 0;
}

/* The members of a record's data that are texts or numbers. Missing members are unset. */
struct facts {
    int worker, node, why, error, gang, state;
    double seconds, step;
    const char *values;
};

static int text_of(struct sweep_columns *c, const struct json_scan_member *m)
{
    if (m->kind != JSON_SCAN_STRING)
        return TEXT_TABLE_NONE;
    if (!memchr(m->text, '\\', m->len))
        return text_table_add(&c->texts, m->text + 1, m->len - 2);
    AUTO(json) json_t *text = json_scan_value(m->text, m->len);
    const char *value = json_string_value(text);
    return text_table_add(&c->texts, value, value ? strlen(value) : 0);
}

/* Whether the member is a number of JSON, and not one of the words "nan" and "inf". */
static bool is_number(const struct json_scan_member *m)
{
    return m->is_number && m->kind != JSON_SCAN_STRING && isfinite(m->number);
}

static bool read_facts(struct facts *f, struct sweep_columns *c, const struct event_store_row *r)
{
    *f = (struct facts){TEXT_TABLE_NONE,
                        TEXT_TABLE_NONE,
                        TEXT_TABLE_NONE,
                        TEXT_TABLE_NONE,
                        TEXT_TABLE_NONE,
                        -1,
                        NAN,
                        NAN,
                        NULL};
    struct json_scan s = json_scan_begin(r->data);
    for (struct json_scan_member m; json_scan_next(&s, &m);) {
        if (strcmp(m.key, "step") == 0)
            f->step = m.is_number ? m.number : NAN;
        else if (strcmp(m.key, "values") == 0)
            f->values = m.kind == JSON_SCAN_OBJECT ? m.text : NULL;
        else if (strcmp(m.key, "seconds") == 0)
            f->seconds = is_number(&m) ? m.number : NAN;
        else if (strcmp(m.key, "worker") == 0)
            f->worker = text_of(c, &m);
        else if (strcmp(m.key, "node") == 0)
            f->node = text_of(c, &m);
        else if (strcmp(m.key, "with") == 0)
            f->gang = text_table_add(&c->texts, m.text, m.len);
        else if (strcmp(m.key, "why") == 0)
            f->why = text_of(c, &m);
        else if (strcmp(m.key, "error") == 0)
            f->error = text_of(c, &m);
        else if (strcmp(m.key, "state") == 0 && m.kind == JSON_SCAN_STRING)
            f->state = trial_state_parse(text_table_at(&c->texts, text_of(c, &m)));
    }
    return !s.failed;
}

static int apply_leased(struct sweep_columns *c, struct columns_trial *t,
                        const struct event_store_row *r, const struct facts *f, struct err *e)
{
    if ((uint64_t)r->lease != c->lease_count + 1 || r->lease == INT_MAX || f->worker < 0)
        return damaged(r, "leased out of order, or without a worker", e);
    c->leases = xgrow(c->leases, c->lease_count, sizeof *c->leases);
    c->leases[c->lease_count++] =
        (struct columns_lease){r->trial, f->worker, f->node, f->gang, TEXT_TABLE_NONE, r->at_ms, 0};
    t->lease = r->lease;
    t->leased_ms = r->at_ms;
    t->worker = f->worker;
    t->node = f->node;
    return 0;
}

static void end_lease(struct sweep_columns *c, const struct event_store_row *r, int why)
{
    if (r->lease < 1)
        return; /* the trial was cancelled before it had a lease */
    struct columns_lease *l = &c->leases[r->lease - 1];
    l->end_ms = l->end_ms ? l->end_ms : r->at_ms;
    l->why = why;
}

static struct columns_metric *metric_of(struct sweep_columns *c, struct columns_trial *t,
                                        const char *key)
{
    int name = text_table_add(&c->texts, key, strlen(key));
    for (int i = 0; i < t->metric_count; i++)
        if (t->metrics[i].name == name)
            return &t->metrics[i];
    t->metrics = xrealloc(t->metrics, (size_t)t->metric_count + 1, sizeof *t->metrics);
    struct columns_metric *m = &t->metrics[t->metric_count++];
    *m = (struct columns_metric){.name = name};
    trial_curve_init(&m->curve);
    return m;
}

bool sweep_columns_maximizes(const struct sweep_columns *c, const char *metric)
{
    for (int i = 0; i < c->spec->metric_count; i++)
        if (c->spec->metrics[i].name && strcmp(c->spec->metrics[i].name, metric) == 0)
            return c->spec->metrics[i].maximize;
    return false;
}

static bool maximizes(const struct sweep_columns *c, const struct columns_metric *m)
{
    return sweep_columns_maximizes(c, text_table_at(&c->texts, m->name));
}

static int apply_report(struct sweep_columns *c, struct columns_trial *t,
                        const struct event_store_row *r, const struct facts *f, struct err *e)
{
    if (!isfinite(f->step) || !f->values)
        return damaged(r, "a report without a step or values", e);
    struct json_scan s = json_scan_begin(f->values);
    for (struct json_scan_member v; json_scan_next(&s, &v);) {
        if (!v.is_number)
            continue;
        struct columns_metric *m = metric_of(c, t, v.key);
        if (m->lease != t->lease)
            trial_curve_cut(&m->curve, f->step, maximizes(c, m));
        if (isfinite(v.number))
            trial_curve_put(&m->curve, f->step, v.number, maximizes(c, m));
        m->lease = t->lease;
        m->last = v.number;
        m->is_integer = v.kind == JSON_SCAN_INTEGER;
    }
    return s.failed ? damaged(r, "its values are malformed", e) : 0;
}

static int apply_to_trial(struct sweep_columns *c, struct columns_trial *t,
                          const struct event_store_row *r, const struct facts *f, struct err *e)
{
    switch (r->kind) {
    case SCHEDULER_REC_LEASED:
        return apply_leased(c, t, r, f, e);
    case SCHEDULER_REC_REPORT:
        return apply_report(c, t, r, f, e);
    case SCHEDULER_REC_STOPPING:
    case SCHEDULER_REC_PAUSING:
        t->why = f->why;
        return 0;
    case SCHEDULER_REC_PAUSED:
        t->seconds = f->seconds;
        end_lease(c, r, t->why);
        return 0;
    case SCHEDULER_REC_REQUEUED:
        t->why = f->why;
        t->error = f->error;
        end_lease(c, r, f->why);
        return 0;
    case SCHEDULER_REC_ENDED:
        t->why = f->why;
        t->error = f->error;
        t->seconds = f->seconds;
        t->ended_ms = r->at_ms;
        end_lease(c, r, f->why);
        return 0;
    case SCHEDULER_REC_RETRIED:
        t->why = t->error = TEXT_TABLE_NONE;
        t->ended_ms = 0;
        return 0;
    case SCHEDULER_REC_CREATED:
    case SCHEDULER_REC_COMMAND:
    case SCHEDULER_REC_KINDS:
        break;
    }
    return damaged(r, "an unknown kind of record", e);
}

int sweep_columns_record(void *columns, const struct event_store_row *r, struct err *e)
{
    struct sweep_columns *c = columns;
    struct facts f;
    if (r->kind == SCHEDULER_REC_CREATED)
        return apply_created(c, r, e);
    if (r->kind == SCHEDULER_REC_COMMAND)
        return apply_command(c, r, e);
    if (r->kind >= SCHEDULER_REC_KINDS || r->trial < 0 || (size_t)r->trial >= c->count)
        return damaged(r, "a record of a trial that was never created", e);
    struct columns_trial *t = &c->trials[r->trial];
    int to = states_next(&trial_states, t->state, sweep_state_events[r->kind]);
    if (!read_facts(&f, c, r))
        return damaged(r, "its data are malformed", e);
    if (to == TRIAL_STATES) /* any final state */
        to = f.state >= 0 && trial_is_ended((enum trial_state)f.state) ? f.state : -1;
    if (to < 0)
        return damaged(r, "a record that does not follow from the trial's state", e);
    if (r->kind != SCHEDULER_REC_LEASED && r->lease != t->lease)
        return damaged(r, "a record of another lease than the trial's last", e);
    const char *missing = sweep_state_missing(r->kind, f.why >= 0, !isnan(f.seconds));
    int rc = missing ? damaged(r, missing, e) : apply_to_trial(c, t, r, &f, e);
    if (rc < 0)
        return rc;
    c->states[t->state]--;
    c->states[to]++;
    t->state = (enum trial_state)to;
    t->changed_seq = c->seq = r->seq;
    return 0;
}
