#include "hpo/model/gp.h"

#include <gsl/gsl_linalg.h>
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "hpo/model/gp_fit.h"
#include "tests/unit/test.h"

enum { N = 30, COLS = 5 };

/* Two numbers and a category of three. */
static const size_t groups[COLS] = {0, 1, 2, 2, 2};
static const struct kernel_shape shape = {.cols = COLS, .groups = 3, .group = groups};

/* Five numbers, whose lengths are expected to be similar. */
static const size_t alone[COLS] = {0, 1, 2, 3, 4};
static const struct kernel_shape smooth = {
    .cols = COLS, .groups = COLS, .group = alone, .smooth = true};

static double x[COLS * N], y[N], noise[N];
static struct kernel_points points = {.x = x, .n = N, .stride = N};

static void set_points(uint64_t seed)
{
    struct rng r;
    rng_seed(&r, seed, 0);
    for (int i = 0; i < N; i++) {
        int choice = (int)rng_below(&r, 3);
        x[i] = rng_unit(&r);
        x[N + i] = rng_unit(&r);
        for (int c = 0; c < 3; c++)
            x[(2 + c) * N + i] = c == choice;
        y[i] = sin(5 * x[i]) + x[N + i] * (choice - 1) + 0.1 * rng_unit(&r);
        noise[i] = i % 3 ? 0 : 0.05;
    }
}

/* Arbitrary hyperparameters. */
static void set_params_of(const struct kernel_shape *h, double *p)
{
    for (size_t i = 0; i < gp_params(h); i++)
        p[i] = -0.5 + 0.13 * (double)(i % 7);
    p[gp_params(h) - 1] = -5;
}

static void set_params(double *p)
{
    set_params_of(&shape, p);
}

static double matern(double r)
{
    return (1 + sqrt(5) * r + 5 * r * r / 3) * exp(-sqrt(5) * r);
}

/* kernel.h's formula, written out. */
static double covariance(const double *p, const double *a, const double *b, size_t sa, size_t sb)
{
    double whole = 0, own[3] = {0, 0, 0};
    for (int c = 0; c < COLS; c++) {
        double d = a[(size_t)c * sa] - b[(size_t)c * sb];
        whole += d * d * exp(-2 * p[c]);
        own[groups[c]] += d * d * exp(-2 * p[COLS + groups[c]]);
    }
    double k = exp(p[8]) * matern(sqrt(whole));
    for (int g = 0; g < 3; g++)
        k += exp(p[9]) / 3 * matern(sqrt(own[g]));
    return k;
}

/* The whole of R&W algorithm 2.1 with matrices, and the mode of m. */
static void reference(const double *p, const double *at, double *mean, double *var,
                      double *evidence)
{
    gsl_matrix *k = gsl_matrix_alloc(N, N);
    gsl_vector *a = gsl_vector_alloc(N), *b = gsl_vector_alloc(N), *v = gsl_vector_alloc(N);
    gsl_vector *ks = gsl_vector_alloc(N), *one = gsl_vector_alloc(N);
    gsl_permutation *perm = gsl_permutation_alloc(N);
    int sign = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            gsl_matrix_set(k, (size_t)i, (size_t)j,
                           covariance(p, x + i, x + j, N, N) +
                               (i == j ? GP_NOISE_FLOOR + exp(p[10]) + noise[i] : 0));
        gsl_vector_set(ks, (size_t)i, covariance(p, x + i, at, N, 1));
        gsl_vector_set(one, (size_t)i, 1);
        gsl_vector_set(v, (size_t)i, y[i]);
    }
    gsl_linalg_LU_decomp(k, perm, &sign);
    gsl_linalg_LU_solve(k, perm, v, a);
    gsl_linalg_LU_solve(k, perm, one, b);
    double m = 0, ones = 1, square = 0, dot = 0, less = 0;
    for (size_t i = 0; i < N; i++) {
        m += gsl_vector_get(a, i);
        ones += gsl_vector_get(b, i);
    }
    m /= ones;
    for (size_t i = 0; i < N; i++) {
        double alpha = gsl_vector_get(a, i) - m * gsl_vector_get(b, i);
        square += alpha * (y[i] - m);
        dot += alpha * gsl_vector_get(ks, i);
    }
    gsl_linalg_LU_solve(k, perm, ks, a);
    for (size_t i = 0; i < N; i++)
        less += gsl_vector_get(a, i) * gsl_vector_get(ks, i);
    *mean = m + dot;
    *var = exp(p[8]) + exp(p[9]) - less;
    *evidence = -(square + m * m) / 2 - gsl_linalg_LU_lndet(k) / 2;
    gsl_matrix_free(k);
    gsl_vector_free(a), gsl_vector_free(b), gsl_vector_free(v), gsl_vector_free(ks);
    gsl_vector_free(one);
    gsl_permutation_free(perm);
}

