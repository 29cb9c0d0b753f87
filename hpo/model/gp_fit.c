#include "hpo/model/gp_fit.h"

#include <gsl/gsl_cblas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <string.h>

#include "hpo/model/lbfgs.h"
#include "hpo/model/matern.h"

/* Bounds of the logarithms of the hyperparameters. */
static const double length_lo = -5.3, length_hi = 7, scale_lo = -8, scale_hi = 5, t_lo = -18,
                    t_hi = 1;
/* gp_fit_climb() ends if a step improves the log density by less */
static const double climb_tol = 1e-4;

struct gp_fit {
    const struct gp_data *data;
    size_t n, cols, groups;
    double *k;                  /* n x n: the covariance, then its factor, then its inverse */
    double *alpha, *ones;       /* n each: K^-1 (y - m); work space for the mode of m */
    double *weights;            /* n: a row of W */
    double *row, *first, *work; /* n each: k, first and work of kernel_out for one row */
    double *slope;              /* (1 + groups) rows of n */
    double *inverse, *at;       /* storage for kernel.inverse; a point */
};

struct gp_fit *gp_fit_new(const struct gp_data *data)
{
    struct gp_fit *f = xzalloc(sizeof *f);
    f->data = data;
    f->n = data->x.n;
    f->cols = data->shape->cols;
    f->groups = data->shape->groups;
    f->k = xcalloc(f->n * f->n + 1, sizeof *f->k);
    f->alpha = xcalloc((7 + f->groups) * f->n + 2 * f->cols + f->groups, sizeof *f->alpha);
    f->ones = f->alpha + f->n;
    f->weights = f->ones + f->n;
    f->row = f->weights + f->n;
    f->first = f->row + f->n;
    f->work = f->first + f->n;
    f->slope = f->work + f->n;
    f->at = f->slope + (1 + f->groups) * f->n;
    f->inverse = f->at + f->cols;
    return f;
}

void gp_fit_free(struct gp_fit *f)
{
    if (!f)
        return;
    free(f->k);
    free(f->alpha);
    free(f);
}

/* ---- prior ---------------------------------------------------------------------------------- */

static double length_mode(size_t dims)
{
    return sqrt(2) + 0.5 * log((double)dims) - 3;
}

void gp_fit_prior(const struct kernel_shape *h, double *p)
{
    for (size_t i = 0; i < h->cols + h->groups; i++)
        p[i] = length_mode(i < h->cols ? h->groups : 1);
    p[h->cols + h->groups] = p[h->cols + h->groups + 1] = 0;
    p[kernel_params(h)] = -8;
}

/* Returns the log density of `count` log-lengths, up to a constant, and adds its gradient to
 * `gradient`. The log-lengths are normal with mean `mode` and covariance own I + common 1 1^T. */
static double lengths_prior(const struct kernel_shape *h, const double *p, size_t count,
                            double mode, double *gradient)
{
    double few = h->groups > 2 ? 2 / (double)h->groups : 1;
    double own = h->smooth ? 3 * few * few : 3, common = h->smooth ? 0.3 : 0;
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        total += p[i] - mode;
    double shared = common * total / (own + (double)count * common);
    for (size_t i = 0; i < count; i++) {
        double slope = (p[i] - mode - shared) / own;
        sum -= slope * (p[i] - mode) / 2;
        if (gradient)
            gradient[i] -= slope;
    }
    return sum;
}

/* Returns the log density of the prior, up to a constant, and adds its gradient to `gradient`. */
static double prior(const struct gp_fit *f, const double *p, double *gradient)
{
    const struct kernel_shape *h = f->data->shape;
    size_t lengths = f->cols + f->groups;
    double sum = lengths_prior(h, p, f->cols, length_mode(f->groups), gradient) +
                 lengths_prior(h, p + f->cols, f->groups, length_mode(1),
                               gradient ? gradient + f->cols : NULL);
    for (size_t i = lengths; i < lengths + 3; i++) {
        double mu = i < lengths + 2 ? 0 : -8, sigma = i < lengths + 2 ? 1 : 2;
        double z = (p[i] - mu) / sigma;
        sum -= z * z / 2;
        if (gradient)
            gradient[i] -= z / sigma;
    }
    return sum;
}

/* ---- evidence ------------------------------------------------------------------------------- */

/* Computes the covariances of point i with the points before it. */
static void row_of(struct gp_fit *f, const struct kernel *k, size_t i, const struct kernel_out *out)
{
    struct kernel_points before = f->data->x;
    before.n = i;
    for (size_t c = 0; c < f->cols; c++)
        f->at[c] = before.x[c * before.stride + i];
    kernel_row(k, &before, f->at, out);
}

/* Computes K + noise and factors it in place; computes alpha with m at its mode. Returns the log
 * evidence, or -INFINITY if the matrix is not positive definite. */
