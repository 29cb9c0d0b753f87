#include "hpo/search/dist.h"

#include <float.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

static const double exact_max = 9007199254740992.0; /* 2^53: doubles count up to it */

void dist_free(struct dist *d)
{
    if (!d)
        return;
    json_decref(d->values);
    free(d->cumulative);
    free(d);
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* ---- quantiles ---------------------------------------------------------------------------------
 */

/* Beta's quantile by bisection on its CDF: gsl_cdf_beta_Pinv() does not end for some u near 0. */
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

/* The value at u before it is rounded. */
static double real_quantile(const struct dist *d, double u)
{
    u = clamp(u, d->kind < DIST_NORMAL ? 0 : DBL_EPSILON / 4,
              d->kind < DIST_NORMAL ? 1 : 1 - DBL_EPSILON / 2);
    switch (d->kind) {
    case DIST_UNIFORM: /* not a + u (b - a), which overflows and need not end at b */
        return clamp(d->a * (1 - u) + d->b * u, d->lo, d->hi);
    case DIST_LOG_UNIFORM:
        return clamp(exp(d->a * (1 - u) + d->b * u), d->lo, d->hi);
    case DIST_NORMAL:
        return clamp(d->a + (d->b > 0 ? gsl_cdf_gaussian_Pinv(u, d->b) : 0), -DBL_MAX, DBL_MAX);
    case DIST_LOG_NORMAL:
        return clamp(exp(d->a + (d->b > 0 ? gsl_cdf_gaussian_Pinv(u, d->b) : 0)), DBL_MIN, DBL_MAX);
    case DIST_BETA:
        return beta_quantile(u, d->a, d->b);
    default:
        return NAN; /* not a real distribution */
    }
}

/* k * q, an integer where q was written as one. */
static json_t *multiple(const struct dist *d, double k)
{
    double x = k * d->q;
    if (d->whole && fabs(x) <= exact_max)
        return json_integer((json_int_t)x);
    return json_real(clamp(x, -DBL_MAX, DBL_MAX));
}

static size_t category(const struct dist *d, double u)
{
    size_t n = json_array_size(d->values), i = 0;
    while (i + 1 < n && !(d->cumulative[i] > u))
        i++;
    return i;
}

json_t *dist_quantile(const struct dist *d, double u)
{
    switch (d->kind) {
    case DIST_CONSTANT:
        return json_incref(json_array_get(d->values, 0));
    case DIST_CATEGORICAL:
        return json_incref(json_array_get(d->values, category(d, u)));
    case DIST_INT:
        return json_integer((json_int_t)clamp(d->a + ceil(u * (d->b - d->a + 1)) - 1, d->a, d->b));
    default:
        break;
    }
    double x = real_quantile(d, u), k = d->q > 0 ? rint(x / d->q) : INFINITY;
    return fabs(k) <= exact_max ? multiple(d, k) : json_real(x); /* finer than doubles: as it is */
}

/* ---- the other way -----------------------------------------------------------------------------
 */

/* The CDF; beyond [0, 1] where x is beyond what the distribution gives. */
static double real_unit(const struct dist *d, double x)
{
    switch (d->kind) {
    case DIST_UNIFORM:
        return (x - d->a) / (d->b - d->a);
    case DIST_LOG_UNIFORM:
        return x > 0 ? (log(x) - d->a) / (d->b - d->a) : -INFINITY;
    case DIST_NORMAL:
        return d->b > 0 ? gsl_cdf_gaussian_P(x - d->a, d->b) : 0.5;
    case DIST_LOG_NORMAL:
        return x <= 0 ? -INFINITY : d->b > 0 ? gsl_cdf_gaussian_P(log(x) - d->a, d->b) : 0.5;
    case DIST_BETA:
        return x < 0 ? -INFINITY : x > 1 ? INFINITY : gsl_cdf_beta_P(x, d->a, d->b);
    default:
        return NAN; /* not a real distribution */
    }
}

/* Index of an equal one among the values, or -1. */
static long find_value(const struct dist *d, const json_t *value)
{
    AUTO(free) char *key = dist_key(value);
    for (size_t i = 0; i < json_array_size(d->values); i++) {
        AUTO(free) char *other = dist_key(json_array_get(d->values, i));
        if (strcmp(key, other) == 0)
            return (long)i;
    }
    return -1;
}

double dist_unit(const struct dist *d, const json_t *value)
{
    if (d->kind == DIST_CONSTANT || d->kind == DIST_CATEGORICAL) {
        long i = find_value(d, value);
        if (i < 0 || d->kind == DIST_CONSTANT)
            return i < 0 ? NAN : 0.5;
        return ((i ? d->cumulative[i - 1] : 0) + d->cumulative[i]) / 2;
    }
    if (!json_is_number(value))
        return NAN;
    double x = json_number_value(value);
    if (d->kind == DIST_INT)
        return x == rint(x) && x >= d->a && x <= d->b ? (x - d->a + 0.5) / (d->b - d->a + 1) : NAN;
    gsl_set_error_handler_off();
    double u = real_unit(d, x);
    /* Out of the bounds by more than q moves a value? The slack: bounds lose a last digit in logs.
     */
    double low = d->q > 0 ? real_unit(d, x - d->q / 2) : u;
    double high = d->q > 0 ? real_unit(d, x + d->q / 2) : u;
    return low > 1 + 1e-12 || high < -1e-12 ? NAN : clamp(u, 0, 1);
}

/* ---- counting ----------------------------------------------------------------------------------
 */

/* Smallest value before rounding, as a multiple of q; the largest in *hi. */
static double first_multiple(const struct dist *d, double *hi)
{
    *hi = rint(d->hi / d->q);
    return rint(d->lo / d->q);
}

double dist_count(const struct dist *d)
{
    if (d->kind == DIST_CONSTANT || d->kind == DIST_CATEGORICAL)
        return (double)json_array_size(d->values);
    if (d->kind == DIST_INT)
        return d->b - d->a + 1;
    if (!(d->q > 0) || isinf(d->hi))
        return INFINITY;
    double hi = 0, lo = first_multiple(d, &hi);
    return hi - lo + 1 <= exact_max ? hi - lo + 1 : INFINITY;
}

json_t *dist_value(const struct dist *d, double i)
{
    if (d->kind == DIST_CONSTANT || d->kind == DIST_CATEGORICAL)
        return json_incref(json_array_get(d->values, (size_t)i));
    if (d->kind == DIST_INT)
        return json_integer((json_int_t)(d->a + i));
    double hi = 0;
    return multiple(d, first_multiple(d, &hi) + i);
}

double dist_grid_count(const struct dist *d)
{
    if (d->kind == DIST_UNIFORM && d->q > 0) /* the slack: a quotient a hair above a whole number */
        return fmax(1, ceil((d->b - d->a) / d->q - 1e-9));
    return d->kind <= DIST_INT && !d->weighted ? dist_count(d) : -1;
}

json_t *dist_grid_value(const struct dist *d, double i)
{
    if (d->kind != DIST_UNIFORM)
        return dist_value(d, i);
    double x = d->a + i * d->q;
    return d->whole && x == rint(x) && fabs(x) <= exact_max ? json_integer((json_int_t)x)
                                                            : json_real(x);
}

bool dist_has(const struct dist *d, const json_t *value, bool grid)
{
    double x = json_number_value(value), hi = 0;
    if (isnan(dist_unit(d, value)) || (d->kind > DIST_INT && !(d->q > 0)))
        return false;
    if (d->kind <= DIST_INT)
        return true;
    double count = grid ? dist_grid_count(d) : dist_count(d);
    double i = grid ? rint((x - d->a) / d->q) : rint(x / d->q) - first_multiple(d, &hi);
    if (!(count < INFINITY) || i < 0 || i >= count)
        return false;
    AUTO(json) json_t *point = grid ? dist_grid_value(d, i) : dist_value(d, i);
    return json_number_value(point) == x;
}

/* ---- keys --------------------------------------------------------------------------------------
 */

/* A copy in which reals without a fraction are integers. */
static json_t *plain(const json_t *v)
{
    double x = json_real_value(v);
    if (json_is_real(v) && x == rint(x) && fabs(x) <= exact_max)
        return json_integer((json_int_t)x);
    json_t *copy = json_is_array(v)    ? json_array()
                   : json_is_object(v) ? json_object()
                                       : json_incref((json_t *)v);
    for (size_t i = 0; i < json_array_size(v); i++)
        json_array_append_new(copy, plain(json_array_get(v, i)));
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)v, key, value) /* only reads, but takes no const */
        json_object_set_new(copy, key, plain(value));
    return copy;
}

char *dist_key(const json_t *value)
{
    AUTO(json) json_t *p = plain(value);
    char *text =
        json_dumps(p, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (!text)
        abort(); /* out of memory */
    return text;
}