static struct gp *grown(const double *p, const size_t *steps, int count)
{
    struct gp *g = gp_new(&shape, p);
    struct err e = {0};
    for (int i = 0; i < count; i++) {
        size_t from = g->n;
        struct kernel_points part = {.x = x + from, .n = steps[i], .stride = N};
        if (gp_add(g, &part, noise + from, &e) < 0)
            FAIL("%s", e.text);
    }
    gp_targets(g, y);
    return g;
}

TEST(the_posterior_is_that_of_the_textbook)
{
    double p[11], at[COLS] = {0.3, 0.8, 0, 1, 0}, mean = 0, var = 0, want_mean, want_var, evidence;
    set_points(1);
    set_params(p);
    AUTO(gp) struct gp *g = grown(p, (size_t[]){N}, 1);
    struct kernel_points one = {.x = at, .n = 1, .stride = 1};
    gp_predict(g, &one, &mean, &var, NULL, NULL);
    reference(p, at, &want_mean, &want_var, &evidence);
    CHECK_NEAR(mean, want_mean, 1e-9);
    CHECK_NEAR(var, want_var, 1e-9);
}

TEST(its_skill_is_that_of_leaving_each_value_out)
{
    double p[11], error = 0, spread = 0, sum = 0;
    set_points(5);
    set_params(p);
    AUTO(gp) struct gp *all = grown(p, (size_t[]){N}, 1);
    for (int i = 0; i < N; i++)
        sum += y[i];
    for (int i = 0; i < N; i++) {
        double own = noise[i], mean = 0, var = 0;
        noise[i] = 1e9; /* the value counts for nothing */
        AUTO(gp) struct gp *rest = grown(p, (size_t[]){N}, 1);
        gp_predict(rest, &(struct kernel_points){x + i, 1, N}, &mean, &var, NULL, NULL);
        noise[i] = own;
        error += pow(y[i] - mean, 2);
        spread += pow(y[i] - (sum - y[i]) / (N - 1), 2);
    }
    CHECK(gp_skill(all, y) > 0.3 && gp_skill(all, y) < 0.99);
    CHECK_NEAR(gp_skill(all, y), 1 - error / spread, 0.01); /* m stays, there it does not */
}

TEST(grown_row_by_row_it_is_the_same_as_at_once)
{
    double p[11], mean[2][N], var[2][N];
    set_points(2);
    set_params(p);
    AUTO(gp) struct gp *once = grown(p, (size_t[]){N}, 1);
    AUTO(gp) struct gp *rows = grown(p, (size_t[]){1, 1, 7, 1, 15, 5}, 6);
    gp_predict(once, &points, mean[0], var[0], NULL, NULL);
    gp_predict(rows, &points, mean[1], var[1], NULL, NULL);
    for (int i = 0; i < N; i++) {
        CHECK_NEAR(mean[0][i], mean[1][i], 1e-10);
        CHECK_NEAR(var[0][i], var[1][i], 1e-10);
    }
}

TEST(cut_back_and_grown_again_nothing_remains_of_what_was_cut)
{
    double p[11], mean[2], var[2];
    set_points(3);
    set_params(p);
    AUTO(gp) struct gp *g = grown(p, (size_t[]){20}, 1);
    gp_predict(g, &(struct kernel_points){x + 25, 1, N}, &mean[0], &var[0], NULL, NULL);
    struct err e = {0};
    CHECK_INT(gp_add(g, &(struct kernel_points){x + 20, 10, N}, NULL, &e), 0);
    gp_cut(g, 20);
    gp_targets(g, y);
    gp_predict(g, &(struct kernel_points){x + 25, 1, N}, &mean[1], &var[1], NULL, NULL);
    CHECK_NEAR(mean[0], mean[1], 1e-12);
    CHECK_NEAR(var[0], var[1], 1e-12);
}

