#include "hpo/model/gp_classifier.h"

#include <gsl/gsl_cblas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <string.h>

#include "hpo/model/matern.h"

enum { NEWTON = 30 };

/* prior_mean is the mean of the latent function, which is the log-odds of success: without
 * observations a success is expected. The others are a, b, c and l of the kernel. */
static const double prior_mean = 3, constant = 4, linear = 100, curved = 4, curved_length = 0.7;

struct gp_classifier {
    size_t n, cols;
    double *x;                /* n x cols */
    double *k;                /* n x n: the factor of B = I + W^1/2 K W^1/2 (R&W eq. 3.26) */
    double *root;             /* W^1/2 */
    double *pull;             /* gradient of the log likelihood at the mode */
    double *row, *v, *slopes; /* n each; slopes: derivatives of the Matern part by r^2 */
};

void gp_classifier_free(struct gp_classifier *c)
{
    if (!c)
        return;
    free(c->x);
    free(c);
}

/* Computes in c->row the covariances of a point with trials 0 … n - 1. */
static void covariances(struct gp_classifier *c, const double *at, size_t n)
{
    double inverse = 1 / (curved_length * sqrt((double)c->cols));
    for (size_t i = 0; i < n; i++) {
        const double *x = c->x + i * c->cols;
        double dot = 0, square = 0;
        for (size_t k = 0; k < c->cols; k++) {
            double d = (at[k] - x[k]) * inverse;
            dot += (at[k] - 0.5) * (x[k] - 0.5);
            square += d * d;
        }
        c->row[i] = constant + linear * dot;
        c->v[i] = square;
    }
    matern_52_slope(c->v, n, curved, c->v, c->slopes);
    cblas_daxpy((int)n, 1, c->v, 1, c->row, 1);
}

static double self(const struct gp_classifier *c, const double *at)
{
    double dot = 0;
    for (size_t k = 0; k < c->cols; k++)
        dot += (at[k] - 0.5) * (at[k] - 0.5);
    return constant + linear * dot + curved;
}

static double logistic(double f)
{
    return 1 / (1 + exp(-f));
}

/* Computes the factor of B from K and W. Returns false if B is not positive definite. */
static bool factor(struct gp_classifier *c, const double *kernel)
{
    size_t n = c->n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++)
            c->k[i * n + j] = c->root[i] * kernel[i * n + j] * c->root[j] + (i == j);
    gsl_matrix_view m = gsl_matrix_view_array(c->k, n, n);
    return gsl_linalg_cholesky_decomp1(&m.matrix) == GSL_SUCCESS;
}

static void solve(const struct gp_classifier *c, enum CBLAS_TRANSPOSE transposed, double *x)
{
    cblas_dtrsv(CblasRowMajor, CblasLower, transposed, CblasNonUnit, (int)c->n, c->k, (int)c->n, x,
                1);
}

struct newton {            /* arrays of n */
    double *f, *a;         /* the latent values; a = K^-1 (f - m) */
    double *b, *to, *next; /* work; target of the step in a; latent values at this target */
    double value;          /* posterior() at a and f (R&W eq. 3.12) */
};

/* Returns ln p(successes | f) - a (f - m) / 2, the function that has its maximum at the mode. */
static double posterior(const double *f, const double *a, const bool *success, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double z = success[i] ? f[i] : -f[i];
        sum += (z > 0 ? -log1p(exp(-z)) : z - log1p(exp(z))) - a[i] * (f[i] - prior_mean) / 2;
    }
    return sum;
}

/* Computes in f the latent values for a: m + K a. */
static void latent(const double *kernel, const double *a, size_t n, double *f)
{
    for (size_t i = 0; i < n; i++)
        f[i] = prior_mean;
    cblas_dsymv(CblasRowMajor, CblasLower, (int)n, 1, kernel, (int)n, a, 1, 1, f, 1);
}

/* Computes W and the gradient at f, and in `to` the target of Newton's step (R&W algorithm 3.1).
 * Returns false if B cannot be factored. */
static bool newton_step(struct gp_classifier *c, struct newton *s, const double *kernel,
                        const bool *success)
{
    size_t n = c->n;
    for (size_t i = 0; i < n; i++) {
        double p = logistic(s->f[i]), w = fmax(p * (1 - p), 1e-12);
        c->root[i] = sqrt(w);
        c->pull[i] = success[i] - p;
        s->b[i] = w * (s->f[i] - prior_mean) + c->pull[i];
    }
    if (!factor(c, kernel))
        return false;
    cblas_dsymv(CblasRowMajor, CblasLower, (int)n, 1, kernel, (int)n, s->b, 1, 0, s->to, 1);
    for (size_t i = 0; i < n; i++)
        s->to[i] *= c->root[i];
    solve(c, CblasNoTrans, s->to);
    solve(c, CblasTrans, s->to);
    for (size_t i = 0; i < n; i++)
        s->to[i] = s->b[i] - c->root[i] * s->to[i];
    return true;
}

