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
    EVEN_POINTS = 600,      /* points that fill the cube evenly */
    BEST_POINTS = 3,        /* best known points that are perturbed */
    CHANGES_PER_WIDTH = 40, /* perturbations of each best point, per width */
    CLIMBS = 16, /* gradient climbs from promising points, in addition to those from the best known
                    points */
    CLIMB_EVALUATIONS = 40, /* evaluations per climb */
    ROUNDS = 3,             /* rounds of steps to neighbouring values */
    PENALTY = 20000,        /* weight of the difference if ln P[success] is below success_min */
    /* values of a category that are tried per point and round of neighbours */
    VALUES_PER_CATEGORY = 12,
};
static const double same = 1e-9; /* points that are closer count as equal */
static const double widths[] = {0.2, 0.05, 0.01, 0.001};

/* ---- the target ----------------------------------------------------------------------------- */

struct prediction { /* a model's prediction at n points */
    double *mean, *var, *dmean, *dvar;
};

static struct prediction predict(struct gp *g, const struct kernel_points *at, size_t cols,
                                 bool slopes, double *buffer)
{
    struct prediction a = {.mean = buffer, .var = buffer + at->n};
    if (slopes) {
        a.dmean = a.var + at->n;
        a.dvar = a.dmean + at->n * cols;
    }
    gp_predict(g, at, a.mean, a.var, a.dmean, a.dvar);
    return a;
}

/* Adds by[0] dmean + by[1] dvar to the slope at point i, if there is a slope. */
static void chain(double *slope, const struct prediction *a, size_t i, size_t cols,
                  const double by[2])
{
    for (size_t c = 0; slope && c < cols; c++)
        slope[i * cols + c] += by[0] * a->dmean[i * cols + c] + by[1] * a->dvar[i * cols + c];
}

/* Adds ln P[success] to the values, with a penalty for points at which it is below success_min.
 * Adds the derivatives to `slope` unless NULL. */
static void add_success_probability(const struct bayes_acquisition_target *t,
                                    const struct kernel_points *at, double *value, double *slope)
{
    size_t cols = t->space->shape.cols;
    AUTO(free) double *buffer = xcalloc(2 * cols, sizeof *buffer);
    double *x = buffer, *by = buffer + cols;
    for (size_t i = 0; i < at->n; i++) {
        for (size_t c = 0; c < cols; c++)
            x[c] = at->x[c * at->stride + i];
        double success = gp_classifier_log_success(t->success, x, slope ? by : NULL);
        double short_of = fmin(success - t->success_min, 0), weight = short_of < 0 ? PENALTY : 1;
        value[i] += success + (PENALTY - 1) * short_of;
        for (size_t c = 0; slope && c < cols; c++)
            slope[i * cols + c] += weight * by[c];
    }
}

/* Adds ln P of each bound to the values, and the derivatives to `slope` unless NULL. `buffer` is as
 * for predict(). */
static void add_feasibility(const struct bayes_acquisition_target *t,
                            const struct kernel_points *at, double *value, double *slope,
                            double *buffer)
{
    size_t cols = t->space->shape.cols;
    for (const struct bayes_acquisition_bound *b = t->bounds; b < t->bounds + t->bound_count; b++) {
        struct prediction p = predict(b->model, at, cols, slope, buffer);
        for (size_t i = 0; i < at->n; i++) {
            double by[2], sd = sqrt(p.var[i]);
            value[i] += acquisition_log_within(b->low, b->high, p.mean[i], t->widen * sd, by);
            by[1] *= t->widen / (2 * sd);
            chain(slope, &p, i, cols, by);
        }
    }
}

double bayes_acquisition_log_feasible(const struct bayes_acquisition_target *t, const double *x)
{
    double value = 0, buffer[2];
    add_feasibility(t, &(struct kernel_points){x, 1, 1}, &value, NULL, buffer);
    return value;
}

