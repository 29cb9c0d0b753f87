#include "hpo/model/gp.h"

#include <errno.h>
#include <gsl/gsl_cblas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/plural.h"
#include "hpo/model/matern.h"

enum { AT_ONCE = 64 }; /* number of points that are predicted in one block */

static const double var_min = 1e-14, jitter_min = 1e-8, jitter_max = 1e-3;

struct gp *gp_new(const struct kernel_shape *shape, const double *params)
{
    struct gp *g = xzalloc(sizeof *g);
    g->shape = shape;
    g->inverse = xcalloc(shape->cols + shape->groups, sizeof *g->inverse);
    kernel_set(&g->kernel, shape, params, g->inverse);
    g->noise = GP_NOISE_FLOOR + exp(params[kernel_params(shape)]);
    return g;
}

void gp_free(struct gp *g)
{
    if (!g)
        return;
    free(g->inverse);
    free(g->x);
    free(g->l);
    free(g->alpha);
    free(g);
}

void gp_cut(struct gp *g, size_t n)
{
    if (n < g->n)
        g->n = n;
}

/* ---- growing -------------------------------------------------------------------------------- */

/* Copies the first `used` numbers of each row into an array whose rows have another width. */
static void copy_rows(double *to, size_t to_width, const double *from, size_t from_width,
                      size_t rows, size_t used)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(to + i * to_width, from + i * from_width, used * sizeof *to);
}

/* Makes room for `want` observations. */
static int reserve(struct gp *g, size_t want, struct err *e)
{
    if (want <= g->cap)
        return 0;
    size_t cap = want + want / 8 + 16, cols = g->shape->cols;
    AUTO(free) double *x = try_calloc(cols * cap, sizeof *x);
    AUTO(free) double *l = cap < SIZE_MAX / cap ? try_calloc(cap * cap, sizeof *l) : NULL;
    AUTO(free) double *alpha = try_calloc(cap, sizeof *alpha);
    if (!x || !l || !alpha)
        return err_set(e, -ENOMEM, "no memory for a model of %zu observation%s", want,
                       plural_s((long long)want));
    if (g->n) {
        copy_rows(x, cap, g->x, g->cap, cols, g->n);
        copy_rows(l, cap, g->l, g->cap, g->n, g->n);
    }
    free(g->x);
    free(g->l);
    free(g->alpha);
    g->x = TAKE(x);
    g->l = TAKE(l);
    g->alpha = TAKE(alpha);
    g->cap = cap;
    return 0;
}

static struct kernel_points observed(const struct gp *g, size_t n)
{
    return (struct kernel_points){.x = g->x, .n = n, .stride = g->cap};
}

/* Copies the coordinates of point i to `at`. */
static void point_of(const struct kernel_points *p, size_t i, size_t cols, double *at)
{
    for (size_t c = 0; c < cols; c++)
        at[c] = p->x[c * p->stride + i];
}

/* Computes rows n … n + count - 1 of K + noise, up to the diagonal, in g->l. The factor will
 * overwrite them. */
static int covariances(struct gp *g, size_t count, const double *noise, struct err *e)
{
    size_t cols = g->shape->cols;
    AUTO(free) double *at = xcalloc(cols + g->n + count, sizeof *at);
    double *work = at + cols;
    for (size_t i = g->n; i < g->n + count; i++) {
        struct kernel_points before = observed(g, i);
        struct kernel_points all = observed(g, i + 1);
        double *row = g->l + i * g->cap;
        point_of(&all, i, cols, at);
        kernel_row(&g->kernel, &before, at, &(struct kernel_out){.k = row, .work = work});
        row[i] = kernel_self(&g->kernel) + g->noise + (noise ? noise[i - g->n] : 0);
        for (size_t j = 0; j <= i; j++)
            if (!isfinite(row[j]))
                return err_set(e, -EINVAL, "a covariance that is not finite");
    }
    return 0;
}

/* Factors a symmetric matrix in place. Returns false if it is not positive definite. */
static bool cholesky(double *a, size_t n, size_t width)
{
    gsl_matrix_view m = gsl_matrix_view_array_with_tda(a, n, n, width);
    gsl_set_error_handler_off();
    return gsl_linalg_cholesky_decomp1(&m.matrix) == GSL_SUCCESS;
}