/* Moves a towards `to`. Halves the distance until posterior() increases, up to 20 times. Returns
 * the increase. */
static double newton_walk(struct newton *s, const double *kernel, const bool *success, size_t n)
{
    double before = s->value;
    for (int cut = 0; cut < 20; cut++) {
        latent(kernel, s->to, n, s->next);
        double value = posterior(s->next, s->to, success, n);
        if (value > before) {
            s->value = value;
            memcpy(s->a, s->to, n * sizeof *s->a);
            memcpy(s->f, s->next, n * sizeof *s->f);
            break;
        }
        for (size_t i = 0; i < n; i++)
            s->to[i] = (s->to[i] + s->a[i]) / 2;
    }
    return s->value - before;
}

/* Finds the mode of the latent values by Newton's method, with shorter steps if a full step would
 * overshoot. Returns false if the arithmetic breaks down. */
static bool find_mode(struct gp_classifier *c, const double *kernel, const bool *success)
{
    size_t n = c->n;
    AUTO(free) double *room = xcalloc(5 * n, sizeof *room);
    struct newton s = {room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, 0};
    latent(kernel, s.a, n, s.f);
    s.value = posterior(s.f, s.a, success, n);
    for (int step = 0; step < NEWTON; step++) {
        if (!newton_step(c, &s, kernel, success))
            return false;
        if (newton_walk(&s, kernel, success, n) < 1e-9)
            break;
    }
    return newton_step(c, &s, kernel, success) && isfinite(s.value);
}

struct gp_classifier *gp_classifier_new(const struct kernel_points *x, size_t cols,
                                        const bool *success)
{
    size_t n = x->n;
    AUTO(gp_classifier) struct gp_classifier *c = xzalloc(sizeof *c);
    AUTO(free) double *kernel = xcalloc(n * n, sizeof *kernel);
    c->n = n;
    c->cols = cols;
    c->x = xcalloc(n * cols + n * n + 5 * n, sizeof *c->x);
    c->k = c->x + n * cols;
    c->root = c->k + n * n;
    c->pull = c->root + n;
    c->row = c->pull + n;
    c->v = c->row + n;
    c->slopes = c->v + n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < cols; k++)
            c->x[i * cols + k] = x->x[k * x->stride + i];
    for (size_t i = 0; i < n; i++) {
        covariances(c, c->x + i * cols, i);
        memcpy(kernel + i * n, c->row, i * sizeof *kernel);
        kernel[i * n + i] = self(c, c->x + i * cols) + 1e-6;
    }
    gsl_set_error_handler_off();
    return find_mode(c, kernel, success) ? TAKE(c) : NULL;
}

/* Computes slope = by_mean d mean / dx + by_var d var / dx at x = `at`. d mean / dx = sum_i pull_i
 * dk_i / dx. d var / dx = dk(x, x) / dx - 2 sum_i q_i dk_i / dx with q = W^1/2 B^-1 W^1/2 k, which
 * c->v holds. */
static void add_slopes(const struct gp_classifier *c, const double *at, double by_mean,
                       double by_var, double *slope)
{
    double inverse = 1 / (curved_length * sqrt((double)c->cols));
    for (size_t k = 0; k < c->cols; k++) {
        double sum = by_var * 2 * linear * (at[k] - 0.5);
        for (size_t i = 0; i < c->n; i++) {
            double x = c->x[i * c->cols + k];
            double dk = linear * (x - 0.5) + 2 * c->slopes[i] * (at[k] - x) * inverse * inverse;
            sum += (by_mean * c->pull[i] - 2 * by_var * c->v[i]) * dk;
        }
        slope[k] = sum;
    }
}

double gp_classifier_log_success(struct gp_classifier *c, const double *at, double *slope)
{
    size_t n = c->n;
    covariances(c, at, n);
    double mean = prior_mean + cblas_ddot((int)n, c->row, 1, c->pull, 1);
    for (size_t i = 0; i < n; i++)
        c->v[i] = c->root[i] * c->row[i];
    solve(c, CblasNoTrans, c->v);
    double var = fmax(self(c, at) - cblas_ddot((int)n, c->v, 1, c->v, 1), 0);
    double shrink = 1 / sqrt(1 + M_PI / 8 * var), z = mean * shrink;
    if (slope) { /* d ln P / dz = 1 - P for z = mean / sqrt(1 + pi / 8 var) */
        double rate = logistic(-z);
        solve(c, CblasTrans, c->v);
        for (size_t i = 0; i < n; i++)
            c->v[i] *= c->root[i];
        add_slopes(c, at, rate * shrink, -rate * M_PI / 16 * z * shrink * shrink, slope);
    }
    return z > 0 ? -log1p(exp(-z)) : z - log1p(exp(z));
}
