#include "serve/data/serve_columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/redact.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "serve/data/serve_pack.h"

enum { SMALL_CODES = 255 };                 /* a category with fewer values has codes of one byte */
static const uint32_t no_code = UINT32_MAX; /* also in a column of bytes, as 255 */

struct category_value {
    double number; /* NAN: it is not a number */
    char *text;    /* as JSON */
};

struct param {
    char *name;
    const struct distribution *d; /* NULL: it does not vary */
    size_t column;                /* in the sweep's columns; SIZE_MAX: no trial has it yet */
    bool category;
    struct category_value *values;
    size_t value_count;
    uint32_t *codes; /* of the first `coded` trials */
    size_t coded, cap;
};

struct serve_columns {
    const struct spec *spec;
    const struct sweep_columns *columns;
    struct param *params;
    size_t param_count;
    int metrics[SERVE_COLUMNS_METRICS_MAX]; /* texts */
    int metric_count;
};

static void add_value(struct param *p, double number, char *text)
{
    p->values = xrealloc(p->values, p->value_count + 1, sizeof *p->values);
    p->values[p->value_count++] = (struct category_value){number, text};
}

static struct param *add_param(struct serve_columns *s, const char *name,
                               const struct distribution *d)
{
    s->params = xrealloc(s->params, s->param_count + 1, sizeof *s->params);
    struct param *p = &s->params[s->param_count++];
    *p = (struct param){.name = xstrdup(name), .d = d, .column = SIZE_MAX};
    p->category = !d || d->kind == DISTRIBUTION_CATEGORICAL;
    for (double i = 0; d && p->category && i < distribution_count(d); i++) {
        AUTO(json) json_t *v = distribution_value(d, i);
        add_value(p, json_is_number(v) ? json_number_value(v) : (double)NAN, json_line(v));
    }
    return p;
}

struct serve_columns *serve_columns_new(const struct spec *spec, const struct sweep_columns *c)
{
    struct serve_columns *s = xzalloc(sizeof *s);
    s->spec = spec;
    s->columns = c;
    for (size_t i = 0; i < space_dims(spec->space); i++)
        add_param(s, space_name(spec->space, i), space_distribution(spec->space, i));
    return s;
}

void serve_columns_free(struct serve_columns *s)
{
    for (size_t i = 0; s && i < s->param_count; i++) {
        struct param *p = &s->params[i];
        for (size_t k = 0; k < p->value_count; k++)
            free(p->values[k].text);
        free(p->values);
        free(p->codes);
        free(p->name);
    }
    if (s)
        free(s->params);
    free(s);
}

/* ---- parameters ----------------------------------------------------------------------------- */

static uint32_t code_of(struct param *p, const struct sweep_columns *c, struct columns_value v)
{
    const char *text = v.kind == COLUMNS_JSON ? text_table_at(&c->texts, v.json) : NULL;
    if (v.kind == COLUMNS_ABSENT)
        return no_code;
    for (size_t i = 0; i < p->value_count; i++)
        if (text ? strcmp(p->values[i].text, text) == 0 : p->values[i].number == v.number)
            return (uint32_t)i;
    AUTO(json) json_t *number = sweep_columns_value_json(c, v);
    add_value(p, text ? (double)NAN : v.number, text ? xstrdup(text) : json_line(number));
    return (uint32_t)(p->value_count - 1);
}

/* Finds the columns of new parameters, and the codes of new trials. */
static void update_params(struct serve_columns *s)
{
    const struct sweep_columns *c = s->columns;
    size_t count = c->count;
    for (size_t i = 0; i < c->param_count; i++) {
        const char *name = c->params[i].name;
        size_t k = 0;
        while (k < s->param_count && strcmp(s->params[k].name, name) != 0)
            k++;
        struct param *p = k < s->param_count ? &s->params[k] : add_param(s, name, NULL);
        p->column = i;
    }
    for (size_t k = 0; k < s->param_count; k++) {
        struct param *p = &s->params[k];
        if (!p->category)
            continue;
        if (count > p->cap) {
            p->cap = 2 * count;
            p->codes = xrealloc(p->codes, p->cap, sizeof *p->codes);
        }
        for (; p->coded < count; p->coded++)
            p->codes[p->coded] = p->column == SIZE_MAX
                                     ? no_code
                                     : code_of(p, c, sweep_columns_value(c, p->column, p->coded));
    }
}

static double number_of(const struct serve_columns *s, const struct param *p, size_t trial)
{
    const struct sweep_columns *c = s->columns;
    if (p->column == SIZE_MAX)
        return NAN;
    struct columns_value v = sweep_columns_value(c, p->column, trial);
    if (v.kind == COLUMNS_JSON) /* an integer that is too large for a double */
        return strtod(text_table_at(&c->texts, v.json), NULL);
    return v.kind == COLUMNS_ABSENT ? (double)NAN : v.number;
}

