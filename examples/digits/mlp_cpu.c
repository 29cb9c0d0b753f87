/* mlp_cpu - the implementation of the perceptron on the CPU, with OpenBLAS. */
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formula.h"
#include "mlp.h"

struct mlp {
    struct mlp_config c;
    size_t params;
    float *w, *grad, *m1, *m2;    /* params values each; grad has MLP_EXTRA more */
    float *z[MLP_LAYERS_MAX];     /* batch_max x width[l + 1] values, before the activation */
    float *a[MLP_LAYERS_MAX];     /* the same, after activation and dropout */
    float *delta[MLP_LAYERS_MAX]; /* d loss / d z */
};

static float *floats(size_t n)
{
    return calloc(n ? n : 1, sizeof(float));
}

static void cpu_close(struct mlp *m)
{
    if (!m)
        return;
    for (int l = 0; l < m->c.layers; l++) {
        free(m->z[l]);
        free(m->a[l]);
        free(m->delta[l]);
    }
    free(m->w);
    free(m->grad);
    free(m->m1);
    free(m->m2);
    free(m);
}

static int cpu_devices(void)
{
    return INT_MAX;
}

static int cpu_open(struct mlp **out, const struct mlp_config *c, char *why, size_t why_size)
{
    struct mlp *m = calloc(1, sizeof *m);
    if (!m)
        return -1;
    m->c = *c;
    m->params = mlp_params(c);
    m->w = floats(m->params);
    m->grad = floats(m->params + MLP_EXTRA);
    m->m1 = floats(m->params);
    m->m2 = floats(m->params);
    int bad = !m->w || !m->grad || !m->m1 || !m->m2;
    for (int l = 0; l < c->layers; l++) {
        size_t n = (size_t)c->batch_max * (size_t)c->width[l + 1];
        m->z[l] = floats(n);
        m->a[l] = floats(n);
        m->delta[l] = floats(n);
        bad |= !m->z[l] || !m->a[l] || !m->delta[l];
    }
    if (bad) {
        snprintf(why, why_size, "out of memory for %zu parameters", m->params);
        cpu_close(m);
        return -1;
    }
    *out = m;
    return 0;
}

/* Returns the factor for a hidden unit's value: 0 or 1 / (1 - dropout). */
static float dropout_factor(const struct mlp_config *c, const struct mlp_batch *b, int layer, int i,
                            int unit)
{
    return formula_kept(formula_mask_key(c->seed, b->epoch, layer), b->sample[i], unit, c->dropout);
}

/* Computes z and a of every layer; the last layer's z are the logits. */
static void forward(struct mlp *m, const struct mlp_batch *b, int train)
{
    const struct mlp_config *c = &m->c;
    const float *in = b->x;
    for (int l = 0; l < c->layers; l++) {
        int n_in = c->width[l], n_out = c->width[l + 1], hidden = l < c->layers - 1;
        const float *w = m->w + mlp_at(c, l), *bias = w + (size_t)n_out * (size_t)n_in;
        for (int i = 0; i < b->n; i++)
            memcpy(m->z[l] + (size_t)i * (size_t)n_out, bias, (size_t)n_out * sizeof *bias);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, b->n, n_out, n_in, 1, in, n_in, w,
                    n_in, 1, m->z[l], n_out);
        for (int i = 0; hidden && i < b->n; i++)
            for (int j = 0; j < n_out; j++) {
                size_t at = (size_t)i * (size_t)n_out + (size_t)j;
                float a = formula_activate(c->activation, m->z[l][at]);
                m->a[l][at] = train && c->dropout > 0 ? a * dropout_factor(c, b, l, i, j) : a;
            }
        in = m->a[l];
    }
}

/* Writes the softmax of a row of logits to `p`, and ln(sum of exp(z)) to `*log_sum`. Subtracts the
 * maximum first, so that exp() does not overflow. */
static void softmax(float *p, const float *z, int n, float *log_sum)
{
    float top = z[0], sum = 0;
    for (int j = 1; j < n; j++)
        top = z[j] > top ? z[j] : top;
    for (int j = 0; j < n; j++)
        sum += p[j] = expf(z[j] - top);
    for (int j = 0; j < n; j++)
        p[j] /= sum;
    *log_sum = logf(sum) + top;
}

/* Returns the scaled cross entropy. The targets are (1 - s) one-hot + s / n, where s is the label
 * smoothing. Writes the gradient by z, which is the scaled p - target, to delta of the last layer.
 */
static float loss_rows(struct mlp *m, const struct mlp_batch *b)
{
    const struct mlp_config *c = &m->c;
    int last = c->layers - 1, n = c->width[c->layers];
    double sum = 0;
    for (int i = 0; i < b->n; i++) {
        float *d = m->delta[last] + (size_t)i * (size_t)n, log_sum;
        const float *z = m->z[last] + (size_t)i * (size_t)n;
        softmax(d, z, n, &log_sum);
        for (int j = 0; j < n; j++) {
            float target =
                c->label_smoothing / (float)n + (j == b->label[i] ? 1 - c->label_smoothing : 0);
            sum += (double)target * (double)(log_sum - z[j]);
            d[j] = (d[j] - target) * b->scale;
        }
    }
    return (float)(sum * (double)b->scale);
}

