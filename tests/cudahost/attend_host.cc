#include "attend_host.h"

#include <cuda_bf16.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <vector>

extern "C" {
__attribute__((visibility("default"))) struct attend_host attend_host;
}

struct attend_cudnn {
    int sm;
    std::vector<attend_shape> plans;
};

static int host_open(struct attend_cudnn **out, int sm, void *stream, const char *description,
                     char *why, size_t why_size)
{
    attend_host.opens++;
    if (!stream || description)
        return snprintf(why, why_size, "no stream"), -ENOTSUP;
    *out = new attend_cudnn{sm, {}};
    return 0;
}

static void host_close(struct attend_cudnn *a)
{
    attend_host.closes++;
    delete a;
}

static int host_version(const struct attend_cudnn *)
{
    return 91900;
}

static int host_plan(struct attend_cudnn *a, const struct attend_shape *s, size_t *workspace,
                     char *why, size_t why_size)
{
    attend_host.plans++;
    if (attend_host.refuse)
        return snprintf(why, why_size, "%s", attend_host.refuse), -ENOTSUP;
    if (!attend_cudnn_takes(host_version(a), a->sm, s, why, why_size))
        return -ENOTSUP;
    *workspace = s->backward ? ATTEND_HOST_WORKSPACE(s->B, s->T, s->H) : 256;
    a->plans.push_back(*s);
    return (int)a->plans.size() - 1;
}

/* Element (b, h, t, d) of an array whose rows have `width` numbers. */
static size_t at(const struct attend_shape &s, int b, int h, int t, size_t width)
{
    return ((size_t)b * s.T + t) * width + (size_t)h * s.D;
}

static double dot(const __nv_bfloat16 *a, const __nv_bfloat16 *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)(float)a[i] * (double)(float)b[i];
    return sum;
}

/* One head. */
static void head(const struct attend_shape &s, const struct attend_arrays &x, int b, int h)
{
    const size_t C = (size_t)s.H * s.D;
    const double scale = 1 / sqrt(s.D);
    const __nv_bfloat16 *qkv = (const __nv_bfloat16 *)x.qkv, *dy = (const __nv_bfloat16 *)x.dy;
    __nv_bfloat16 *y = (__nv_bfloat16 *)x.y, *dqkv = (__nv_bfloat16 *)x.dqkv;
    std::vector<double> grad(3 * (size_t)s.T * s.D), weight(s.T);
    for (int i = 0; i < s.T; i++) {
        const __nv_bfloat16 *q = qkv + at(s, b, h, i, 3 * C);
        float *lse = x.lse + ((size_t)b * s.H + h) * s.T + i;
        double top = -INFINITY, sum = 0, delta = 0;
        for (int j = 0; j <= i; j++)
            top = fmax(top, weight[j] = dot(q, qkv + at(s, b, h, j, 3 * C) + C, s.D) * scale);
        for (int j = 0; j <= i; j++)
            sum += exp(weight[j] - top);
        if (!s.backward)
            *lse = (float)(top + log(sum));
        for (int j = 0; j <= i; j++)
            weight[j] = exp(weight[j] - (double)*lse);
        if (s.backward)
            delta = dot(y + at(s, b, h, i, C), dy + at(s, b, h, i, C), s.D);
        for (int d = 0; d < s.D && !s.backward; d++) {
            double v = 0;
            for (int j = 0; j <= i; j++)
                v += weight[j] * (double)(float)qkv[at(s, b, h, j, 3 * C) + 2 * C + d];
            y[at(s, b, h, i, C) + d] = (__nv_bfloat16)(float)v;
        }
        for (int j = 0; j <= i && s.backward; j++) {
            const __nv_bfloat16 *k = qkv + at(s, b, h, j, 3 * C) + C, *g = dy + at(s, b, h, i, C);
            double slope = weight[j] * (dot(g, k + C, s.D) - delta) * scale;
            for (int d = 0; d < s.D; d++) {
                grad[(size_t)i * s.D + d] += slope * (double)(float)k[d];
                grad[((size_t)s.T + j) * s.D + d] += slope * (double)(float)q[d];
                grad[(2 * (size_t)s.T + j) * s.D + d] += weight[j] * (double)(float)g[d];
            }
        }
    }
    for (int which = 0; which < 3 && s.backward; which++)
        for (int t = 0; t < s.T; t++)
            for (int d = 0; d < s.D; d++)
                dqkv[at(s, b, h, t, 3 * C) + which * C + d] =
                    (__nv_bfloat16)(float)grad[((size_t)which * s.T + t) * s.D + d];
}

static int host_run(struct attend_cudnn *a, int plan, const struct attend_arrays *x,
                    void *workspace, char *why, size_t why_size)
{
    const struct attend_shape &s = a->plans.at((size_t)plan);
    attend_host.runs++;
    attend_host.last = s;
    if (attend_host.break_run)
        return snprintf(why, why_size, "%s", attend_host.break_run), -EIO;
    for (const void *p : {x->qkv, (const void *)x->y, (const void *)x->lse, (const void *)workspace,
                          x->dy, (const void *)x->dqkv}) {
        bool is_given = p == x->dy || p == x->dqkv ? s.backward : true;
        if (!p == is_given || (uintptr_t)p % 16)
            return snprintf(why, why_size,
                            "an address is missing, too many, or not a multiple of 16"),
                   -EIO;
    }
    memset(workspace, 0xa5, s.backward ? ATTEND_HOST_WORKSPACE(s.B, s.T, s.H) : 256);
    for (int b = 0; b < s.B; b++)
        for (int h = 0; h < s.H; h++)
            head(s, *x, b, h);
    if (attend_host.spoil)
        ((__nv_bfloat16 *)(s.backward ? x->dqkv : x->y))[0] = (float)(100 * attend_host.runs);
    return 0;
}

extern "C" __attribute__((visibility("default")))
const struct attend_cudnn_library attend_cudnn_library = {
    ATTEND_CUDNN_ABI, {"libc.so.6", "libm.so.6"}, host_open, host_close, host_version, host_plan,
    host_run,
};