static void pack_param(struct serve_pack *pack, const struct serve_columns *s, size_t which,
                       const uint32_t *ids, size_t n)
{
    const struct param *p = &s->params[which];
    AUTO(free) char *name = xasprintf("p%zu", which);
    if (p->category && p->value_count < SMALL_CODES) {
        SERVE_PACK(pack, name, U8, n, i, p->codes[ids[i]]);
    } else if (p->category) {
        SERVE_PACK(pack, name, U32, n, i, p->codes[ids[i]]);
    } else if (p->d->kind == DISTRIBUTION_INT || p->d->kind == DISTRIBUTION_INT_LOG) {
        SERVE_PACK(pack, name, F64, n, i, number_of(s, p, ids[i]));
    } else {
        SERVE_PACK(pack, name, F32, n, i, number_of(s, p, ids[i]));
    }
}

/* Hides each value of a parameter with the name of a secret, so that there are as many as before.
 * Takes over `values`, a list or a distribution. */
static json_t *hide_each(const char *name, json_t *values)
{
    json_t *list = json_is_object(values) ? json_object_get(values, "values") : values;
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_set_new(list, i, redact_json(name, json_incref(json_array_get(list, i))));
    return values;
}

static json_t *param_json(const struct param *p)
{
    json_t *o = json_pack("{s:s,s:b,s:b}", "name", p->name, "category", p->category, "varies",
                          p->d != NULL);
    if (p->category) {
        json_t *values = json_array();
        for (size_t i = 0; i < p->value_count; i++) {
            json_t *v = json_loads(p->values[i].text, JSON_DECODE_ANY, NULL);
            json_array_append_new(values, v ? v : json_null());
        }
        json_object_set_new(o, "values", hide_each(p->name, values));
        json_object_set_new(o, "distribution",
                            hide_each(p->name, p->d ? distribution_json(p->d) : json_null()));
        return o;
    }
    enum distribution_kind k = p->d->kind;
    bool log =
        k == DISTRIBUTION_INT_LOG || k == DISTRIBUTION_LOG_UNIFORM || k == DISTRIBUTION_LOG_NORMAL;
    json_object_set_new(o, "log", json_boolean(log));
    json_object_set_new(
        o, "whole",
        json_boolean(p->d->whole || k == DISTRIBUTION_INT || k == DISTRIBUTION_INT_LOG));
    if (isfinite(p->d->lo) && isfinite(p->d->hi)) {
        json_object_set_new(o, "lo", json_real(p->d->lo));
        json_object_set_new(o, "hi", json_real(p->d->hi));
    }
    json_object_set_new(o, "distribution", distribution_json(p->d));
    return o;
}

/* ---- metrics -------------------------------------------------------------------------------- */

static void update_metrics(struct serve_columns *s, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct columns_trial *t = &s->columns->trials[ids[i]];
        for (int m = 0; m < t->metric_count; m++) {
            int k = 0;
            while (k < s->metric_count && s->metrics[k] != t->metrics[m].name)
                k++;
            if (k == s->metric_count && k < SERVE_COLUMNS_METRICS_MAX)
                s->metrics[s->metric_count++] = t->metrics[m].name;
        }
    }
}

static void pack_metric(struct serve_pack *pack, const struct serve_columns *s, int which,
                        const uint32_t *ids, size_t n)
{
    static const char *const parts[] = {"min", "max", "last"};
    AUTO(free) float *of[3] = {xcalloc(3 * n + 1, sizeof(float))};
    of[1] = of[0] + n;
    of[2] = of[1] + n;
    for (size_t i = 0; i < n; i++) {
        const struct columns_metric *m =
            sweep_columns_find_metric(&s->columns->trials[ids[i]], s->metrics[which]);
        double low = NAN, high = NAN;
        if (m)
            trial_curve_range(&m->curve, &low, &high);
        of[0][i] = (float)low;
        of[1][i] = (float)high;
        of[2][i] = m ? (float)m->last : (float)NAN;
    }
    for (size_t k = 0; k < COUNT_OF(parts); k++) {
        AUTO(free) char *name = xasprintf("m%d.%s", which, parts[k]);
        memcpy(serve_pack_add(pack, name, SERVE_PACK_F32, n), of[k], n * sizeof(float));
    }
}

/* ---- trials and leases ---------------------------------------------------------------------- */

struct packing {
    struct serve_pack pack;
    const struct sweep_columns *columns;
    const uint32_t *ids;
    size_t n;
    int64_t t0_ms;
    json_t *texts;
};

static uint32_t text_code(struct packing *p, int text)
{
    char key[16];
    if (text < 0)
        return no_code;
    snprintf(key, sizeof key, "%d", text);
    if (!json_object_get(p->texts, key))
        json_object_set_new(p->texts, key, json_text(text_table_at(&p->columns->texts, text)));
    return (uint32_t)text;
}

static float since_start(const struct packing *p, int64_t ms)
{
    return ms ? (float)((double)(ms - p->t0_ms) / 1e3) : (float)NAN;
}

/* The trial of row i. */
static const struct columns_trial *trial_at(const struct packing *p, size_t i)
{
    return &p->columns->trials[p->ids[i]];
}