void bayes_acquisition_target_at(const struct bayes_acquisition_target *t,
                                 const struct kernel_points *at, double *value, double *slope)
{
    size_t cols = t->space->shape.cols, size = at->n * (2 + (slope ? 2 * cols : 0));
    AUTO(free) double *buffer = xcalloc(2 * size, sizeof *buffer);
    struct prediction first = predict(t->value, at, cols, slope, buffer);
    struct prediction second = {0};
    if (t->second)
        second = predict(t->second, at, cols, slope, buffer + size);
    if (slope)
        memset(slope, 0, at->n * cols * sizeof *slope);
    memset(value, 0, at->n * sizeof *value);
    for (size_t i = 0; i < at->n && !t->seek; i++) {
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
    add_feasibility(t, at, value, slope, buffer);
    if (t->success)
        add_success_probability(t, at, value, slope);
}

/* ---- candidates ----------------------------------------------------------------------------- */

struct candidate {
    double *u; /* dims numbers */
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

/* Evaluates the target at the exact values of candidates `from` … `to` - 1. The value is -INFINITY
 * if a constraint does not allow the point. */
static void evaluate(struct pool *p, size_t from, size_t to)
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

/* Returns a normal deviate (Box & Muller 1958). */
static double normal(struct rng *r)
{
    double a = rng_unit(r), b = rng_unit(r);
    return sqrt(-2 * log(1 - a)) * cos(2 * M_PI * b);
}

/* Sets u to `from` with about five coordinates changed: numbers by normal deviates times `width`,
 * categories to a random value, with probability 0.1 + width. */
static void perturb(struct pool *p, const double *from, double width, double *u)
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
            u[i] = dim->positions[rng_below(&p->rng, dim->count)];
    }
}

static void fill(struct pool *p)
{
    const struct bayes_acquisition *s = p->s;
    size_t even = (size_t)(EVEN_POINTS * s->effort),
           changes = (size_t)(CHANGES_PER_WIDTH * s->effort);
    for (; p->count < even; p->count++)
        sobol_point(s->seed ^ s->stream * 0x9e3779b97f4a7c15, p->count, p->dims, p->c[p->count].u);
    for (size_t k = 0; k < BEST_POINTS && k < s->known_count; k++)
        for (size_t w = 0; w < COUNT_OF(widths); w++)
            for (size_t i = 0; i < changes; i++)
                perturb(p, s->known + k * p->dims, widths[w], p->c[p->count++].u);
    evaluate(p, 0, p->count);
}

static double distance(const struct pool *p, const double *a, const double *b)
{
    double most = 0;
    for (size_t i = 0; i < p->dims; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* Moves to the front of p->c the most promising candidates that are not close to each other, and
 * then the best known points. Returns the number of both together. */
static size_t choose_starts(struct pool *p)
{
    size_t starts = (size_t)fmax(2, CLIMBS * p->s->effort), count = 0;
    qsort(p->c, p->count, sizeof *p->c, by_value);
    for (size_t i = 0; i < p->count && count < starts && p->c[i].value > -INFINITY; i++) {
        bool near = false;
        for (size_t k = 0; k < count && !near; k++)
            near = distance(p, p->c[i].u, p->c[k].u) < 0.01;
        if (near)
            continue;
        struct candidate c = p->c[count];
        p->c[count++] = p->c[i];
        p->c[i] = c;
    }
    /* The known points overwrite the last candidates of the pool. */
    for (size_t k = 0; k < BEST_POINTS && k < p->s->known_count && count < p->count; k++) {
        struct candidate c = p->c[p->count - 1];
        p->c[p->count - 1] = p->c[count];
        p->c[count++] = c;
        memcpy(c.u, p->s->known + k * p->dims, p->dims * sizeof *c.u);
    }
    evaluate(p, 0, count);
    return count;
}

/* ---- climbing ------------------------------------------------------------------------------- */

/* Creates one climb for each of the first n candidates. It varies the candidate's numbers; the
 * categories are fixed. */
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
        l[i] = lbfgs_new(p->dims, lo, hi, p->c[i].u, CLIMB_EVALUATIONS, 1e-4);
    }
}

/* Sets g to the gradient at u of the function that a climb minimises. `slope` is the slope of the
 * target by the columns. A number that is not active has the gradient 0, since its column is
 * constant. */
