#include "hpo/model/pareto.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdbool.h>

#include "common/mem.h"
#include "common/rng.h"
#include "hpo/model/sobol.h"
#include "tests/unit/kit_hypervolume.h"
#include "tests/unit/test.h"

/* ---- the front ------------------------------------------------------------------------------ */

TEST(the_front_has_what_nothing_dominates_in_the_order_of_the_first_objective)
{
    static const double y[][2] = {{3, 1}, {2, 2}, {2, 3}, {1, 3}, {4, 0.5}, {2, 2}, {4, 1}, {1, 4}};
    static const size_t want[] = {3, 1, 5, 0, 4}; /* rows 1 and 5 are equal: both */
    size_t front[COUNT_OF(y)];
    CHECK_INT(pareto_front(&y[0][0], COUNT_OF(y), 2, front), COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++)
        CHECK_INT(front[i], want[i]);
    CHECK_INT(pareto_front(&y[0][0], 0, 2, front), 0);
}

TEST(the_front_of_one_objective_is_its_smallest_values)
{
    static const double y[] = {3, 1, 2, 1, 5};
    size_t front[5];
    CHECK_INT(pareto_front(y, 5, 1, front), 2);
    CHECK_INT(front[0], 1);
    CHECK_INT(front[1], 3);
}

/* n values on a lattice, so that some are equal. */
static void lattice(double *y, size_t n, uint64_t stream)
{
    struct rng r;
    rng_seed(&r, 11, stream);
    for (size_t i = 0; i < n; i++)
        y[i] = (double)rng_below(&r, 8);
}

TEST(the_front_is_that_of_the_definition_for_up_to_five_objectives)
{
    for (size_t m = 1; m <= 5; m++) {
        double y[200 * 5];
        lattice(y, 200 * m, m);
        size_t front[200], n = pareto_front(y, 200, m, front);
        bool in[200] = {0};
        for (size_t i = 0; i < n; i++)
            in[front[i]] = true;
        for (size_t i = 0; i < 200; i++) {
            bool dominated = false;
            for (size_t k = 0; k < 200; k++) {
                bool nowhere_larger = true, equal = true;
                for (size_t j = 0; j < m; j++) {
                    nowhere_larger &= y[k * m + j] <= y[i * m + j];
                    equal &= y[k * m + j] == y[i * m + j];
                }
                dominated |= nowhere_larger && !equal;
            }
            CHECK_INT(in[i], !dominated);
        }
    }
}

TEST(the_reference_is_the_worst_of_all_rows)
{
    static const double y[][3] = {{1, 30, -1}, {2, 20, -2}, {5, 10, -9}, {9, 90, -4}};
    double ref[3];
    pareto_reference(&y[0][0], 4, 3, ref);
    CHECK_NEAR(ref[0], 9, 0);
    CHECK_NEAR(ref[1], 90, 0);
    CHECK_NEAR(ref[2], -1, 0);
    pareto_reference(&y[1][0], 1, 3, ref);
    CHECK_NEAR(ref[1], 20, 0);
}

/* ---- hypervolume ---------------------------------------------------------------------------- */

TEST(hypervolumes_by_hand)
{
    static const double two[][2] = {{2, 2}, {1, 3}, {3, 1}, {3, 3}, {9, 0}};
    static const double ref[] = {4, 4, 4};
    CHECK_NEAR(hypervolume(&two[0][0], 5, 2, ref), 6, 0);
    CHECK_NEAR(hypervolume(&two[0][0], 0, 2, ref), 0, 0);
    CHECK_NEAR(hypervolume(&two[4][0], 1, 2, ref), 0, 0); /* beyond the reference */
    static const double three[][3] = {{1, 3, 3}, {3, 1, 3}, {3, 3, 1}, {2, 2, 2}};
    /* the cube of side 2, and three boxes of 3 x 1 x 1 that share a unit with it */
    CHECK_NEAR(hypervolume(&three[0][0], 4, 3, ref), 8 + 3 * 2 - 3, 0);
}

TEST(hypervolumes_count_the_unit_cells_that_are_dominated)
{
    static const double ref[] = {8, 7, 6, 8};
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (size_t m = 2; m <= 4; m++) {
            double y[12 * 4];
            lattice(y, 12 * m, 100 + 4 * seed + m);
            long cells = 0;
            for (int c = 0; c < 1 << (3 * m); c++) {
                bool inside = true, dominated = false;
                for (size_t j = 0; j < m; j++)
                    inside &= (c >> (3 * j) & 7) < ref[j];
                for (size_t i = 0; i < 12; i++) {
                    bool all = true;
                    for (size_t j = 0; j < m; j++)
                        all &= y[i * m + j] <= (c >> (3 * j) & 7);
                    dominated |= all;
                }
                cells += inside && dominated;
            }
            CHECK_NEAR(hypervolume(y, 12, m, ref), (double)cells, 0);
        }
    }
}

