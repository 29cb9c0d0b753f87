#include "serve/report/sweep_report_pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "launcher/report/report_chart.h"

enum { SLICES_MAX = 4, CURVES_MAX = 10, BARS_MAX = 14, LOG_FROM = 50 };

static const double LEFT_OUT = 0.02; /* the worst values, which would flatten the rest */

static int by_share(const void *a, const void *b)
{
    const struct sweep_report_importance *p = a, *q = b;
    return (p->share < q->share) - (p->share > q->share);
}

size_t sweep_report_importance(struct sweep_report_importance **out, const json_t *ranges)
{
    const char *name;
    json_t *v;
    size_t n = 0;
    *out = xcalloc(json_object_size(ranges) + 1, sizeof **out);
    json_object_foreach ((json_t *)ranges, name, v)
        (*out)[n++] = (struct sweep_report_importance){
            name, json_number_value(json_array_get(v, 0)), json_number_value(json_array_get(v, 1)),
            json_number_value(json_array_get(v, 2))};
    qsort(*out, n, sizeof **out, by_share);
    return n;
}

/* ---- axes ----------------------------------------------------------------------------------- */

static void widen(struct report_axis *a)
{
    double by = (a->hi - a->lo) * 0.03;
    if (!(a->hi > a->lo))
        by = fabs(a->lo) > 0 ? fabs(a->lo) / 10 : 1;
    a->log = a->lo > 0 && a->hi / a->lo > LOG_FROM;
    if (a->log) {
        a->hi *= 1.05;
        a->lo /= 1.05;
    } else {
        a->lo -= by;
        a->hi += by;
    }
}

static struct report_axis value_axis(const struct sweep_columns *c, const char *name,
                                     const struct sweep_report_totals *t)
{
    size_t last = (size_t)((double)(t->order_count - 1) * (1 - LEFT_OUT));
    double best = sweep_columns_score(c, (size_t)t->order[0]);
    double worst = sweep_columns_score(c, (size_t)t->order[last]);
    struct report_axis a = {.name = name, .lo = fmin(best, worst), .hi = fmax(best, worst)};
    widen(&a);
    return a;
}

/* ---- the history ---------------------------------------------------------------------------- */

static void add_history(struct report_document *d, const struct sweep_columns *c,
                        const struct sweep_report_totals *t, const char *metric, bool maximize)
{
    size_t n = sweep_columns_count(c), line = 0;
    AUTO(free) double *x = xcalloc(n, sizeof *x);
    AUTO(free) double *y = xcalloc(n, sizeof *y);
    AUTO(free) double *bx = xcalloc(2 * n + 1, sizeof *bx);
    AUTO(free) double *by = xcalloc(2 * n + 1, sizeof *by);
    double best = NAN;
    for (size_t i = 0; i < n; i++) {
        double v = sweep_columns_score(c, i);
        bool counts = isfinite(v) && trial_has_signal(sweep_columns_trial(c, i)->state);
        x[i] = (double)i;
        y[i] = counts ? v : (double)NAN;
        if (!counts || (!isnan(best) && (maximize ? v <= best : v >= best)))
            continue;
        if (line > 0) { /* a step: the best value stays until this trial */
            bx[line] = x[i];
            by[line++] = best;
        }
        best = v;
        bx[line] = x[i];
        by[line++] = best;
    }
    bx[line] = (double)(n - 1);
    by[line++] = best;
    struct report_axis trials = {.name = "trial", .lo = 0, .hi = n > 1 ? (double)(n - 1) : 1};
    struct report_chart *chart = report_chart_new("Value of each trial, and the best value so far",
                                                  trials, value_axis(c, metric, t));
    report_chart_points(chart, x, y, n);
    report_chart_line(chart, "best", bx, by, line);
    report_document_figure(d, "History: the value of each trial, and the best so far",
                           report_chart_finish(chart));
}

/* ---- importance ----------------------------------------------------------------------------- */