/* Factors the block of `count` rows and columns that follows the old factor on the diagonal. Its
 * lower triangle holds the remainder of K. If the block is not positive definite, tries again with
 * jitter on the diagonal, which grows by factors of ten. */
static int factor_rest(struct gp *g, size_t count, struct err *e)
{
    double *rest = g->l + g->n * g->cap + g->n;
    AUTO(free) double *kept = try_calloc(count, count * sizeof *kept);
    if (!kept)
        return err_set(e, -ENOMEM, "no memory for a model of %zu observation%s", g->n + count,
                       plural_s((long long)(g->n + count)));
    copy_rows(kept, count, rest, g->cap, count, count);
    for (double jitter = 0; jitter <= jitter_max; jitter = jitter > 0 ? 10 * jitter : jitter_min) {
        copy_rows(rest, g->cap, kept, count, count, count);
        for (size_t i = 0; i < count; i++)
            rest[i * g->cap + i] += jitter * kernel_self(&g->kernel);
        if (cholesky(rest, count, g->cap))
            return 0;
    }
    return err_set(e, -EDOM, "the covariance of %zu observation%s is not positive definite",
                   g->n + count, plural_s((long long)(g->n + count)));
}

int gp_add(struct gp *g, const struct kernel_points *x, const double *noise, struct err *e)
{
    size_t n = g->n, count = x->n;
    if (count == 0)
        return 0;
    int rc = reserve(g, n + count, e);
    if (rc < 0)
        return rc;
    for (size_t c = 0; c < g->shape->cols; c++)
        for (size_t i = 0; i < count; i++) {
            g->x[c * g->cap + n + i] = x->x[c * x->stride + i];
            if (!isfinite(x->x[c * x->stride + i]))
                return err_set(e, -EINVAL, "a coordinate that is not finite");
        }
    rc = covariances(g, count, noise, e);
    if (rc < 0)
        return rc;
    double *below = g->l + n * g->cap;
    if (n) { /* L21 = K21 L11^-T; the remainder is K22 - L21 L21^T */
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)count,
                    (int)n, 1, g->l, (int)g->cap, below, (int)g->cap);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)count, (int)n, -1, below,
                    (int)g->cap, 1, below + n, (int)g->cap);
    }
    rc = factor_rest(g, count, e);
    if (rc == 0)
        g->n += count;
    return rc;
}

/* ---- conditioning --------------------------------------------------------------------------- */

/* Replaces x by L^-1 x or, if transposed, by L^-T x. */
static void solve(const struct gp *g, enum CBLAS_TRANSPOSE transposed, double *x)
{
    cblas_dtrsv(CblasRowMajor, CblasLower, transposed, CblasNonUnit, (int)g->n, g->l, (int)g->cap,
                x, 1);
}

void gp_targets(struct gp *g, const double *y)
{
    if (g->n == 0)
        return;
    AUTO(free) double *ones = xcalloc(g->n, sizeof *ones);
    for (size_t i = 0; i < g->n; i++) {
        ones[i] = 1;
        g->alpha[i] = y[i];
    }
    solve(g, CblasNoTrans, ones);
    solve(g, CblasNoTrans, g->alpha);
    /* The mode of m: R&W eq. 2.43, and the prior N(0, 1) of m adds 1 to the denominator. */
    g->mean =
        cblas_ddot((int)g->n, ones, 1, g->alpha, 1) / (cblas_ddot((int)g->n, ones, 1, ones, 1) + 1);
    cblas_daxpy((int)g->n, -g->mean, ones, 1, g->alpha, 1);
    solve(g, CblasTrans, g->alpha);
}

double gp_skill(const struct gp *g, const double *y)
{
    size_t n = g->n;
    AUTO(free) double *unit = xcalloc(n + 1, sizeof *unit);
    double mean = 0, error = 0, spread = 0;
    for (size_t i = 0; i < n; i++)
        mean += y[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        memset(unit, 0, n * sizeof *unit);
        unit[i] = 1;
        solve(g, CblasNoTrans, unit); /* its square is element (i, i) of the inverse covariance */
        double miss = g->alpha[i] / cblas_ddot((int)n, unit, 1, unit, 1);
        double plain = (y[i] - mean) * (double)n / ((double)n - 1);
        error += miss * miss;
        spread += plain * plain;
    }
    return n > 1 && spread > 0 ? 1 - error / spread : 0;
}

/* ---- prediction ----------------------------------------------------------------------------- */

