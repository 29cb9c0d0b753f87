#include "hpo/samplers/bayes_acquisition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "hpo/model/acquisition.h"
#include "hpo/model/lbfgs.h"
#include "hpo/model/pareto.h"
#include "hpo/model/sobol.h"
#include "hpo/space/distribution.h"

enum {
    EVEN = 600,    /* points that fill the cube */
    AROUND = 3,    /* best known points that are changed a little, */
    CHANGES = 40,  /* so often at each width */
    STARTS = 16,   /* of gradient steps: that many promising points, and the best known ones */
    STEPS = 40,    /* evaluations of a climb */
    ROUNDS = 3,    /* of steps to neighbouring values */
    STEEP = 20000, /* weight of ln P[success] where it is less than it should be */
    OTHERS = 12,   /* values of a category that are tried for each point and round */
};
static const double same = 1e-9; /* of the cube */
static const double widths[] = {0.2, 0.05, 0.01, 0.001};

/* ---- the target --------------------------------------------------------------------------------
 */

struct answer { /* of a model at n points */
    double *mean, *var, *dmean, *dvar;
};

static struct answer ask(struct gp *g, const struct kernel_points *at, size_t cols, bool slopes,
                         double *room)
{
    struct answer a = {.mean = room, .var = room + at->n};
    if (!slopes) {
        gp_predict(g, at, a.mean, a.var);
        return a;
    }
    a.dmean = a.var + at->n;
    a.dvar = a.dmean + at->n * cols;
    gp_predict_slopes(g, at, a.mean, a.var, a.dmean, a.dvar);
    return a;
}

/* slope += by_mean dmean + by_var dvar, for point i */
static void chain(double *slope, const struct answer *a, size_t i, size_t cols, const double by[2])
{
    for (size_t c = 0; slope && c < cols; c++)
        slope[i * cols + c] += by[0] * a->dmean[i * cols + c] + by[1] * a->dvar[i * cols + c];
}

/* Adds what the chance of success is worth. */
static void be_cautious(const struct bayes_acquisition_target *t, const struct kernel_points *at,
                        double *value, double *slope)
{
    size_t cols = t->space->shape.cols;
    AUTO(free) double *room = xcalloc(2 * cols, sizeof *room);
    double *x = room, *by = room + cols;
    for (size_t i = 0; i < at->n; i++) {
        for (size_t c = 0; c < cols; c++)
            x[c] = at->x[c * at->stride + i];
        double success = gp_classifier_log_success(t->success, x, slope ? by : NULL);
        double short_of = fmin(success - t->success_min, 0), weight = short_of < 0 ? STEEP : 1;
        value[i] += success + (STEEP - 1) * short_of;
        for (size_t c = 0; slope && c < cols; c++)
            slope[i * cols + c] += weight * by[c];
    }
}

void bayes_acquisition_target_at(const struct bayes_acquisition_target *t,
                                 const struct kernel_points *at, double *value, double *slope)
{
    size_t cols = t->space->shape.cols, size = at->n * (2 + (slope ? 2 * cols : 0));
    AUTO(free) double *room = xcalloc(2 * size, sizeof *room);
    struct answer first = ask(t->value, at, cols, slope, room);
    struct answer second = {0};
    if (t->second)
        second = ask(t->second, at, cols, slope, room + size);
    if (slope)
        memset(slope, 0, at->n * cols * sizeof *slope);
    for (size_t i = 0; i < at->n; i++) {
        double by[2], by2[4];
        if (t->second) {
            double sd[2] = {sqrt(first.var[i]), sqrt(second.var[i])};
            value[i] = pareto_log_ehvi2(t->front, t->front_count, t->ref,
                                        (double[]){first.mean[i], second.mean[i]}, sd, by2);
            chain(slope, &first, i, cols, (double[]){by2[0], by2[2] / (2 * sd[0])});
            chain(slope, &second, i, cols, (double[]){by2[1], by2[3] / (2 * sd[1])});
        } else {
            double sd = sqrt(first.var[i]);
            value[i] = acquisition_log_ei(t->best, first.mean[i], t->widen * sd, by);
            by[1] *= t->widen / (2 * sd);
            chain(slope, &first, i, cols, by);
        }
    }
    if (t->success)
        be_cautious(t, at, value, slope);
}

