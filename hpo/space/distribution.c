#include "hpo/space/distribution.h"

#include <float.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/json.h"
static const double exact_max = 9007199254740992.0; /* 2^53: smaller integers are exact */

void distribution_free(struct distribution *d)
{
    if (!d)
        return;
    json_decref(d->values);
    json_decref(d->index);
    free(d->cumulative);
    free(d);
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* ---- quantiles ------------------------------------------------------------------------------ */

/* Returns the quantile of a beta distribution, by bisection of its CDF. gsl_cdf_beta_Pinv() does
 * not return for some u near 0. */
static double beta_quantile(double u, double a, double b)
{
    double lo = 0, hi = 1;
    for (;;) {
        double x = lo + (hi - lo) / 2;
        if (x <= lo || x >= hi)
            return x;
        if (gsl_cdf_beta_P(x, a, b) < u)
            lo = x;
        else
            hi = x;
    }
}

/* Returns the value at u before rounding to multiples of q. */
static double quantile(const struct distribution *d, double u)
{
    u = clamp(u, d->kind < DISTRIBUTION_NORMAL ? 0 : DBL_EPSILON / 4,
              d->kind < DISTRIBUTION_NORMAL ? 1 : 1 - DBL_EPSILON / 2);
    switch (d->kind) {
    case DISTRIBUTION_UNIFORM: /* a + u (b - a) could overflow, and might not reach b */
        return clamp(d->a * (1 - u) + d->b * u, d->lo, d->hi);
    case DISTRIBUTION_LOG_UNIFORM:
        return clamp(exp(d->a * (1 - u) + d->b * u), d->lo, d->hi);
    case DISTRIBUTION_NORMAL:
        return clamp(d->a + (d->b > 0 ? gsl_cdf_gaussian_Pinv(u, d->b) : 0), -DBL_MAX, DBL_MAX);
    case DISTRIBUTION_LOG_NORMAL:
        return clamp(exp(d->a + (d->b > 0 ? gsl_cdf_gaussian_Pinv(u, d->b) : 0)), DBL_MIN, DBL_MAX);
    case DISTRIBUTION_BETA:
        return beta_quantile(u, d->a, d->b);
    default:
        return NAN; /* not a real distribution */
    }
}

/* Returns k * q (new reference), as an integer if q was written as one. */
static json_t *multiple(const struct distribution *d, double k)
{
    double x = k * d->q;
    if (d->whole && fabs(x) <= exact_max)
        return json_integer((json_int_t)x);
    return json_real(clamp(x, -DBL_MAX, DBL_MAX));
}

static size_t category(const struct distribution *d, double u)
{
    size_t first = 0, last = json_array_size(d->values) - 1;
    while (first < last) { /* binary search for the first value whose range ends above u */
        size_t middle = (first + last) / 2;
        if (d->cumulative[middle] > u)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* Returns the index of the value at u; for q_ forms the value divided by q. Returns NAN if the
 * values cannot be counted, or are closer to each other than doubles. */
static double value_index(const struct distribution *d, double u)
{
    switch (d->kind) {
    case DISTRIBUTION_CONSTANT:
        return 0;
    case DISTRIBUTION_CATEGORICAL:
        return (double)category(d, u);
    case DISTRIBUTION_INT:
        return clamp(ceil(u * (d->b - d->a + 1)) - 1, 0, d->b - d->a);
    case DISTRIBUTION_INT_LOG:
        return clamp(rint(exp(d->a * (1 - u) + d->b * u)), d->lo, d->hi) - d->lo;
    default:
        break;
    }
    double k = d->q > 0 ? rint(quantile(d, u) / d->q) : NAN;
    return fabs(k) <= exact_max ? k : NAN;
}

double distribution_number(const struct distribution *d, double u)
{
    double k = value_index(d, u);
    if (isnan(k))
        return quantile(d, u);
    if (d->kind == DISTRIBUTION_INT || d->kind == DISTRIBUTION_INT_LOG)
        return d->lo + k;
    const json_t *v = json_array_get(d->values, (size_t)k);
    return d->q > 0            ? clamp(k * d->q, -DBL_MAX, DBL_MAX)
           : json_is_number(v) ? json_number_value(v)
                               : NAN;
}

json_t *distribution_quantile(const struct distribution *d, double u)
{
    if (d->kind == DISTRIBUTION_CONSTANT || d->kind == DISTRIBUTION_CATEGORICAL)
        return json_incref(json_array_get(d->values, (size_t)value_index(d, u)));
    double k = value_index(d, u);
    if (d->kind <= DISTRIBUTION_INT_LOG)
        return json_integer((json_int_t)(d->lo + k));
    return isnan(k) ? json_real(quantile(d, u)) : multiple(d, k);
}

/* ---- the inverse: from values to u ---------------------------------------------------------- */

/* Returns the CDF at x. The result is outside [0, 1] if x is outside the range of the
 * distribution. */
static double cdf(const struct distribution *d, double x)
{
    switch (d->kind) {
    case DISTRIBUTION_UNIFORM:
        return isinf(d->b - d->a) ? (x / 2 - d->a / 2) / (d->b / 2 - d->a / 2)
                                  : (x - d->a) / (d->b - d->a);
    case DISTRIBUTION_LOG_UNIFORM:
        return x > 0 ? (log(x) - d->a) / (d->b - d->a) : -INFINITY;
    case DISTRIBUTION_NORMAL:
        return d->b > 0 ? gsl_cdf_gaussian_P(x - d->a, d->b) : 0.5;
    case DISTRIBUTION_LOG_NORMAL:
        return x <= 0 ? -INFINITY : d->b > 0 ? gsl_cdf_gaussian_P(log(x) - d->a, d->b) : 0.5;
    case DISTRIBUTION_BETA:
        return x < 0 ? -INFINITY : x > 1 ? INFINITY : gsl_cdf_beta_P(x, d->a, d->b);
    default:
        return NAN; /* not a real distribution */
    }
}

/* Returns the centre of the range of u that have the value with index k of value_index(). */
static double center(const struct distribution *d, double k)
{
    size_t i = (size_t)fabs(k);
    double x = clamp(k * d->q, -DBL_MAX, DBL_MAX);
    switch (d->kind) {
    case DISTRIBUTION_CONSTANT:
        return 0.5;
    case DISTRIBUTION_CATEGORICAL:
        return ((i ? d->cumulative[i - 1] : 0) + d->cumulative[i]) / 2;
    case DISTRIBUTION_INT:
        return (k + 0.5) / (d->b - d->a + 1);
    case DISTRIBUTION_INT_LOG:
        return ((log(d->lo + k - 0.5) + log(d->lo + k + 0.5)) / 2 - d->a) / (d->b - d->a);
    default:
        return clamp(cdf(d, x - d->q / 2), 0, 1) / 2 + clamp(cdf(d, x + d->q / 2), 0, 1) / 2;
    }
}

/* Returns true if the values of the distribution are much further apart than doubles. Then
 * cdf(quantile(u)) differs from u by at most 1e-13, and need not be computed. */
static bool is_fine(const struct distribution *d)
{
    double big = fmax(fabs(d->a), fabs(d->b));
    switch (d->kind) {
    case DISTRIBUTION_UNIFORM:
        return big < 500 * (d->b - d->a) && d->b - d->a > 1e-290;
    case DISTRIBUTION_LOG_UNIFORM:
        return 1 + big < 500 * (d->b - d->a) && d->a > -700;
    case DISTRIBUTION_NORMAL:
        return fabs(d->a) < 500 * d->b && d->b > 1e-290 && d->b < 1e290;
    case DISTRIBUTION_LOG_NORMAL:
        return 1 + fabs(d->a) < 500 * d->b && fabs(d->a) + 9 * d->b < 700;
    default:
        return d->a >= 1 && d->b >= 1 && big <= 100;
    }
}

double distribution_snap(const struct distribution *d, double u)
{
    double k = value_index(d, u);
    if (!isnan(k))
        return center(d, k);
    return clamp(is_fine(d) ? u : cdf(d, quantile(d, u)), 0, 1);
}

double distribution_neighbor(const struct distribution *d, double u, int by)
{
    double k = value_index(d, u) + by;
    if (d->kind <= DISTRIBUTION_INT_LOG)
        return center(d, clamp(k, 0, distribution_count(d) - 1));
    return isnan(k) ? NAN : center(d, clamp(k, rint(d->lo / d->q), rint(d->hi / d->q)));
}

double distribution_unit(const struct distribution *d, const json_t *value)
{
    if (d->kind == DISTRIBUTION_CONSTANT || d->kind == DISTRIBUTION_CATEGORICAL) {
        AUTO(free) char *key = distribution_key(value);
        const json_t *i = json_object_get(d->index, key);
        return i ? center(d, json_number_value(i)) : NAN;
    }
    if (!json_is_number(value))
        return NAN;
    double x = json_number_value(value);
    if (d->kind <= DISTRIBUTION_INT_LOG)
        return x == rint(x) && x >= d->lo && x <= d->hi ? center(d, x - d->lo) : NAN;
    gsl_set_error_handler_off();
    /* Rounding to multiples of q can move a value out of the bounds by q / 2. 1e-12 is the error of
     * bounds that are stored as logarithms. */
    double low = cdf(d, x - d->q / 2), high = cdf(d, x + d->q / 2);
    if (low > 1 + 1e-12 || high < -1e-12)
        return NAN;
    double k = d->q > 0 ? rint(x / d->q) : NAN;
    return fabs(k) <= exact_max ? center(d, k) : clamp(cdf(d, x), 0, 1);
}

/* ---- counting ------------------------------------------------------------------------------- */

/* Returns the smallest value divided by q, and sets `*hi` to the largest value divided by q. */
static double first_multiple(const struct distribution *d, double *hi)
{
    *hi = rint(d->hi / d->q);
    return rint(d->lo / d->q);
}

double distribution_count(const struct distribution *d)
{
    if (d->kind == DISTRIBUTION_CONSTANT || d->kind == DISTRIBUTION_CATEGORICAL)
        return (double)json_array_size(d->values);
    if (d->kind <= DISTRIBUTION_INT_LOG)
        return d->hi - d->lo + 1;
    if (!(d->q > 0) || isinf(d->hi))
        return INFINITY;
    double hi = 0, lo = first_multiple(d, &hi);
    return hi - lo + 1 <= exact_max ? hi - lo + 1 : INFINITY;
}

json_t *distribution_value(const struct distribution *d, double i)
{
    if (d->kind == DISTRIBUTION_CONSTANT || d->kind == DISTRIBUTION_CATEGORICAL)
        return json_incref(json_array_get(d->values, (size_t)i));
    if (d->kind <= DISTRIBUTION_INT_LOG)
        return json_integer((json_int_t)(d->lo + i));
    double hi = 0;
    return multiple(d, first_multiple(d, &hi) + i);
}

double distribution_index(const struct distribution *d, double u)
{
    double hi = 0;
    if (isinf(distribution_count(d)))
        return NAN;
    return value_index(d, u) - (d->kind <= DISTRIBUTION_INT_LOG ? 0 : first_multiple(d, &hi));
}

double distribution_grid_count(const struct distribution *d)
{
    if (d->kind == DISTRIBUTION_UNIFORM &&
        d->q > 0) /* 1e-9, since the quotient may be slightly above a whole number */
        return fmax(1, ceil((d->b - d->a) / d->q - 1e-9));
    return d->kind <= DISTRIBUTION_INT_LOG && !d->weighted ? distribution_count(d) : -1;
}

json_t *distribution_grid_value(const struct distribution *d, double i)
{
    if (d->kind != DISTRIBUTION_UNIFORM)
        return distribution_value(d, i);
    double x = d->a + i * d->q;
    return d->whole && x == rint(x) && fabs(x) <= exact_max ? json_integer((json_int_t)x)
                                                            : json_real(x);
}

bool distribution_has(const struct distribution *d, const json_t *value, bool grid)
{
    double x = json_number_value(value), hi = 0;
    if (isnan(distribution_unit(d, value)) || (d->kind > DISTRIBUTION_INT_LOG && !(d->q > 0)))
        return false;
    if (d->kind <= DISTRIBUTION_INT_LOG)
        return true;
    double count = grid ? distribution_grid_count(d) : distribution_count(d);
    double i = grid ? rint((x - d->a) / d->q) : rint(x / d->q) - first_multiple(d, &hi);
    if (!(count < INFINITY) || i < 0 || i >= count)
        return false;
    AUTO(json) json_t *point = grid ? distribution_grid_value(d, i) : distribution_value(d, i);
    return json_number_value(point) == x;
}

json_t *distribution_form(const struct distribution *d, json_t *value)
{
    double x = json_number_value(value);
    if (d->kind == DISTRIBUTION_CONSTANT || d->kind == DISTRIBUTION_CATEGORICAL) {
        AUTO(free) char *key = distribution_key(value);
        const json_t *i = json_object_get(d->index, key);
        return json_incref(i ? json_array_get(d->values, (size_t)json_integer_value(i)) : value);
    }
    bool whole = d->kind <= DISTRIBUTION_INT_LOG || d->whole;
    return whole && json_is_real(value) && x == rint(x) && fabs(x) <= exact_max
               ? json_integer((json_int_t)x)
               : json_incref(value);
}

json_t *distribution_exact(const struct distribution *d, json_t *value, bool grid)
{
    double x = json_number_value(value);
    if (d->kind <= DISTRIBUTION_INT_LOG || !(d->q > 0) || !json_is_number(value))
        return distribution_form(d, value);
    double from = grid ? d->a : 0, k = rint((x - from) / d->q);
    if (!(fabs(k) <= exact_max) || (grid && !(k >= 0 && k < distribution_grid_count(d))))
        return distribution_form(d, value);
    json_t *exact = grid ? distribution_grid_value(d, k) : multiple(d, k);
    double off = fabs(json_number_value(exact) - x);
    if (off > 0 && off <= 4 * DBL_EPSILON * (fabs(from) + fabs(x)))
        return exact;
    json_decref(exact);
    return distribution_form(d, value);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Returns a copy (new reference) in which reals without a fraction are integers. */
static json_t *normalized(const json_t *v)
{
    double x = json_real_value(v);
    if (json_is_real(v) && x == rint(x) && fabs(x) <= exact_max)
        return json_integer((json_int_t)x);
    json_t *copy = json_is_array(v)    ? json_array()
                   : json_is_object(v) ? json_object()
                                       : json_incref((json_t *)v);
    for (size_t i = 0; i < json_array_size(v); i++)
        json_array_append_new(copy, normalized(json_array_get(v, i)));
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)v, key, value) /* the macro rejects const pointers */
        json_object_set_new(copy, key, normalized(value));
    return copy;
}

char *distribution_key(const json_t *value)
{
    AUTO(json) json_t *p = normalized(value);
    return xchecked(
        json_dumps(p, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)));
}