static void descent(const struct pool *p, const double *u, const double *slope, double *g)
{
    AUTO(free) double *settled = xcalloc(p->dims, sizeof *settled);
    AUTO(free) bool *active = xcalloc(p->dims, sizeof *active);
    bool all = p->space->shape.smooth; /* every parameter is always active */
    memcpy(settled, u, p->dims * sizeof *u);
    if (!all)
        space_snap(p->space->space, settled, active);
    for (size_t k = 0; k < p->dims; k++) {
        const struct bayes_dim *dim = &p->space->dim[k];
        g[k] = !dim->count && (all || active[k]) ? -slope[dim->col] : 0;
    }
}

/* Makes one evaluation for each climb that is active. Returns false if none is active. */
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

/* Climbs from the first n candidates. A candidate moves to the best point of its climb if the
 * target at this point's exact values is larger. */
static void climb(struct pool *p, size_t n)
{
    AUTO(free) struct lbfgs **l = xcalloc(n, sizeof *l);
    climb_set(p, l, n);
    while (climb_step(p, l, n))
        ;
    AUTO(free) struct candidate *before = xcalloc(n, sizeof *before);
    AUTO(free) double *points = xcalloc(n * p->dims, sizeof *points);
    for (size_t i = 0; i < n; i++) {
        const double *x = NULL;
        before[i] = p->c[i];
        memcpy(points + i * p->dims, p->c[i].u, p->dims * sizeof *points);
        lbfgs_best(l[i], &x);
        memcpy(p->c[i].u, x, p->dims * sizeof *x);
        lbfgs_free(l[i]);
    }
    evaluate(p, 0, n);
    for (size_t i = 0; i < n; i++)
        if (!(p->c[i].value > before[i].value)) {
            p->c[i].value = before[i].value;
            memcpy(p->c[i].u, points + i * p->dims, p->dims * sizeof *points);
        }
}

/* ---- neighbours ----------------------------------------------------------------------------- */

/* Sets at most `count` candidates from p->c[at] on to points that differ from u in one category, or
 * in one number by its smallest step. Evaluates them and returns their number. */
static size_t neighbours(struct pool *p, const double *u, size_t at, size_t count)
{
    size_t from = at, end = at + count;
    for (size_t i = 0; i < p->dims; i++) {
        const struct bayes_dim *dim = &p->space->dim[i];
        size_t now = dim->count ? bayes_features_value(p->space, i, u[i]) : 0;
        size_t shift = dim->count > VALUES_PER_CATEGORY ? rng_below(&p->rng, dim->count) : 0;
        for (size_t k = 0; k < VALUES_PER_CATEGORY && k < dim->count && at < end; k++) {
            size_t value = (k + shift) % dim->count;
            if (value == now)
                continue;
            memcpy(p->c[at].u, u, p->dims * sizeof *u);
            p->c[at++].u[i] = dim->positions[value];
        }
        for (int by = -1; dim->whole && by <= 1 && at < end; by += 2) {
            memcpy(p->c[at].u, u, p->dims * sizeof *u);
            p->c[at++].u[i] =
                distribution_neighbor(space_distribution(p->space->space, i), u[i], by);
        }
    }
    evaluate(p, from, at);
    return at - from;
}

/* Moves each of the first n candidates to its best neighbour if that is better. Overwrites all
 * other candidates. Returns true if a candidate has moved. */
static bool move_to_neighbours(struct pool *p, size_t n)
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
    size_t size = EVEN_POINTS + BEST_POINTS * COUNT_OF(widths) * CHANGES_PER_WIDTH;
    AUTO(free) struct candidate *c = xcalloc(size, sizeof *c);
    AUTO(free) double *u = xcalloc(size * p.dims, sizeof *u);
    for (size_t i = 0; i < size; i++)
        c[i].u = u + i * p.dims;
    p.c = c;
    rng_seed(&p.rng, s->seed, s->stream);
    fill(&p);
    size_t n = choose_starts(&p);
    climb(&p, n);
    for (int round = 0; round < ROUNDS && !p.space->shape.smooth && move_to_neighbours(&p, n);
         round++)
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
            again = distance(&p, at, out + k * p.dims) < same;
        count += !again;
    }
    return count;
}