/* ---- candidates --------------------------------------------------------------------------------
 */

struct candidate {
    double *u; /* dims */
    double value;
};

struct pool {
    const struct bayes_acquisition *s;
    const struct bayes_features *space;
    size_t dims, count;
    struct candidate *c;
    struct rng rng;
};

static int by_value(const void *a, const void *b)
{
    double x = ((const struct candidate *)a)->value, y = ((const struct candidate *)b)->value;
    return x > y ? -1 : x < y;
}

/* The target at candidates `from` … `to` - 1, as their values are; -INFINITY where not allowed. */
static void judge(struct pool *p, size_t from, size_t to)
{
    size_t n = to - from, cols = p->space->shape.cols, count = 0;
    AUTO(free) double *x = xcalloc(n * (cols + 1) + 1, sizeof *x);
    AUTO(free) size_t *which = xcalloc(n + 1, sizeof *which);
    double *value = x + n * cols;
    for (size_t i = from; i < to; i++) {
        p->c[i].value = -INFINITY;
        if (!space_allows(p->space->space, p->c[i].u))
            continue;
        bayes_features_columns(p->space, p->c[i].u, true, x + count, n);
        which[count++] = i;
    }
    if (count)
        bayes_acquisition_target_at(p->s->target, &(struct kernel_points){x, count, n}, value,
                                    NULL);
    for (size_t i = 0; i < count; i++)
        p->c[which[i]].value = isnan(value[i]) ? -INFINITY : value[i];
}

/* A normal deviate (Box & Muller 1958). */
static double normal(struct rng *r)
{
    double a = rng_unit(r), b = rng_unit(r);
    return sqrt(-2 * log(1 - a)) * cos(2 * M_PI * b);
}

/* u: `from` with some coordinates changed, about five of them, by so much. */
static void change(struct pool *p, const double *from, double width, double *u)
{
    double share = fmin(1, 5.0 / (double)p->dims);
    memcpy(u, from, p->dims * sizeof *u);
    for (size_t i = 0; i < p->dims; i++) {
        const struct bayes_dim *dim = &p->space->dim[i];
        if (rng_unit(&p->rng) >= share)
            continue;
        if (!dim->count)
            u[i] = fmin(1, fmax(0, u[i] + width * normal(&p->rng)));
        else if (rng_unit(&p->rng) < 0.1 + width)
            u[i] = dim->places[rng_below(&p->rng, dim->count)];
    }
}

static void fill(struct pool *p)
{
    const struct bayes_acquisition *s = p->s;
    size_t even = (size_t)(EVEN * s->effort), changes = (size_t)(CHANGES * s->effort);
    for (; p->count < even; p->count++)
        sobol_point(s->seed ^ s->stream * 0x9e3779b97f4a7c15, p->count, p->dims, p->c[p->count].u);
    for (size_t k = 0; k < AROUND && k < s->known_count; k++)
        for (size_t w = 0; w < COUNT_OF(widths); w++)
            for (size_t i = 0; i < changes; i++)
                change(p, s->known + k * p->dims, widths[w], p->c[p->count++].u);
    judge(p, 0, p->count);
}