static int cpu_gradient(struct mlp *m, const struct mlp_batch *b)
{
    const struct mlp_config *c = &m->c;
    memset(m->grad, 0, (m->params + MLP_EXTRA) * sizeof *m->grad);
    if (b->n == 0)
        return 0;
    forward(m, b, 1);
    m->grad[m->params] = loss_rows(m, b);
    for (int l = c->layers - 1; l >= 0; l--) {
        int n_in = c->width[l], n_out = c->width[l + 1];
        const float *in = l ? m->a[l - 1] : b->x, *w = m->w + mlp_at(c, l);
        float *gw = m->grad + mlp_at(c, l), *gb = gw + (size_t)n_out * (size_t)n_in;
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n_out, n_in, b->n, 1, m->delta[l],
                    n_out, in, n_in, 0, gw, n_in);
        for (int i = 0; i < b->n; i++)
            for (int j = 0; j < n_out; j++)
                gb[j] += m->delta[l][(size_t)i * (size_t)n_out + (size_t)j];
        if (l == 0)
            break;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, b->n, n_in, n_out, 1, m->delta[l],
                    n_out, w, n_in, 0, m->delta[l - 1], n_in);
        for (int i = 0; i < b->n; i++)
            for (int j = 0; j < n_in; j++) {
                size_t at = (size_t)i * (size_t)n_in + (size_t)j;
                float k = c->dropout > 0 ? dropout_factor(c, b, l - 1, i, j) : 1;
                m->delta[l - 1][at] *= k * formula_slope(c->activation, m->z[l - 1][at]);
            }
    }
    return 0;
}

/* Sources: SGD with momentum: Sutskever et al. 2013. Adam: Kingma and Ba 2015, algorithm 1. AdamW,
 * in which the weight decay is separate from the gradient: Loshchilov and Hutter 2019. */
static int cpu_update(struct mlp *m, float lr, int64_t t)
{
    const struct mlp_config *c = &m->c;
    int adam = c->optimizer == MLP_ADAM || c->optimizer == MLP_ADAMW;
    float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
    float mu = c->optimizer == MLP_MOMENTUM ? c->momentum : 0;
    float correction1 = 1 - powf(beta1, (float)t), correction2 = 1 - powf(beta2, (float)t);
    for (size_t i = 0; i < m->params; i++) {
        float g = m->grad[i];
        if (c->optimizer == MLP_ADAMW)
            m->w[i] -= lr * c->weight_decay * m->w[i];
        else
            g += c->weight_decay * m->w[i];
        if (adam) {
            m->m1[i] = beta1 * m->m1[i] + (1 - beta1) * g;
            m->m2[i] = beta2 * m->m2[i] + (1 - beta2) * g * g;
            m->w[i] -= lr * (m->m1[i] / correction1) / (sqrtf(m->m2[i] / correction2) + eps);
        } else {
            m->m1[i] = mu * m->m1[i] + g;
            m->w[i] -= lr * m->m1[i];
        }
    }
    return 0;
}

static int cpu_evaluate(struct mlp *m, const struct mlp_batch *b, double *loss_sum, int *correct)
{
    int last = m->c.layers - 1, n = m->c.width[m->c.layers];
    *loss_sum = 0;
    *correct = 0;
    if (b->n == 0)
        return 0;
    forward(m, b, 0);
    for (int i = 0; i < b->n; i++) {
        const float *z = m->z[last] + (size_t)i * (size_t)n;
        float *p = m->delta[last] + (size_t)i * (size_t)n, log_sum;
        softmax(p, z, n, &log_sum);
        int best = 0;
        for (int j = 1; j < n; j++)
            best = z[j] > z[best] ? j : best;
        *loss_sum += (double)(log_sum - z[b->label[i]]);
        *correct += best == b->label[i];
    }
    return 0;
}

static float *cpu_buffer(struct mlp *m)
{
    return m->grad;
}

static void *cpu_stream(struct mlp *m)
{
    return NULL;
}

static int cpu_put(struct mlp *m, size_t at, const float *values, size_t n)
{
    memcpy(m->grad + at, values, n * sizeof *values);
    return 0;
}

static int cpu_get(struct mlp *m, size_t at, float *values, size_t n)
{
    memcpy(values, m->grad + at, n * sizeof *values);
    return 0;
}

static int cpu_save(struct mlp *m, float *state)
{
    memcpy(state, m->w, m->params * sizeof *state);
    memcpy(state + m->params, m->m1, m->params * sizeof *state);
    memcpy(state + 2 * m->params, m->m2, m->params * sizeof *state);
    return 0;
}

static int cpu_load(struct mlp *m, const float *state)
{
    memcpy(m->w, state, m->params * sizeof *state);
    memcpy(m->m1, state + m->params, m->params * sizeof *state);
    memcpy(m->m2, state + 2 * m->params, m->params * sizeof *state);
    return 0;
}

const struct mlp_backend mlp_cpu = {
    .name = "cpu",
    .devices = cpu_devices,
    .open = cpu_open,
    .close = cpu_close,
    .gradient = cpu_gradient,
    .update = cpu_update,
    .evaluate = cpu_evaluate,
    .buffer = cpu_buffer,
    .stream = cpu_stream,
    .put = cpu_put,
    .get = cpu_get,
    .save = cpu_save,
    .load = cpu_load,
};