static double evidence(struct gp_fit *f, const struct kernel *k, double noise)
{
    size_t n = f->n;
    const double *extra = f->data->noise;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        row_of(f, k, i, &(struct kernel_out){.k = f->k + i * n, .work = f->work});
        f->k[i * n + i] = kernel_self(k) + noise + (extra ? extra[i] : 0);
    }
    gsl_matrix_view m = gsl_matrix_view_array(f->k, n, n);
    gsl_set_error_handler_off();
    if (gsl_linalg_cholesky_decomp1(&m.matrix) != GSL_SUCCESS)
        return -INFINITY;
    double log_det = 0;
    for (size_t i = 0; i < n; i++) {
        log_det += log(f->k[i * n + i]); /* sums up to half of ln det */
        f->ones[i] = 1;
        f->alpha[i] = f->data->y[i];
    }
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)n, f->k, (int)n,
                f->ones, 1);
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)n, f->k, (int)n,
                f->alpha, 1);
    double mean = cblas_ddot((int)n, f->ones, 1, f->alpha, 1) /
                  (cblas_ddot((int)n, f->ones, 1, f->ones, 1) + 1);
    cblas_daxpy((int)n, -mean, f->ones, 1, f->alpha, 1);
    double square = cblas_ddot((int)n, f->alpha, 1, f->alpha, 1);
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)n, f->k, (int)n, f->alpha,
                1);
    return -(square + mean * mean) / 2 - log_det;
}

/* Adds the part of row i to the gradient of the log evidence by the kernel's hyperparameters,
 *      1/2 sum_pq W_pq dK_pq,  W = alpha alpha^T - K^-1     (R&W eq. 5.9)
 * f->weights has row i of W up to the diagonal. W is symmetric, so the factor 1/2 drops out if each
 * pair counts once. */
static void add_row(struct gp_fit *f, const struct kernel *k, size_t i, double *gradient)
{
    const struct gp_data *d = f->data;
    size_t lengths = f->cols + f->groups;
    double *w = f->weights;
    row_of(f, k, i, &(struct kernel_out){f->row, f->first, f->slope, f->work});
    double first = cblas_ddot((int)i, w, 1, f->first, 1);
    gradient[lengths] += first;
    gradient[lengths + 1] += cblas_ddot((int)i, w, 1, f->row, 1) - first;
    for (size_t s = 0; s < 1 + f->groups; s++) /* a row of f->slope has i numbers here */
        for (size_t q = 0; q < i; q++)
            f->slope[s * i + q] *= w[q];
    for (size_t c = 0; c < f->cols; c++) {
        const double *x = d->x.x + c * d->x.stride;
        size_t g = d->shape->group[c];
        double by = k->inverse[c], by1 = k->inverse[f->cols + g];
        gradient[c] -= 2 * by * by * matern_spread(f->slope, x, i, f->at[c]);
        gradient[f->cols + g] -=
            2 * by1 * by1 * matern_spread(f->slope + (1 + g) * i, x, i, f->at[c]);
    }
}

double gp_fit_density(struct gp_fit *f, const double *params, double *gradient)
{
    size_t n = f->n, count = gp_params(f->data->shape);
    struct kernel k;
    kernel_set(&k, f->data->shape, params, f->inverse);
    double own_noise = exp(params[count - 1]);
    double value = evidence(f, &k, GP_NOISE_FLOOR + own_noise);
    if (gradient)
        memset(gradient, 0, count * sizeof *gradient);
    value += prior(f, params, gradient);
    if (!gradient || !isfinite(value) || n == 0)
        return value;
    gsl_matrix_view m = gsl_matrix_view_array(f->k, n, n);
    if (gsl_linalg_cholesky_invert(&m.matrix) != GSL_SUCCESS)
        return -INFINITY;
    double trace = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t q = 0; q < i; q++)
            f->weights[q] = f->alpha[i] * f->alpha[q] - f->k[i * n + q];
        trace += f->alpha[i] * f->alpha[i] - f->k[i * n + i];
        add_row(f, &k, i, gradient);
    }
    gradient[count - 3] += trace / 2 * k.scale;
    gradient[count - 2] += trace / 2 * k.scale1 * (double)f->groups;
    gradient[count - 1] += trace / 2 * own_noise;
    return value;
}

double gp_fit_climb(struct gp_fit *f, double *params, int evals)
{
    size_t count = gp_params(f->data->shape), lengths = f->cols + f->groups;
    AUTO(free) double *block = xcalloc(3 * count, sizeof *block);
    double *lo = block, *hi = block + count, *g = block + 2 * count;
    for (size_t i = 0; i < count; i++) {
        lo[i] = i < lengths ? length_lo : i < lengths + 2 ? scale_lo : t_lo;
        hi[i] = i < lengths ? length_hi : i < lengths + 2 ? scale_hi : t_hi;
    }
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(count, lo, hi, params, evals, climb_tol);
    while (lbfgs_is_active(l)) {
        double value = gp_fit_density(f, lbfgs_x(l), g);
        for (size_t i = 0; i < count; i++)
            g[i] = -g[i];
        lbfgs_update(l, -value, g);
    }
    const double *best = NULL;
    double value = -lbfgs_best(l, &best);
    if (isfinite(value))
        memcpy(params, best, count * sizeof *params);
    return value;
}
