#include "hpo/model/matern.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#define WIDEST ",prefer-vector-width=512" /* otherwise gcc uses vectors of half the width */
#else
#define WIDEST ""
#endif
#define INLINE static inline __attribute__((always_inline))

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

INLINE void values(const double *r2, size_t n, double scale, double *k)
{
    for (size_t i = 0; i < n; i++) {
        double a = sqrt(5 * r2[i]);
        k[i] = scale * (1 + a + 5.0 / 3 * r2[i]) * exp_negative(-a);
    }
}

INLINE void values_slope(const double *r2, size_t n, double scale, double *restrict k,
                         double *restrict slope)
{
    for (size_t i = 0; i < n; i++) {
        double x = r2[i], a = sqrt(5 * x), e = scale * exp_negative(-a);
        k[i] = (1 + a + 5.0 / 3 * x) * e;
        slope[i] = -5.0 / 6 * (1 + a) * e;
    }
}

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

INLINE void distance(const double *x, size_t n, double at, double inverse, double *restrict r2)
{
    for (size_t i = 0; i < n; i++) {
        double d = (x[i] - at) * inverse;
        r2[i] += d * d;
    }
}

/* The pragmas here and in pull() allow the compiler to reorder the sum. */
INLINE double spread(const double *w, const double *x, size_t n, double at)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += w[i] * (x[i] - at) * (x[i] - at);
    return sum;
}

INLINE void pull(const struct matern_weights *w, const double *s, const double *x, size_t n,
                 double at, double sums[2])
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

/* Compiles the functions above for one kind of vector unit. The CPU may have any of these kinds. */
#define BODIES(suffix, attribute)                                                                  \
    attribute static void values_##suffix(const double *r2, size_t n, double scale, double *k)     \
    {                                                                                              \
        values(r2, n, scale, k);                                                                   \
    }                                                                                              \
    attribute static void values_slope_##suffix(const double *r2, size_t n, double scale,          \
                                                double *k, double *slope)                          \
    {                                                                                              \
        values_slope(r2, n, scale, k, slope);                                                      \
    }                                                                                              \
    attribute static void line_values_##suffix(const struct matern_line *line, const double *x,    \
                                               size_t n, double *k)                                \
    {                                                                                              \
        line_values(line, x, n, k);                                                                \
    }                                                                                              \
    attribute static void line_slope_##suffix(const struct matern_line *line, const double *x,     \
                                              size_t n, double *k, double *slope)                  \
    {                                                                                              \
        line_slope(line, x, n, k, slope);                                                          \
    }                                                                                              \
    attribute static void distance_##suffix(const double *x, size_t n, double at, double inverse,  \
                                            double *r2)                                            \
    {                                                                                              \
        distance(x, n, at, inverse, r2);                                                           \
    }                                                                                              \
    attribute static double spread_##suffix(const double *w, const double *x, size_t n, double at) \
    {                                                                                              \
        return spread(w, x, n, at);                                                                \
    }                                                                                              \
    attribute static void pull_##suffix(const struct matern_weights *w, const double *s,           \
                                        const double *x, size_t n, double at, double sums[2])      \
    {                                                                                              \
        pull(w, s, x, n, at, sums);                                                                \
    }                                                                                              \
    static const struct units units_##suffix = {                                                   \
        values_##suffix,   values_slope_##suffix, line_values_##suffix, line_slope_##suffix,       \
        distance_##suffix, spread_##suffix,       pull_##suffix}

struct units {
    void (*values)(const double *r2, size_t n, double scale, double *k);
    void (*values_slope)(const double *r2, size_t n, double scale, double *k, double *slope);
    void (*line_values)(const struct matern_line *line, const double *x, size_t n, double *k);
    void (*line_slope)(const struct matern_line *line, const double *x, size_t n, double *k,
                       double *slope);
    void (*distance)(const double *x, size_t n, double at, double inverse, double *r2);
    double (*spread)(const double *w, const double *x, size_t n, double at);
    void (*pull)(const struct matern_weights *w, const double *s, const double *x, size_t n,
                 double at, double sums[2]);
};

BODIES(any, );
#ifdef __x86_64__
BODIES(avx2, __attribute__((target("avx2,fma"))));
BODIES(avx512, __attribute__((target("avx512f,avx512dq,avx512vl,fma" WIDEST))));
#endif

static const struct units *units(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &units_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &units_avx2;
#endif
    return &units_any;
}

void matern_52(const double *r2, size_t n, double scale, double *k)
{
    units()->values(r2, n, scale, k);
}

void matern_52_slope(const double *r2, size_t n, double scale, double *k, double *slope)
{
    units()->values_slope(r2, n, scale, k, slope);
}

void matern_52_line(const struct matern_line *line, const double *x, size_t n, double *k,
                    double *slope)
{
    if (slope)
        units()->line_slope(line, x, n, k, slope);
    else
        units()->line_values(line, x, n, k);
}

void matern_distance(const double *x, size_t n, double at, double inverse, double *r2)
{
    units()->distance(x, n, at, inverse, r2);
}

double matern_spread(const double *w, const double *x, size_t n, double at)
{
    return units()->spread(w, x, n, at);
}

void matern_pull(const struct matern_weights *w, const double *s, const double *x, size_t n,
                 double at, double sums[2])
{
    units()->pull(w, s, x, n, at, sums);
}
