#include "hpo/model/lbfgs.h"

#include <math.h>
#include <string.h>

enum { PAIRS = 8, SHRINKS = 12 };
static const double armijo = 1e-4;

struct lbfgs {
    size_t n;
    int evals, evals_max;
    double tol;
    bool over;
    const double *lo, *hi;
    double *x, *g; /* the best point and its gradient */
    double f;      /* the value at x; INFINITY: no finite value yet */
    double *d;     /* the direction */
    double *trial; /* the requested point */
    double step;   /* distance of `trial` from x, in multiples of d */
    int shrinks;   /* number of times that this step was shortened */
    double *s, *y; /* PAIRS x n each: the last steps and changes of the gradient, as rings */
    double rho[PAIRS];
    int pairs, newest;
};

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

struct lbfgs *lbfgs_new(size_t n, const double *lo, const double *hi, const double *x, int evals,
                        double tol)
{
    struct lbfgs *l = xzalloc(sizeof *l);
    double *block = xcalloc((6 + 2 * PAIRS) * n + 1, sizeof *block);
    l->n = n;
    l->evals_max = evals;
    l->tol = tol;
    l->lo = memcpy(block, lo, n * sizeof *lo);
    l->hi = memcpy(block + n, hi, n * sizeof *hi);
    l->x = block + 2 * n;
    l->g = block + 3 * n;
    l->d = block + 4 * n;
    l->trial = block + 5 * n;
    l->s = block + 6 * n;
    l->y = block + (6 + PAIRS) * n;
    l->f = INFINITY;
    for (size_t i = 0; i < n; i++)
        l->x[i] = l->trial[i] = clamp(x[i], lo[i], hi[i]);
    return l;
}

void lbfgs_free(struct lbfgs *l)
{
    if (!l)
        return;
    free((double *)l->lo); /* lo is the start of the block that holds all vectors */
    free(l);
}

bool lbfgs_is_active(const struct lbfgs *l)
{
    return !l->over && l->evals < l->evals_max;
}

const double *lbfgs_x(const struct lbfgs *l)
{
    return l->trial;
}

double lbfgs_best(const struct lbfgs *l, const double **x)
{
    *x = l->x;
    return l->f;
}

/* Returns true if variable i is at a bound and the descent direction points out of the box. */
static bool held(const struct lbfgs *l, size_t i)
{
    return (l->x[i] <= l->lo[i] && l->g[i] > 0) || (l->x[i] >= l->hi[i] && l->g[i] < 0);
}

/* Sets the direction d = -H g for the free variables, and 0 for the held ones. H approximates the
 * inverse Hessian. */
static void two_loops(struct lbfgs *l)
{
    double alpha[PAIRS];
    for (size_t i = 0; i < l->n; i++)
        l->d[i] = held(l, i) ? 0 : -l->g[i];
    for (int k = 0; k < l->pairs; k++) {
        int at = (l->newest - k + PAIRS) % PAIRS;
        const double *s = l->s + (size_t)at * l->n, *y = l->y + (size_t)at * l->n;
        alpha[at] = l->rho[at] * dot(s, l->d, l->n);
        for (size_t i = 0; i < l->n; i++)
            l->d[i] -= alpha[at] * y[i];
    }
    if (l->pairs) {
        const double *y = l->y + (size_t)l->newest * l->n;
        double scale = 1 / (l->rho[l->newest] * dot(y, y, l->n));
        for (size_t i = 0; i < l->n; i++)
            l->d[i] *= scale;
    }
    for (int k = l->pairs - 1; k >= 0; k--) {
        int at = (l->newest - k + PAIRS) % PAIRS;
        const double *s = l->s + (size_t)at * l->n, *y = l->y + (size_t)at * l->n;
        double beta = l->rho[at] * dot(y, l->d, l->n);
        for (size_t i = 0; i < l->n; i++)
            l->d[i] += (alpha[at] - beta) * s[i];
    }
    for (size_t i = 0; i < l->n; i++)
        l->d[i] = held(l, i) ? 0 : l->d[i];
}