TEST(only_the_front_counts_and_the_order_of_rows_does_not)
{
    struct rng r;
    rng_seed(&r, 5, 0);
    enum { N = 60, M = 3 };
    double y[N][M], back[N][M], only[N][M];
    static const double ref[] = {0.9, 1.1, 0.8};
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < M; j++)
            back[N - 1 - i][j] = y[i][j] = rng_unit(&r);
    size_t front[N], n = pareto_front(&y[0][0], N, M, front);
    CHECK(n < N);
    for (size_t i = 0; i < n; i++)
        memcpy(only[i], y[front[i]], sizeof only[i]);
    double v = hypervolume(&y[0][0], N, M, ref);
    CHECK_NEAR(hypervolume(&back[0][0], N, M, ref), v, 1e-14);
    CHECK_NEAR(hypervolume(&only[0][0], n, M, ref), v, 1e-14);
}

/* ---- expected improvement ------------------------------------------------------------------- */

static const double front5[][2] = {{0.25, 4}, {0.5, 3}, {0.5000000001, 2.9999}, {2, 1}, {3, 0.5}};

TEST(log_ehvi_and_its_slope_agree_with_60_digits)
{
    /* mpmath 1.4.1 at 60 digits: the sum over strips, and central differences with step 1e-20. */
    static const struct {
        size_t n;
        double ref[2], mu[2], sd[2], want, grad[4];
    } cases[] = {
        /* an empty front, and 24 and 32 deviations beyond the reference */
        {0,
         {5, 5},
         {8, 7},
         {0.125, 0.0625},
         -819.98558357514089,
         {-192.66323593441191, -512.9970901491453, 4631.9176624258859, 16431.90688477265}},
        {5,
         {4, 5},
         {1, 2},
         {0.5, 1},
         0.2256823878070257,
         {-1.0162519526767537, -0.85834409913886435, 0.32425311024617113, 0.48271348663112669}},
        {5, /* at the reference point */
         {4, 5},
         {4, 5},
         {0.0625, 0.125},
         -658.46034004147073,
         {-372.48324900393099, -196.3413556804008, 9906.2930386039663, 5338.4710056486353}},
        {5, /* 64 and 32 deviations beyond the reference */
         {4, 5},
         {8, 9},
         {0.0625, 0.125},
         -4383.4480690029709,
         {-1024.4996344134096, -544.23514169203474, 65583.976602458216, 37015.989635058362}},
        {5, /* certainly better than all */
         {4, 5},
         {-3, -3},
         {0.0625, 0.125},
         3.7898519816176848,
         {-0.18079157330476823, -0.1581926266416722, 0, 0}},
        {5, /* with a large deviation */
         {4, 5},
         {2, 2},
         {1000, 3000},
         13.079998162129107,
         {-0.0012521756881828989, -0.00041758207376343624, 0.00099750177517603405,
          0.0003329177948762598}},
        {5, /* with a tiny deviation: it adds 1/8 x 1/2 */
         {4, 5},
         {0.375, 3.5},
         {0.001, 0.001},
         -2.7725887222397812,
         {-8, -2, 0, 0}},
    };
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        double grad[4];
        double got = pareto_log_ehvi2(&front5[0][0], cases[c].n, cases[c].ref, cases[c].mu,
                                      cases[c].sd, grad);
        CHECK_NEAR(got, cases[c].want, 1e-14 * (10 + fabs(cases[c].want)));
        for (int k = 0; k < 4; k++)
            CHECK_NEAR(grad[k], cases[c].grad[k], 1e-12 * (1 + fabs(cases[c].grad[k])));
    }
}

TEST(one_point_has_the_closed_form)
{
    /* mu 0, sd 1, ref (1, 1), point (0, 0): h(0) h(1) + (h(1) - h(0)) h(0), h = phi + z Phi. */
    double h0 = 0.3989422804014327, h1 = 0.24197072451914337 + 0.8413447460685429;
    static const double origin[2] = {0, 0}, one[2] = {1, 1};
    double grad[4];
    double got = pareto_log_ehvi2(origin, 1, one, origin, one, grad);
    CHECK_NEAR(got, log(2 * h0 * h1 - h0 * h0), 1e-14);
    CHECK_NEAR(grad[0], grad[1], 1e-14); /* by symmetry */
    CHECK_NEAR(grad[2], grad[3], 1e-14);
}