static double apart(const struct pool *p, const double *a, const double *b)
{
    double most = 0;
    for (size_t i = 0; i < p->dims; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* The most promising candidates that are not side by side, and the best known points, to the front.
 * How many they are. */
static size_t start(struct pool *p)
{
    size_t starts = (size_t)fmax(2, STARTS * p->s->effort), count = 0;
    qsort(p->c, p->count, sizeof *p->c, by_value);
    for (size_t i = 0; i < p->count && count < starts && p->c[i].value > -INFINITY; i++) {
        bool near = false;
        for (size_t k = 0; k < count && !near; k++)
            near = apart(p, p->c[i].u, p->c[k].u) < 0.01;
        if (near)
            continue;
        struct candidate c = p->c[count];
        p->c[count++] = p->c[i];
        p->c[i] = c;
    }
    /* The last ones of the pool make room. */
    for (size_t k = 0; k < AROUND && k < p->s->known_count && count < p->count; k++) {
        struct candidate c = p->c[p->count - 1];
        p->c[p->count - 1] = p->c[count];
        p->c[count++] = c;
        memcpy(c.u, p->s->known + k * p->dims, p->dims * sizeof *c.u);
    }
    judge(p, 0, count);
    return count;
}

/* ---- climbing ----------------------------------------------------------------------------------
 */

/* One climb for each of the first n candidates, over its numbers; categories stay. */
static void climb_set(const struct pool *p, struct lbfgs **l, size_t n)
{
    AUTO(free) double *lo = xcalloc(2 * p->dims, sizeof *lo);
    double *hi = lo + p->dims;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < p->dims; k++) {
            bool moves = !p->space->dim[k].count;
            lo[k] = moves ? 0 : p->c[i].u[k];
            hi[k] = moves ? 1 : p->c[i].u[k];
        }
        l[i] = lbfgs_new(p->dims, lo, hi, p->c[i].u, STEPS, 1e-4);
    }
}

/* g: the slope of what a climb minimises at its point u, from that of the target by the columns.
 * A number that is not active there has none: its column stands still. */
static void descent(const struct pool *p, const double *u, const double *slope, double *g)
{
    AUTO(free) double *settled = xcalloc(p->dims, sizeof *settled);
    AUTO(free) bool *active = xcalloc(p->dims, sizeof *active);
    bool all = p->space->shape.smooth; /* are always active */
    memcpy(settled, u, p->dims * sizeof *u);
    if (!all)
        space_snap(p->space->space, settled, active);
    for (size_t k = 0; k < p->dims; k++) {
        const struct bayes_dim *dim = &p->space->dim[k];
        g[k] = !dim->count && (all || active[k]) ? -slope[dim->col] : 0;
    }
}

/* One evaluation for each climb that wants one; false: none does. */
static bool climb_step(const struct pool *p, struct lbfgs **l, size_t n)
{
    size_t cols = p->space->shape.cols, count = 0;
    AUTO(free) double *x = xcalloc(n * (2 * cols + 1) + p->dims, sizeof *x);
    double *value = x + n * cols, *slope = value + n, *g = slope + n * cols;
    for (size_t i = 0; i < n; i++)
        if (lbfgs_is_active(l[i]))
            bayes_features_columns(p->space, lbfgs_x(l[i]), false, x + count++, n);
    if (count == 0)
        return false;
    bayes_acquisition_target_at(p->s->target, &(struct kernel_points){x, count, n}, value, slope);
    for (size_t i = 0, at = 0; i < n; i++) {
        if (!lbfgs_is_active(l[i]))
            continue;
        descent(p, lbfgs_x(l[i]), slope + at * cols, g);
        lbfgs_update(l[i], -value[at], g);
        at++;
    }
    return true;
}

/* Gradient steps from the first n candidates; each is then where its climb ended, if that is better
 * once values are exact. */