TEST(slopes_of_the_posterior_agree_with_differences)
{
    double p[11], at[COLS] = {0.31, 0.82, 0.2, 0.7, 0.4}, mean, var, dmean[COLS], dvar[COLS];
    set_points(4);
    set_params(p);
    AUTO(gp) struct gp *g = grown(p, (size_t[]){N}, 1);
    gp_predict(g, &(struct kernel_points){at, 1, 1}, &mean, &var, dmean, dvar);
    for (int c = 0; c < COLS; c++) {
        double m[2], v[2], h = 1e-5;
        for (int s = 0; s < 2; s++) {
            double moved[COLS];
            for (int k = 0; k < COLS; k++)
                moved[k] = at[k] + (k == c ? (s ? h : -h) : 0);
            gp_predict(g, &(struct kernel_points){moved, 1, 1}, &m[s], &v[s], NULL, NULL);
        }
        CHECK_NEAR(dmean[c], (m[1] - m[0]) / (2 * h), 1e-6);
        CHECK_NEAR(dvar[c], (v[1] - v[0]) / (2 * h), 1e-6);
    }
}

TEST(without_observations_the_posterior_is_the_prior)
{
    double p[11], at[COLS] = {0.5, 0.5, 1, 0, 0}, mean, var, dmean[COLS], dvar[COLS];
    set_params(p);
    AUTO(gp) struct gp *g = gp_new(&shape, p);
    gp_predict(g, &(struct kernel_points){at, 1, 1}, &mean, &var, dmean, dvar);
    CHECK_NEAR(mean, 0, 0);
    CHECK_NEAR(var, exp(p[8]) + exp(p[9]), 1e-12);
    CHECK_NEAR(dmean[0], 0, 0);
}

TEST(the_same_point_many_times_is_no_trouble)
{
    double p[11], same[COLS * 50], mean, var, values[50];
    set_params(p);
    p[10] = -40; /* no noise except the floor */
    for (int c = 0; c < COLS; c++)
        for (int i = 0; i < 50; i++)
            same[c * 50 + i] = 0.5;
    for (int i = 0; i < 50; i++)
        values[i] = 0.7;
    AUTO(gp) struct gp *g = gp_new(&shape, p);
    struct err e = {0};
    CHECK_INT(gp_add(g, &(struct kernel_points){same, 50, 50}, NULL, &e), 0);
    gp_targets(g, values);
    gp_predict(g, &(struct kernel_points){same, 1, 50}, &mean, &var, NULL, NULL);
    CHECK_NEAR(mean, 0.7, 1e-4);
    CHECK(var < 1e-6);
}

TEST(a_coordinate_that_is_not_finite_is_refused_and_nothing_is_added)
{
    double p[11], at[COLS] = {0.5, NAN, 1, 0, 0};
    set_points(5);
    set_params(p);
    AUTO(gp) struct gp *g = grown(p, (size_t[]){4}, 1);
    struct err e = {0};
    CHECK(gp_add(g, &(struct kernel_points){at, 1, 1}, NULL, &e) < 0);
    CHECK_INT(g->n, 4);
}

/* ---- hyperparameters ------------------------------------------------------------------------ */

TEST(the_evidence_is_that_of_the_textbook)
{
    double p[11], q[11], at[COLS] = {0}, mean, var, want[2];
    set_points(6);
    set_params(p);
    set_params(q);
    for (int i = 0; i < 10; i++)
        q[i] = -0.2;
    struct gp_data data = {&shape, points, y, noise};
    AUTO(gp_fit) struct gp_fit *f = gp_fit_new(&data);
    reference(p, at, &mean, &var, &want[0]);
    reference(q, at, &mean, &var, &want[1]);
    /* The prior densities of a length and of a scale, up to the same constant. */
    double priors[2] = {0, 0};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 10; i++) {
            double v = (s ? q : p)[i], mu = sqrt(2) + (i < 5 ? 0.5 * log(3) : 0);
            double z = i < 8 ? (v - mu) / sqrt(3) : v;
            priors[s] -= z * z / 2 + (i < 8 ? v : 0);
        }
    double got = gp_fit_density(f, p, NULL) - gp_fit_density(f, q, NULL);
    CHECK_NEAR(got, want[0] + priors[0] - want[1] - priors[1], 1e-8);
}

