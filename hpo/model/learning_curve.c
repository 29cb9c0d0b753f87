#include "hpo/model/learning_curve.h"

#include <math.h>
/* share of the fitted slope that the forecast uses, since curves flatten */
static const double flatten = 0.7;
static const double share_min = 1e-4;

enum learning_curve_link learning_curve_link_for(double low, double high, bool maximize)
{
    if (!maximize)
        return low > 0 ? LEARNING_CURVE_LOG : LEARNING_CURVE_LINEAR;
    return low >= 0 && high <= 1 ? LEARNING_CURVE_LOGIT : LEARNING_CURVE_LINEAR;
}

double learning_curve_z(enum learning_curve_link link, bool maximize, double y)
{
    if (link == LEARNING_CURVE_LOG)
        return log(y);
    if (link == LEARNING_CURVE_LINEAR)
        return maximize ? -y : y;
    y = fmin(fmax(y, share_min), 1 - share_min);
    return log1p(-y) - log(y);
}

double learning_curve_y(enum learning_curve_link link, bool maximize, double z)
{
    if (link == LEARNING_CURVE_LOG)
        return exp(z);
    if (link == LEARNING_CURVE_LINEAR)
        return maximize ? -z : z;
    return 1 / (1 + exp(z));
}

struct learning_curve_fit learning_curve_fit(const double *t, const double *z, size_t n)
{
    struct learning_curve_fit f = {.t = t[n - 1], .level = z[n - 1]};
    double mx = 0, mz = 0, xx = 0, xz = 0;
    for (size_t i = 0; i < n; i++) {
        double x = log(t[i] / f.t), dx = x - mx, dz = z[i] - mz;
        mx += dx / (double)(i + 1);
        mz += dz / (double)(i + 1);
        xx += dx * (x - mx);
        xz += dx * (z[i] - mz);
    }
    if (n > 1) {
        f.slope = xz / xx;
        f.level = mz - f.slope * mx;
    }
    return f;
}

double learning_curve_at(const struct learning_curve_fit *f, double horizon)
{
    return horizon > f->t ? f->level + flatten * fmin(0, f->slope) * log(horizon / f->t) : f->level;
}
