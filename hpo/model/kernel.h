/* kernel - the covariance of the search's Gaussian process.
 *
 *      k(x, x') = s M(x, x') + s2 / G  sum over groups g of M_g(x_g, x'_g)
 *
 * M and M_g are Matern-5/2 kernels: M has a length scale per column ("automatic relevance
 * determination", Rasmussen & Williams 2006, section 5.1), and M_g has one length scale for all
 * columns of group g. A group is a parameter: a number has one column, a category one column per
 * choice. The second part is the additive kernel of first order (Duvenaud, Nickisch & Rasmussen
 * 2011): it learns quickly if parameters act nearly independently. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct kernel_shape { /* describes the columns of points */
    size_t cols, groups;
    const size_t *group; /* the group of each column; the columns of a group are adjacent */
    bool smooth;         /* all groups are continuous numbers, so cols = groups */
};

/* Returns the number of hyperparameters. Their order: ln length of each column, ln length of each
 * group, ln s, ln s2. */
static inline size_t kernel_params(const struct kernel_shape *h)
{
    return h->cols + h->groups + 2;
}

struct kernel {                       /* set by kernel_set() */
    const struct kernel_shape *shape; /* borrowed */
    double *inverse;                  /* 1 / length of each column, then of each group; borrowed */
    double scale, scale1;             /* s, s2 / G */
};

/* Sets the hyperparameters. `inverse` is memory of the caller for cols + groups numbers, which must
 * live as long as the kernel. */
void kernel_set(struct kernel *k, const struct kernel_shape *h, const double *params,
                double *inverse);

struct kernel_points { /* n points, stored by columns: column c of point i is x[c * stride + i] */
    const double *x;
    size_t n, stride;
};

struct kernel_out { /* results for n points; the caller's memory */
    double *k;      /* n numbers: the covariances */
    double *first;  /* n numbers: the covariances of the first part alone; NULL: not needed */
    double *slope;  /* (1 + groups) rows of n: derivatives by r^2 (r: the scaled distance) of the
                       first part, then of each group's part; NULL: not needed */
    double *work;   /* n numbers of work space */
};

/* Computes k(at, x_i) for the points i = 0 … n - 1. `at` has one number per column. Costs n (cols +
 * groups) flops and n (1 + groups) calls of exp(). */
void kernel_row(const struct kernel *k, const struct kernel_points *p, const double *at,
                const struct kernel_out *out);

/* Returns k(x, x), which is equal for all points. */
double kernel_self(const struct kernel *k);
