#include "hpo/model/matern.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#define WIDEST ",prefer-vector-width=512" /* otherwise gcc uses vectors of half the width */
#else
#define WIDEST ""
#endif
#define INLINE static inline __attribute__((always_inline))
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma" WIDEST)))
#else
#define AVX2
#define AVX512
#endif

enum units { UNITS_ANY, UNITS_AVX2, UNITS_AVX512 };

/* Returns the widest vector unit of this CPU. */
static enum units units(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return UNITS_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return UNITS_AVX2;
#endif
    return UNITS_ANY;
}

/* Defines the function `name`, which calls name_body() compiled for the vector unit of this CPU. */
#define DEFINE(type, name, parameters, arguments)          \
    static type name##_any parameters                      \
    {                                                      \
        return name##_body arguments;                      \
    }                                                      \
    AVX2 static type name##_avx2 parameters                \
    {                                                      \
        return name##_body arguments;                      \
    }                                                      \
    AVX512 static type name##_avx512 parameters            \
    {                                                      \
        return name##_body arguments;                      \
    }                                                      \
    type name parameters                                   \
    {                                                      \
        enum units u = units();                            \
        return u == UNITS_AVX512 ? name##_avx512 arguments \
               : u == UNITS_AVX2 ? name##_avx2 arguments   \
                                 : name##_any arguments;   \
    }

/* Returns exp(x) for x <= 0, and 0 if x < -708. Splits x into k ln 2 + r with |r| <= ln 2 / 2 (Cody
 * & Waite 1980), and computes exp(r) by the Taylor polynomial of degree 12, whose remainder is
 * below 2e-16. */
INLINE double exp_negative(double x)
{
    /* After adding this, the low bits are the nearest integer. */
    static const double shifter = 0x1.8p52;
    double shifted = x * 0x1.71547652b82fep0 + shifter, k = shifted - shifter;
    double r = (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
    double p = 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    unsigned long bits, power;
    memcpy(&bits, &shifted, sizeof bits);
    power = (bits + 1023) << 52;
    double two_k;
    memcpy(&two_k, &power, sizeof two_k);
    return x < -708 ? 0 : p * two_k;
}

INLINE void matern_52_body(const double *r2, size_t n, double scale, double *k)
{
    for (size_t i = 0; i < n; i++) {
        double a = sqrt(5 * r2[i]);
        k[i] = scale * (1 + a + 5.0 / 3 * r2[i]) * exp_negative(-a);
    }
}
DEFINE(void, matern_52, (const double *r2, size_t n, double scale, double *k), (r2, n, scale, k))

INLINE void matern_52_slope_body(const double *r2, size_t n, double scale, double *restrict k,
                                 double *restrict slope)
{
    for (size_t i = 0; i < n; i++) {
        double x = r2[i], a = sqrt(5 * x), e = scale * exp_negative(-a);
        k[i] = (1 + a + 5.0 / 3 * x) * e;
        slope[i] = -5.0 / 6 * (1 + a) * e;
    }
}
DEFINE(void, matern_52_slope, (const double *r2, size_t n, double scale, double *k, double *slope),
       (r2, n, scale, k, slope))

INLINE void line_values(const struct matern_line *line, const double *restrict x, size_t n,
                        double *restrict k)
{
    double at = line->at, by = sqrt(5) * line->inverse, scale = line->scale;
    for (size_t i = 0; i < n; i++) {
        double a = fabs(x[i] - at) * by;
        k[i] += scale * (1 + a * (1 + a / 3)) * exp_negative(-a);
    }
}
INLINE void line_slope(const struct matern_line *line, const double *restrict x, size_t n,
                       double *restrict k, double *restrict slope)
{
    double at = line->at, by = sqrt(5) * line->inverse, scale = line->scale;
    for (size_t i = 0; i < n; i++) {
        double a = fabs(x[i] - at) * by, e = scale * exp_negative(-a);
        k[i] += (1 + a * (1 + a / 3)) * e;
        slope[i] = -5.0 / 6 * (1 + a) * e;
    }
}
INLINE void matern_52_line_body(const struct matern_line *line, const double *x, size_t n,
                                double *k, double *slope)
{
    if (slope)
        line_slope(line, x, n, k, slope);
    else
        line_values(line, x, n, k);
}
DEFINE(void, matern_52_line,
       (const struct matern_line *line, const double *x, size_t n, double *k, double *slope),
       (line, x, n, k, slope))

INLINE void matern_distance_body(const double *x, size_t n, double at, double inverse,
                                 double *restrict r2)
{
    for (size_t i = 0; i < n; i++) {
        double d = (x[i] - at) * inverse;
        r2[i] += d * d;
    }
}
DEFINE(void, matern_distance, (const double *x, size_t n, double at, double inverse, double *r2),
       (x, n, at, inverse, r2))

/* The pragmas here and in matern_pull_body() allow the compiler to reorder the sum. */
INLINE double matern_spread_body(const double *w, const double *x, size_t n, double at)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += w[i] * (x[i] - at) * (x[i] - at);
    return sum;
}
DEFINE(double, matern_spread, (const double *w, const double *x, size_t n, double at),
       (w, x, n, at))

INLINE void matern_pull_body(const struct matern_weights *w, const double *s, const double *x,
                             size_t n, double at, double sums[2])
{
    const double *a = w->a, *b = w->b;
    double sa = 0, sb = 0;
#pragma omp simd reduction(+ : sa, sb)
    for (size_t i = 0; i < n; i++) {
        double d = s[i] * (at - x[i]);
        sa += a[i] * d;
        sb += b[i] * d;
    }
    sums[0] += sa;
    sums[1] += sb;
}
DEFINE(void, matern_pull,
       (const struct matern_weights *w, const double *s, const double *x, size_t n, double at,
        double sums[2]),
       (w, s, x, n, at, sums))