/* The mean over 2^14 scrambled points of what each adds to hypervolume(). */
static double by_simulation(const double (*front)[2], size_t n, const double *ref, const double *mu,
                            const double *sd)
{
    enum { N = 1 << 14 };
    double with[10][2], sum = 0, before = hypervolume(&front[0][0], n, 2, ref);
    memcpy(with, front, n * sizeof *front);
    for (uint64_t i = 0; i < N; i++) {
        double u[2];
        sobol_point(3, i, 2, u);
        for (int j = 0; j < 2; j++)
            with[n][j] = mu[j] + sd[j] * gsl_cdf_ugaussian_Pinv(u[j]);
        sum += hypervolume(&with[0][0], n + 1, 2, ref) - before;
    }
    return sum / N;
}

TEST(simulated_improvements_have_the_expected_mean)
{
    static const double ref[2] = {4, 5};
    static const double mu[][2] = {{1, 2}, {2, 2}, {0, 0}, {3.5, 4}, {4.5, 0.75}};
    static const double sd[][2] = {{1, 0.5}, {0.1, 0.2}, {2, 2}};
    for (size_t i = 0; i < COUNT_OF(mu); i++) {
        for (size_t k = 0; k < COUNT_OF(sd); k++) {
            double grad[4], want = by_simulation(front5, 5, ref, mu[i], sd[k]);
            double got = exp(pareto_log_ehvi2(&front5[0][0], 5, ref, mu[i], sd[k], grad));
            CHECK_NEAR(got, want, 2e-3 * want + 1e-5);
        }
    }
}

TEST(slopes_agree_with_differences)
{
    struct rng r;
    rng_seed(&r, 1, 0);
    for (int round = 0; round < 200; round++) {
        double y[30][2], sorted[30][2];
        for (int i = 0; i < 30; i++)
            for (int j = 0; j < 2; j++)
                y[i][j] = rng_unit(&r);
        size_t order[30], n = pareto_front(&y[0][0], 30, 2, order);
        for (size_t i = 0; i < n; i++)
            memcpy(sorted[i], y[order[i]], sizeof sorted[i]);
        static const double ref[2] = {1, 1};
        /* means 30 deviations or more apart */
        double p[4] = {3 * rng_unit(&r) - 1, 3 * rng_unit(&r) - 1, pow(10, -2 * rng_unit(&r)),
                       pow(10, -2 * rng_unit(&r))};
        double grad[4], unused[4];
        pareto_log_ehvi2(&sorted[0][0], n, ref, p, p + 2, grad);
        for (int k = 0; k < 4; k++) {
            double old = p[k], h = 1e-5 * p[2 + k % 2], side[2];
            for (int s = 0; s < 2; s++) {
                p[k] = s == 0 ? old - h : old + h;
                side[s] = pareto_log_ehvi2(&sorted[0][0], n, ref, p, p + 2, unused);
            }
            p[k] = old;
            double want = (side[1] - side[0]) / (2 * h);
            CHECK_NEAR(grad[k], want, 1e-5 * fabs(want) + 1e-11 / h);
        }
    }
}

TEST(rows_that_are_dominated_equal_or_beyond_the_reference_change_nothing)
{
    static const double plain[][2] = {{1, 3}, {2, 1}};
    static const double full[][2] = {{-9, 6}, {1, 3}, {1, 3}, {1.5, 3.5}, {2, 1}, {2, 1}, {9, -9}};
    static const double ref[2] = {4, 5};
    for (double mu = -5; mu < 100; mu += 7) {
        const double mean[2] = {mu, 2}, sd[2] = {1, 2};
        double a[4], b[4];
        CHECK_NEAR(pareto_log_ehvi2(&full[0][0], 7, ref, mean, sd, a),
                   pareto_log_ehvi2(&plain[0][0], 2, ref, mean, sd, b), 1e-11);
        for (int k = 0; k < 4; k++)
            CHECK_NEAR(a[k], b[k], 1e-11 * (1 + fabs(b[k])));
    }
}

TEST(it_stays_finite_and_falls_to_the_far_end)
{
    static const double ref[2] = {4, 5};
    double last = INFINITY;
    for (double mu = -1e6; mu < 1e6; mu += 997) {
        const double mean[2] = {mu, mu}, sd[2] = {0.5, 0.5};
        double grad[4], v = pareto_log_ehvi2(&front5[0][0], 5, ref, mean, sd, grad);
        CHECK(isfinite(v) && v < last);
        last = v;
        for (int k = 0; k < 4; k++)
            CHECK(isfinite(grad[k]));
        CHECK(grad[0] < 0 && grad[1] < 0);
    }
}