static void add_bars(struct report_document *d, const struct sweep_report_importance *importance,
                     size_t n)
{
    struct report_bar bars[BARS_MAX] = {{0}};
    n = n < BARS_MAX ? n : BARS_MAX;
    for (size_t i = 0; i < n; i++)
        bars[i] = (struct report_bar){report_document_shown(d, importance[i].name),
                                      importance[i].share, importance[i].low, importance[i].high};
    report_document_figure(d, "Importance of the parameters, with an interval of 90 %",
                           report_chart_bars("Importance of the parameters", bars, n));
    for (size_t i = 0; i < n; i++)
        free((char *)bars[i].name);
}

/* ---- slices --------------------------------------------------------------------------------- */

struct slice {
    size_t column;
    const struct distribution *d;
    char **labels;   /* of a category, a strv; NULL: numbers */
    char **texts;    /* their JSON */
    double *numbers; /* NAN: not a number */
};

static double position(const struct slice *s, const struct sweep_columns *c, struct columns_value v)
{
    const char *text =
        v.kind == COLUMNS_JSON ? text_table_at(sweep_columns_texts(c), v.json) : NULL;
    if (v.kind == COLUMNS_ABSENT)
        return NAN;
    if (!s->labels)
        return text ? strtod(text, NULL) : v.number;
    for (size_t i = 0; s->labels[i]; i++)
        if (text ? strcmp(s->texts[i], text) == 0 : s->numbers[i] == v.number)
            return (double)i;
    return NAN;
}

static void read_labels(struct slice *s, const struct report_document *d)
{
    size_t n = (size_t)distribution_count(s->d);
    s->numbers = xcalloc(n + 1, sizeof *s->numbers);
    for (size_t i = 0; i < n; i++) {
        AUTO(json) json_t *v = distribution_value(s->d, (double)i);
        char *text = json_line(v);
        s->numbers[i] = json_is_number(v) ? json_number_value(v) : (double)NAN;
        strv_push(&s->texts, text);
        strv_push(&s->labels,
                  report_document_shown(d, json_is_string(v) ? json_string_value(v) : text));
    }
}

static struct report_axis axis_of(const struct slice *s, const char *name, const double *x,
                                  size_t n)
{
    struct report_axis a = {.name = name, .lo = s->d->lo, .hi = s->d->hi};
    if (s->labels)
        return (struct report_axis){.name = name,
                                    .lo = -0.5,
                                    .hi = (double)strv_len(s->labels) - 0.5,
                                    .categories = (const char *const *)s->labels};
    if (!isfinite(a.lo) || !isfinite(a.hi) || !(a.lo < a.hi)) {
        a.lo = INFINITY;
        a.hi = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            a.lo = fmin(a.lo, x[i]);
            a.hi = fmax(a.hi, x[i]);
        }
        widen(&a);
    }
    enum distribution_kind k = s->d->kind;
    a.log = a.lo > 0 && (k == DISTRIBUTION_INT_LOG || k == DISTRIBUTION_LOG_UNIFORM ||
                         k == DISTRIBUTION_LOG_NORMAL);
    return a;
}

static void draw_slice(struct report_document *d, const struct sweep_columns *c,
                       const struct sweep_report_totals *t, const struct slice *s, const char *name,
                       const char *metric)
{
    size_t n = t->order_count;
    AUTO(free) double *x = xcalloc(n, sizeof *x);
    AUTO(free) double *y = xcalloc(n, sizeof *y);
    AUTO(free) char *shown = report_document_shown(d, name);
    AUTO(free) char *caption = xasprintf("Slice: the value by %s", shown);
    for (size_t i = 0; i < n; i++) {
        size_t trial = (size_t)t->order[i];
        /* Points of a category are spread over its width. */
        double spread = s->labels ? (double)((trial * 2654435761U >> 8) % 1000) / 1000 - 0.5 : 0;
        x[i] = position(s, c, sweep_columns_value(c, s->column, trial)) + spread * 0.7;
        y[i] = sweep_columns_score(c, trial);
    }
    struct report_chart *chart =
        report_chart_new(caption, axis_of(s, shown, x, n), value_axis(c, metric, t));
    report_chart_points(chart, x, y, n);
    report_document_figure(d, caption, report_chart_finish(chart));
}