static void place_trial(struct lbfgs *l)
{
    for (size_t i = 0; i < l->n; i++)
        l->trial[i] = clamp(l->x[i] + l->step * l->d[i], l->lo[i], l->hi[i]);
}

/* Chooses a new direction from x and the next point to request. Ends the search if no direction
 * leads down. */
static void set_out(struct lbfgs *l)
{
    two_loops(l);
    double slope = dot(l->g, l->d, l->n), size = sqrt(dot(l->d, l->d, l->n));
    if (!(slope < 0) && l->pairs) { /* the stored pairs are misleading: use steepest descent */
        l->pairs = 0;
        two_loops(l);
        slope = dot(l->g, l->d, l->n);
        size = sqrt(dot(l->d, l->d, l->n));
    }
    if (!(slope < 0) || !isfinite(size)) {
        l->over = true;
        return;
    }
    double reach = 0; /* the widest side of the box, but at most 10 */
    for (size_t i = 0; i < l->n; i++)
        reach = fmax(reach, fmin(l->hi[i] - l->lo[i], 10));
    /* Without curvature information the step is at most a tenth of the box; with it, at most the
     * box. */
    l->step = l->pairs ? fmin(1, reach / size) : fmin(1, 0.1 * reach) / size;
    l->shrinks = 0;
    place_trial(l);
}

/* Stores the step from x to `trial` and the change of the gradient as a pair, if the curvature
 * along the step is positive. */
static void keep_pair(struct lbfgs *l, const double *g)
{
    double sy = 0, ss = 0, yy = 0;
    for (size_t i = 0; i < l->n; i++) {
        double step = l->trial[i] - l->x[i], turn = g[i] - l->g[i];
        sy += step * turn;
        ss += step * step;
        yy += turn * turn;
    }
    if (!(sy > 1e-10 * sqrt(ss * yy)))
        return;
    int at = (l->newest + 1) % PAIRS;
    double *s = l->s + (size_t)at * l->n, *y = l->y + (size_t)at * l->n;
    for (size_t i = 0; i < l->n; i++) {
        s[i] = l->trial[i] - l->x[i];
        y[i] = g[i] - l->g[i];
    }
    l->rho[at] = 1 / sy;
    l->newest = at;
    l->pairs += l->pairs < PAIRS;
}

/* Shortens the step to the minimum of a parabola, within [0.1, 0.5] of the old step. The parabola
 * has the value and slope at x and the value f at the end of the step. */
static void shrink(struct lbfgs *l, double f, double moved)
{
    double cut = isfinite(f) ? -0.5 * moved / (f - l->f - moved) : 0.1;
    l->step *= clamp(isfinite(cut) ? cut : 0.5, 0.1, 0.5);
    if (++l->shrinks > SHRINKS)
        l->over = true;
    place_trial(l);
}

void lbfgs_update(struct lbfgs *l, double f, const double *g)
{
    bool finite = isfinite(f);
    for (size_t i = 0; i < l->n; i++)
        finite = finite && isfinite(g[i]);
    if (++l->evals == 1) {
        if (!finite) {
            l->over = true;
            return;
        }
        l->f = f;
        memcpy(l->g, g, l->n * sizeof *g);
        set_out(l);
        return;
    }
    double moved = 0; /* the decrease that the slope at x predicts for the step */
    for (size_t i = 0; i < l->n; i++)
        moved += l->g[i] * (l->trial[i] - l->x[i]);
    if (!finite || !(f <= l->f + armijo * moved)) {
        shrink(l, finite ? f : INFINITY, moved);
        return;
    }
    double gain = l->f - f;
    keep_pair(l, g);
    memcpy(l->x, l->trial, l->n * sizeof *l->x);
    memcpy(l->g, g, l->n * sizeof *g);
    l->f = f;
    l->over = gain < l->tol;
    if (!l->over)
        set_out(l);
}