static void pack_trials(struct packing *p)
{
    size_t n = p->n;
    memcpy(serve_pack_add(&p->pack, "id", SERVE_PACK_U32, n), p->ids, n * sizeof *p->ids);
    SERVE_PACK(&p->pack, "state", U8, n, i, trial_at(p, i)->state);
    SERVE_PACK(&p->pack, "added", U8, n, i, trial_at(p, i)->added);
    SERVE_PACK(&p->pack, "feasible", U8, n, i, sweep_columns_feasible(p->columns, p->ids[i]));
    SERVE_PACK(&p->pack, "value", F64, n, i, sweep_columns_score(p->columns, p->ids[i]));
    SERVE_PACK(&p->pack, "seconds", F32, n, i, trial_at(p, i)->seconds);
    SERVE_PACK(&p->pack, "lease", U32, n, i, trial_at(p, i)->lease);
    uint32_t *steps = serve_pack_add(&p->pack, "steps", SERVE_PACK_U32, n);
    for (size_t i = 0; i < n; i++) {
        const struct columns_metric *m =
            sweep_columns_find_metric(trial_at(p, i), p->columns->metric);
        steps[i] = m ? (uint32_t)m->curve.count : 0;
    }
    SERVE_PACK(&p->pack, "created", F32, n, i, since_start(p, trial_at(p, i)->created_ms));
    SERVE_PACK(&p->pack, "leased", F32, n, i, since_start(p, trial_at(p, i)->leased_ms));
    SERVE_PACK(&p->pack, "ended", F32, n, i, since_start(p, trial_at(p, i)->ended_ms));
    SERVE_PACK(&p->pack, "node", U32, n, i, text_code(p, trial_at(p, i)->node));
    SERVE_PACK(&p->pack, "why", U32, n, i, text_code(p, trial_at(p, i)->why));
    SERVE_PACK(&p->pack, "error", U32, n, i, text_code(p, trial_at(p, i)->error));
}

/* Packs the leases of trials that have changed. */
static void pack_leases(struct packing *p, int64_t since)
{
    size_t all = p->columns->lease_count, n = 0;
    const struct columns_lease *leases = p->columns->leases;
    AUTO(free) uint32_t *which = xcalloc(all + 1, sizeof *which);
    for (size_t i = 0; i < all; i++)
        if (p->columns->trials[leases[i].trial].changed_seq > since)
            which[n++] = (uint32_t)i;
    SERVE_PACK(&p->pack, "lease.id", U32, n, i, which[i] + 1);
    SERVE_PACK(&p->pack, "lease.trial", U32, n, i, leases[which[i]].trial);
    uint32_t *node = serve_pack_add(&p->pack, "lease.node", SERVE_PACK_U32, n);
    for (size_t i = 0; i < n; i++) {
        const struct columns_lease *l = &leases[which[i]];
        node[i] = text_code(p, l->node >= 0 ? l->node : l->worker);
    }
    SERVE_PACK(&p->pack, "lease.why", U32, n, i, text_code(p, leases[which[i]].why));
    SERVE_PACK(&p->pack, "lease.begin", F32, n, i, since_start(p, leases[which[i]].begin_ms));
    SERVE_PACK(&p->pack, "lease.end", F32, n, i, since_start(p, leases[which[i]].end_ms));
}

void serve_columns_body(struct strbuf *out, struct serve_columns *s, int64_t since, json_t *head)
{
    const struct sweep_columns *c = s->columns;
    size_t count = c->count, n = 0;
    AUTO(free) uint32_t *ids = xcalloc(count + 1, sizeof *ids);
    for (size_t i = 0; i < count; i++)
        if (c->trials[i].changed_seq > since)
            ids[n++] = (uint32_t)i;
    update_params(s);
    update_metrics(s, ids, n);
    struct packing p = {.columns = c, .ids = ids, .n = n, .texts = json_object()};
    p.t0_ms = count > 0 ? c->trials[0].created_ms : 0;
    pack_trials(&p);
    json_t *params = json_array(), *metrics = json_array();
    for (size_t i = 0; i < s->param_count; i++) {
        pack_param(&p.pack, s, i, ids, n);
        json_array_append_new(params, param_json(&s->params[i]));
    }
    for (int i = 0; i < s->metric_count; i++) {
        pack_metric(&p.pack, s, i, ids, n);
        json_array_append_new(metrics, json_text(text_table_at(&c->texts, s->metrics[i])));
    }
    pack_leases(&p, since);
    json_object_set_new(head, "seq", json_integer(c->seq));
    json_object_set_new(head, "since", json_integer(since));
    json_object_set_new(head, "total", json_integer((json_int_t)count));
    json_object_set_new(head, "t0_ms", json_integer(p.t0_ms));
    json_object_set_new(head, "params", params);
    json_object_set_new(head, "metrics", metrics);
    json_object_set_new(head, "texts", p.texts);
    serve_pack_finish(out, &p.pack, redact_json(NULL, head));
}