static void check_gradient(const struct kernel_shape *h)
{
    double p[13], gradient[13], step = 1e-5;
    set_points(7);
    set_params_of(h, p);
    struct gp_data data = {h, points, y, noise};
    AUTO(gp_fit) struct gp_fit *f = gp_fit_new(&data);
    gp_fit_density(f, p, gradient);
    for (size_t i = 0; i < gp_params(h); i++) {
        double v[2], was = p[i];
        for (int s = 0; s < 2; s++) {
            p[i] = was + (s ? step : -step);
            v[s] = gp_fit_density(f, p, NULL);
        }
        p[i] = was;
        CHECK_NEAR(gradient[i], (v[1] - v[0]) / (2 * step), 1e-5);
    }
}

TEST(the_gradient_of_the_evidence_agrees_with_differences)
{
    check_gradient(&shape);
    check_gradient(&smooth);
}

/* gp_fit.h's covariance of the logarithms of lengths, inverted by GSL. */
TEST(the_lengths_of_a_smooth_space_are_expected_to_be_alike)
{
    double k[COLS * COLS], off[COLS] = {0.3, -0.2, 1.1, 0, -0.7}, mode[13], p[13];
    gsl_matrix_view m = gsl_matrix_view_array(k, COLS, COLS);
    gp_fit_prior(&smooth, mode);
    struct gp_data data = {&smooth, {x, 0, N}, y, NULL};
    AUTO(gp_fit) struct gp_fit *f = gp_fit_new(&data);
    for (int part = 0; part < 2; part++) { /* of all columns together, of each alone */
        double want = 0;
        for (int i = 0; i < COLS; i++)
            for (int j = 0; j < COLS; j++)
                k[i * COLS + j] = 0.3 + (i == j) * 3 * 0.4 * 0.4;
        gsl_linalg_cholesky_decomp1(&m.matrix);
        gsl_linalg_cholesky_invert(&m.matrix);
        memcpy(p, mode, sizeof p);
        for (int i = 0; i < COLS; i++) {
            p[part * COLS + i] += off[i];
            for (int j = 0; j < COLS; j++)
                want -= off[i] * k[i * COLS + j] * off[j] / 2;
        }
        CHECK_NEAR(gp_fit_density(f, p, NULL) - gp_fit_density(f, mode, NULL), want, 1e-9);
    }
}

TEST(a_climb_ends_higher_and_where_the_gradient_is_small)
{
    double p[11], gradient[11];
    set_points(8);
    gp_fit_prior(&shape, p);
    struct gp_data data = {&shape, points, y, NULL};
    AUTO(gp_fit) struct gp_fit *f = gp_fit_new(&data);
    double before = gp_fit_density(f, p, NULL);
    double after = gp_fit_climb(f, p, 200);
    CHECK(after > before + 5);
    CHECK_NEAR(gp_fit_density(f, p, gradient), after, 1e-9);
    for (int i = 0; i < 11; i++)
        CHECK_NEAR(gradient[i], 0, 0.1);
}

TEST(the_priors_mode_has_no_gradient_of_its_own)
{
    const struct kernel_shape *const shapes[] = {&shape, &smooth};
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        double p[13], gradient[13];
        gp_fit_prior(shapes[s], p);
        struct gp_data data = {shapes[s], {x, 0, N}, y, NULL};
        AUTO(gp_fit) struct gp_fit *f = gp_fit_new(&data);
        gp_fit_density(f, p, gradient);
        for (size_t i = 0; i < gp_params(shapes[s]); i++)
            CHECK_NEAR(gradient[i], 0, 1e-12);
    }
}

TEST(constant_values_fit)
{
    double p[11], flat[N] = {0};
    set_points(9);
    gp_fit_prior(&shape, p);
    struct gp_data data = {&shape, points, flat, NULL};
    AUTO(gp_fit) struct gp_fit *f = gp_fit_new(&data);
    CHECK(isfinite(gp_fit_climb(f, p, 60)));
    for (int i = 0; i < 11; i++)
        CHECK(isfinite(p[i]));
}