static void climb(struct pool *p, size_t n)
{
    AUTO(free) struct lbfgs **l = xcalloc(n, sizeof *l);
    climb_set(p, l, n);
    while (climb_step(p, l, n))
        ;
    AUTO(free) struct candidate *before = xcalloc(n, sizeof *before);
    AUTO(free) double *room = xcalloc(n * p->dims, sizeof *room);
    for (size_t i = 0; i < n; i++) {
        const double *x = NULL;
        before[i] = p->c[i];
        memcpy(room + i * p->dims, p->c[i].u, p->dims * sizeof *room);
        lbfgs_best(l[i], &x);
        memcpy(p->c[i].u, x, p->dims * sizeof *x);
        lbfgs_free(l[i]);
    }
    judge(p, 0, n);
    for (size_t i = 0; i < n; i++)
        if (!(p->c[i].value > before[i].value)) {
            p->c[i].value = before[i].value;
            memcpy(p->c[i].u, room + i * p->dims, p->dims * sizeof *room);
        }
}

/* ---- neighbours --------------------------------------------------------------------------------
 */

/* Candidates p->c[at …] that differ from u in one category or by one step. Returns how many. */
static size_t neighbours(struct pool *p, const double *u, size_t at, size_t room)
{
    size_t from = at, end = at + room;
    for (size_t i = 0; i < p->dims; i++) {
        const struct bayes_dim *dim = &p->space->dim[i];
        size_t now = dim->count ? bayes_features_value(p->space, i, u[i]) : 0;
        size_t shift = dim->count > OTHERS ? rng_below(&p->rng, dim->count) : 0;
        for (size_t k = 0; k < OTHERS && k < dim->count && at < end; k++) {
            size_t value = (k + shift) % dim->count;
            if (value == now)
                continue;
            memcpy(p->c[at].u, u, p->dims * sizeof *u);
            p->c[at++].u[i] = dim->places[value];
        }
        for (int by = -1; dim->whole && by <= 1 && at < end; by += 2) {
            memcpy(p->c[at].u, u, p->dims * sizeof *u);
            p->c[at++].u[i] =
                distribution_neighbor(space_distribution(p->space->space, i), u[i], by);
        }
    }
    judge(p, from, at);
    return at - from;
}

/* Each of the first n candidates goes to its best neighbour while that is better. Others than the
 * first n are lost. Whether any has moved. */
static bool step_aside(struct pool *p, size_t n)
{
    bool moved = false;
    for (size_t i = 0; i < n; i++) {
        size_t count = neighbours(p, p->c[i].u, n, p->count - n), best = i;
        for (size_t k = n; k < n + count; k++)
            if (p->c[k].value > p->c[best].value + 1e-9)
                best = k;
        if (best == i)
            continue;
        moved = true;
        p->c[i].value = p->c[best].value;
        memcpy(p->c[i].u, p->c[best].u, p->dims * sizeof *p->c[i].u);
    }
    return moved;
}

size_t bayes_acquisition_maximise(const struct bayes_acquisition *s, double *out, size_t most,
                                  double *value)
{
    struct pool p = {.s = s, .space = s->target->space, .dims = s->target->space->dims};
    size_t room = EVEN + AROUND * COUNT_OF(widths) * CHANGES;
    AUTO(free) struct candidate *c = xcalloc(room, sizeof *c);
    AUTO(free) double *u = xcalloc(room * p.dims, sizeof *u);
    for (size_t i = 0; i < room; i++)
        c[i].u = u + i * p.dims;
    p.c = c;
    rng_seed(&p.rng, s->seed, s->stream);
    fill(&p);
    size_t n = start(&p);
    climb(&p, n);
    for (int round = 0; round < ROUNDS && !p.space->shape.smooth && step_aside(&p, n); round++)
        climb(&p, n);
    qsort(p.c, p.count, sizeof *p.c, by_value);
    size_t count = 0;
    *value = p.c[0].value;
    for (size_t i = 0; count < most && i < p.count && p.c[i].value > -INFINITY; i++) {
        double *at = out + count * p.dims;
        bool again = false;
        memcpy(at, p.c[i].u, p.dims * sizeof *at);
        space_snap(p.space->space, at, NULL);
        for (size_t k = 0; k < count && !again; k++)
            again = apart(&p, at, out + k * p.dims) < same;
        count += !again;
    }
    return count;
}
