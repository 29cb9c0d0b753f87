#include "hpo/model/pareto.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hpo/model/acquisition.h"

/* ---- the front ------------------------------------------------------------------------------ */

struct table {
    const double *y;
    size_t m;
};

static int by_objectives(const void *a, const void *b, void *arg)
{
    const struct table *t = arg;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const double *p = t->y + i * t->m, *q = t->y + k * t->m;
    for (size_t j = 0; j < t->m; j++)
        if (p[j] != q[j])
            return p[j] < q[j] ? -1 : 1;
    return (i > k) - (i < k);
}

static bool dominates(const double *p, const double *q, size_t m)
{
    bool smaller = false;
    for (size_t j = 0; j < m; j++) {
        if (p[j] > q[j])
            return false;
        smaller |= p[j] < q[j];
    }
    return smaller;
}

size_t pareto_front(const double *y, size_t n, size_t m, size_t *front)
{
    struct table t = {y, m};
    for (size_t i = 0; i < n; i++)
        front[i] = i;
    qsort_r(front, n, sizeof *front, by_objectives, &t);
    /* In this order a row follows all rows that dominate it. If one of these rows was dropped, a
     * row of the front dominates both. So it suffices to compare with the front. */
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool kept = true;
        for (size_t k = count; k > 0 && kept; k--)
            kept = !dominates(y + front[k - 1] * m, y + front[i] * m, m);
        if (kept)
            front[count++] = front[i];
    }
    return count;
}

void pareto_reference(const double *y, size_t n, size_t m, double *ref)
{
    assert(n > 0);
    memcpy(ref, y, m * sizeof *ref);
    for (size_t i = m; i < n * m; i++)
        ref[i % m] = fmax(ref[i % m], y[i]);
}

/* ---- expected improvement ------------------------------------------------------------------- */

struct part { /* the logarithm of a factor, and its derivatives by mean and deviation */
    double log, by_mu, by_sd;
};

static struct part below(double t, double mu, double sd)
{
    struct part p;
    double slope[2];
    p.log = acquisition_log_ei(t, mu, sd, slope);
    p.by_mu = slope[0];
    p.by_sd = slope[1];
    return p;
}

/* Returns ln(exp(a) - exp(b)) and its derivatives for a.log > b.log. If the two are close, digits
 * cancel. The lost digits do not matter in the sum of pareto_log_ehvi2(): the difference is small
 * compared to exp(b), and the strips before have at least exp(b). */
static struct part difference(struct part a, struct part b)
{
    double share = exp(b.log - a.log), rest = -expm1(b.log - a.log);
    return (struct part){a.log + log(rest), (a.by_mu - share * b.by_mu) / rest,
                         (a.by_sd - share * b.by_sd) / rest};
}

double pareto_log_ehvi2(const double *front, size_t n, const double ref[2], const double mu[2],
                        const double sd[2], double grad[4])
{
    /* A strip spans the first objective from one point to the next. Its ceiling is the second
     * objective of the point at its left. A new point covers the part of the strip that is right of
     * its first objective, and between its second objective and the ceiling. The expected width and
     * height are known, and they are independent. */
    struct part left = {-INFINITY, 0, 0}, up = below(ref[1], mu[1], sd[1]);
    double largest = -INFINITY, sum = 0, ceiling = ref[1], slopes[4] = {0};
    for (size_t i = 0; i <= n; i++) {
        struct part right = below(i < n ? fmin(front[2 * i], ref[0]) : ref[0], mu[0], sd[0]);
        if (right.log > left.log) {
            struct part width = isinf(left.log) ? right : difference(right, left);
            double log_term = width.log + up.log, shift = fmax(largest, log_term);
            double old = exp(largest - shift), term = exp(log_term - shift);
            const double by[4] = {width.by_mu, up.by_mu, width.by_sd, up.by_sd};
            sum = sum * old + term;
            for (int k = 0; k < 4; k++)
                slopes[k] = slopes[k] * old + term * by[k];
            largest = shift;
        }
        left = right;
        if (i < n && front[2 * i + 1] < ceiling) {
            ceiling = front[2 * i + 1];
            up = below(ceiling, mu[1], sd[1]);
        }
    }
    for (int k = 0; k < 4; k++)
        grad[k] = slopes[k] / sum;
    return largest + log(sum);
}