struct chunk { /* a block of the predicted points */
    const struct kernel_points *at;
    size_t first, count;
    /* count rows of n: covariances with the observations; first L^-1 k, then L^-T L^-1 k */
    double *k, *v;
    double *slope;        /* (1 + groups) rows of n per point; NULL: no slopes are needed */
    double *point, *work; /* cols numbers; n numbers */
    bool mean_only;       /* v is not needed */
};

/* Computes the covariances k of the chunk's points, and v = L^-1 k for all of them with one
 * triangular solve. */
static void cross(const struct gp *g, struct chunk *c)
{
    struct kernel_points seen = observed(g, g->n);
    size_t n = g->n, slopes = (1 + g->shape->groups) * n;
    for (size_t i = 0; i < c->count; i++) {
        struct kernel_out out = {.k = c->k + i * n, .work = c->work};
        out.slope = c->slope ? c->slope + i * slopes : NULL;
        point_of(c->at, c->first + i, g->shape->cols, c->point);
        kernel_row(&g->kernel, &seen, c->point, &out);
    }
    if (c->mean_only)
        return;
    memcpy(c->v, c->k, c->count * n * sizeof *c->v);
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)c->count,
                (int)n, 1, g->l, (int)g->cap, c->v, (int)n);
}

static void moments(const struct gp *g, const struct chunk *c, double *mean, double *var)
{
    for (size_t i = 0; i < c->count; i++) {
        const double *k = c->k + i * g->n, *v = c->v + i * g->n;
        mean[i] = g->mean + cblas_ddot((int)g->n, k, 1, g->alpha, 1);
        if (var)
            var[i] = fmax(kernel_self(&g->kernel) - cblas_ddot((int)g->n, v, 1, v, 1), var_min);
    }
}

/* Computes the derivatives of mean and variance at point i of the chunk: d mean = sum_j alpha_j
 * dk_j, d var = -2 sum_j (K^-1 k)_j dk_j. k_j depends on coordinate c through r^2, so each part of
 * the kernel adds slope_j 2 (at_c - x_jc) / length_c^2 to dk_j. */
static void slopes_at(const struct gp *g, const struct chunk *c, size_t i, double *dmean,
                      double *dvar)
{
    const struct kernel_shape *h = g->shape;
    size_t n = g->n;
    const double *slope = c->slope + i * (1 + h->groups) * n;
    struct matern_weights w = {g->alpha, c->v + i * n};
    point_of(c->at, c->first + i, h->cols, c->point);
    for (size_t col = 0; col < h->cols; col++) {
        const double *x = g->x + col * g->cap, *inverse = g->kernel.inverse;
        double whole[2] = {0, 0}, own[2] = {0, 0};
        double by = inverse[col], by1 = inverse[h->cols + h->group[col]];
        matern_pull(&w, slope, x, n, c->point[col], whole);
        matern_pull(&w, slope + (1 + h->group[col]) * n, x, n, c->point[col], own);
        dmean[col] = 2 * (whole[0] * by * by + own[0] * by1 * by1);
        dvar[col] = -4 * (whole[1] * by * by + own[1] * by1 * by1);
    }
}

void gp_predict(const struct gp *g, const struct kernel_points *at, double *mean, double *var,
                double *dmean, double *dvar)
{
    size_t n = g->n, cols = g->shape->cols, rows = dmean ? 2 + 1 + g->shape->groups : 2;
    size_t most = at->n < AT_ONCE ? at->n : AT_ONCE;
    AUTO(free) double *block = xcalloc(most * rows * n + cols + n + 1, sizeof *block);
    struct chunk c = {.at = at, .k = block, .v = block + most * n, .mean_only = !var};
    c.slope = dmean ? block + 2 * most * n : NULL;
    c.point = block + most * rows * n;
    c.work = c.point + cols;
    for (; c.first < at->n; c.first += c.count) {
        c.count = at->n - c.first < AT_ONCE ? at->n - c.first : AT_ONCE;
        if (n)
            cross(g, &c);
        moments(g, &c, mean + c.first, var ? var + c.first : NULL);
        if (!dmean)
            continue;
        if (n)
            cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit,
                        (int)c.count, (int)n, 1, g->l, (int)g->cap, c.v, (int)n);
        for (size_t i = 0; i < c.count; i++)
            slopes_at(g, &c, i, dmean + (c.first + i) * cols, dvar + (c.first + i) * cols);
    }
}
