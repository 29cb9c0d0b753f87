#include "hpo/model/kernel.h"

#include <math.h>
#include <string.h>

#include "hpo/model/matern.h"

void kernel_set(struct kernel *k, const struct kernel_shape *h, const double *params,
                double *inverse)
{
    size_t lengths = h->cols + h->groups;
    k->shape = h;
    k->inverse = inverse;
    for (size_t i = 0; i < lengths; i++)
        inverse[i] = exp(-params[i]);
    k->scale = exp(params[lengths]);
    k->scale1 = exp(params[lengths + 1]) / (double)h->groups;
}

double kernel_self(const struct kernel *k)
{
    return k->scale + k->scale1 * (double)k->shape->groups;
}

/* Adds the covariances of one part of the kernel to out->k, and sets `slope` unless NULL. out->work
 * has the squared distances of this part. */
static void add_part(double scale, size_t n, const struct kernel_out *out, double *slope)
{
    if (slope)
        matern_52_slope(out->work, n, scale, out->work, slope);
    else
        matern_52(out->work, n, scale, out->work);
    for (size_t i = 0; i < n; i++)
        out->k[i] += out->work[i];
}

void kernel_row(const struct kernel *k, const struct kernel_points *p, const double *at,
                const struct kernel_out *out)
{
    const struct kernel_shape *h = k->shape;
    memset(out->k, 0, p->n * sizeof *out->k);
    memset(out->work, 0, p->n * sizeof *out->work);
    for (size_t c = 0; c < h->cols; c++)
        matern_distance(p->x + c * p->stride, p->n, at[c], k->inverse[c], out->work);
    add_part(k->scale, p->n, out, out->slope);
    if (out->first)
        memcpy(out->first, out->k, p->n * sizeof *out->k);
    for (size_t c = 0, g = 0; g < h->groups; g++) {
        double *slope = out->slope ? out->slope + (1 + g) * p->n : NULL;
        double inverse = k->inverse[h->cols + g];
        size_t first = c;
        while (c < h->cols && h->group[c] == g)
            c++;
        if (c == first + 1) {
            matern_52_line(&(struct matern_line){at[first], inverse, k->scale1},
                           p->x + first * p->stride, p->n, out->k, slope);
            continue;
        }
        memset(out->work, 0, p->n * sizeof *out->work);
        for (size_t i = first; i < c; i++)
            matern_distance(p->x + i * p->stride, p->n, at[i], inverse, out->work);
        add_part(k->scale1, p->n, out, slope);
    }
}
