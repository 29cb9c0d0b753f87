#include "serve/data/serve_curves.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/json.h"
#include "serve/data/serve_pack.h"

enum { SAMPLE_MAX = 20000 }; /* points that decide about the range of values */

struct frame { /* of a grid */
    double x0, x1, y0, y1;
    size_t curves, points;
    bool log;
};

static const struct trial_curve *curve_of(const struct sweep_columns *c, size_t trial,
                                          const char *metric)
{
    const struct columns_metric *m = sweep_columns_metric(c, trial, metric);
    return m && m->curve.count > 0 ? &m->curve : NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Counts the points and finds the range of steps. */
static struct frame frame_of(const struct sweep_columns *c, const char *metric)
{
    struct frame f = {INFINITY, -INFINITY, NAN, NAN, 0, 0, false};
    for (size_t i = 0; i < c->count; i++) {
        const struct trial_curve *curve = curve_of(c, i, metric);
        if (!curve)
            continue;
        f.curves++;
        f.points += curve->count;
        f.x0 = fmin(f.x0, curve->points[0].step);
        f.x1 = fmax(f.x1, curve->points[curve->count - 1].step);
    }
    return f;
}

/* Sets the range of values from a sample of the points. */
static void set_values(struct frame *f, const struct sweep_columns *c,
                       const struct serve_curves_grid *g, bool maximize)
{
    size_t every = f->points / SAMPLE_MAX + 1, n = 0, at = 0;
    AUTO(free) double *sample = xcalloc(f->points / every + 2, sizeof *sample);
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        const struct trial_curve *curve = curve_of(c, i, g->metric);
        for (size_t k = 0; curve && k < curve->count; k++) {
            double v = curve->points[k].value;
            if (at++ % every == 0)
                sample[n++] = v;
            least = fmin(least, v);
            most = fmax(most, v);
        }
    }
    qsort(sample, n, sizeof *sample, ascending);
    f->y0 = maximize ? sample[n / 50] : least;
    f->y1 = maximize ? most : sample[n - 1 - n / 50];
    f->log = g->log && least > 0;
    if (f->y1 <= f->y0) {
        double d = fabs(f->y0) > 0 ? fabs(f->y0) / 10 : 1;
        f->y0 -= f->log ? 0 : d;
        f->y1 += d;
    }
    if (f->x1 <= f->x0)
        f->x1 = f->x0 + 1;
}

/* The row of a value, which may lie outside of the grid. */
static double row_of(const struct frame *f, double v, size_t height)
{
    double u = f->log ? log(v / f->y0) / log(f->y1 / f->y0) : (v - f->y0) / (f->y1 - f->y0);
    return (1 - u) * (double)(height - 1);
}

static void draw(uint32_t *count, const struct serve_curves_grid *g, const struct frame *f,
                 const struct trial_curve *curve)
{
    double scale = (double)(g->width - 1) / (f->x1 - f->x0), px = NAN, py = NAN;
    for (size_t k = 0; k < curve->count; k++) {
        double x = (curve->points[k].step - f->x0) * scale;
        double y = row_of(f, curve->points[k].value, g->height);
        double slope = k > 0 && x > px ? (y - py) / (x - px) : 0;
        /* A cell per column; the first column of a piece belongs to the piece before it. */
        for (double at = k > 0 ? floor(px) + 1 : floor(x); at <= floor(x); at++) {
            double row = k > 0 ? y - slope * (x - fmin(fmax(at, px), x)) : y;
            if (row > -0.5 && row < (double)g->height - 0.5)
                count[(size_t)lround(row) * g->width + (size_t)at]++;
        }
        px = x;
        py = y;
    }
}

void serve_curves_density(struct strbuf *out, const struct sweep_columns *c,
                          const struct serve_curves_grid *g, bool maximize)
{
    struct serve_pack pack = {0};
    struct frame f = frame_of(c, g->metric);
    uint32_t *count = serve_pack_add(&pack, "count", SERVE_PACK_U32, g->width * g->height);
    if (f.points > 0)
        set_values(&f, c, g, maximize);
    for (size_t i = 0; f.points > 0 && i < c->count; i++) {
        const struct trial_curve *curve = curve_of(c, i, g->metric);
        if (curve)
            draw(count, g, &f, curve);
    }
    json_t *steps = f.points > 0 ? json_pack("[f,f]", f.x0, f.x1) : json_null();
    json_t *values = f.points > 0 ? json_pack("[f,f]", f.y0, f.y1) : json_null();
    serve_pack_finish(out, &pack,
                      json_pack("{s:s,s:I,s:I,s:o,s:o,s:b,s:i,s:i}", "metric", g->metric, "curves",
                                (json_int_t)f.curves, "points", (json_int_t)f.points, "steps",
                                steps, "values", values, "log", f.log, "width", (int)g->width,
                                "height", (int)g->height));
}

void serve_curves_of(struct strbuf *out, const struct sweep_columns *c, const char *metric,
                     const int *trials, size_t count)
{
    struct serve_pack pack = {0};
    size_t n = 0, at = 0;
    AUTO(free) const struct trial_curve **curves = xcalloc(count + 1, sizeof *curves);
    json_t *ids = json_array();
    for (size_t i = 0; i < count; i++) {
        bool exists = trials[i] >= 0 && (size_t)trials[i] < c->count;
        curves[i] = exists ? curve_of(c, (size_t)trials[i], metric) : NULL;
        n += curves[i] ? curves[i]->count : 0;
        json_array_append_new(ids, json_integer(trials[i]));
    }
    uint32_t *start = serve_pack_add(&pack, "start", SERVE_PACK_U32, count + 1);
    for (size_t i = 0; i < count; i++)
        start[i + 1] = start[i] + (curves[i] ? (uint32_t)curves[i]->count : 0);
    float *step = serve_pack_add(&pack, "step", SERVE_PACK_F32, n);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; curves[i] && k < curves[i]->count; k++)
            step[at++] = (float)curves[i]->points[k].step;
    float *value = serve_pack_add(&pack, "value", SERVE_PACK_F32, n);
    at = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; curves[i] && k < curves[i]->count; k++)
            value[at++] = (float)curves[i]->points[k].value;
    serve_pack_finish(out, &pack, json_pack("{s:s,s:o}", "metric", metric, "ids", ids));
}