static void add_slice(struct report_document *d, const struct sweep_columns *c,
                      const struct spec *spec, const struct sweep_report_totals *t,
                      const char *name, const char *metric)
{
    struct slice s = {.column = SIZE_MAX};
    for (size_t i = 0; i < space_dims(spec->space); i++)
        if (strcmp(space_name(spec->space, i), name) == 0)
            s.d = space_distribution(spec->space, i);
    for (size_t i = 0; i < sweep_columns_param_count(c); i++)
        if (strcmp(sweep_columns_param(c, i)->name, name) == 0)
            s.column = i;
    if (!s.d || s.column == SIZE_MAX)
        return;
    if (s.d->kind == DISTRIBUTION_CATEGORICAL)
        read_labels(&s, d);
    draw_slice(d, c, t, &s, name, metric);
    strv_free(s.labels);
    strv_free(s.texts);
    free(s.numbers);
}

/* ---- learning curves ------------------------------------------------------------------------ */

static void add_curves(struct report_document *d, const struct sweep_columns *c,
                       const struct sweep_report_totals *t, const char *name, const char *metric)
{
    struct report_axis steps = {.name = "step", .lo = INFINITY, .hi = -INFINITY};
    struct report_axis values = {.name = metric, .lo = INFINITY, .hi = -INFINITY};
    const struct trial_curve *curves[CURVES_MAX];
    size_t n = 0, most = 0;
    for (size_t i = 0; i < t->order_count && n < CURVES_MAX; i++) {
        const struct columns_metric *m = sweep_columns_metric(c, (size_t)t->order[i], name);
        if (!m || m->curve.count < 2)
            continue;
        curves[n++] = &m->curve;
        most = m->curve.count > most ? m->curve.count : most;
        for (size_t k = 0; k < m->curve.count; k++) {
            steps.lo = fmin(steps.lo, m->curve.points[k].step);
            steps.hi = fmax(steps.hi, m->curve.points[k].step);
            values.lo = fmin(values.lo, m->curve.points[k].value);
            values.hi = fmax(values.hi, m->curve.points[k].value);
        }
    }
    if (n == 0)
        return;
    widen(&values);
    AUTO(free) double *x = xcalloc(most, sizeof *x);
    AUTO(free) double *y = xcalloc(most, sizeof *y);
    struct report_chart *chart =
        report_chart_new("Learning curves of the best trials", steps, values);
    for (size_t i = n; i-- > 0;) { /* the best one is on top */
        for (size_t k = 0; k < curves[i]->count; k++) {
            x[k] = curves[i]->points[k].step;
            y[k] = curves[i]->points[k].value;
        }
        report_chart_line(chart, i == 0 ? "best" : "curve", x, y, curves[i]->count);
    }
    AUTO(free) char *caption = xasprintf("Learning curves of the %zu best trials", n);
    report_document_figure(d, caption, report_chart_finish(chart));
}

void sweep_report_pictures(struct report_document *d, const struct sweep_columns *c,
                           const struct spec *spec, const struct sweep_report_totals *t,
                           const struct sweep_report_importance *importance, size_t n)
{
    const char *name = spec->metrics[0].name;
    AUTO(free) char *metric = report_document_shown(d, name ? name : "value");
    if (t->order_count == 0)
        return;
    add_history(d, c, t, metric, spec->metrics[0].maximize);
    if (n > 0)
        add_bars(d, importance, n);
    for (size_t i = 0; i < n && i < SLICES_MAX; i++)
        add_slice(d, c, spec, t, importance[i].name, metric);
    for (size_t i = 0; n == 0 && i < space_dims(spec->space) && i < SLICES_MAX; i++)
        add_slice(d, c, spec, t, space_name(spec->space, i), metric);
    if (name)
        add_curves(d, c, t, name, metric);
}
