/* mlp_cuda - the implementation of the perceptron on a GPU. cuBLAS computes matrix products, and
 * kernels compute the rest, with the same formulas in the same order as mlp_cpu.c. All work is on
 * one stream, which the all-reduce of the ranks also uses. main.c loads this file's library,
 * mlp_cuda.so. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/launch.h"
#include "formula.h"
#include "mlp.h"

enum { THREADS = 256 };

struct mlp {
    struct mlp_config c;
    size_t params;
    cudaStream_t stream;
    cublasHandle_t blas;
    float *w, *grad, *m1, *m2;
    float *x;
    int *label, *sample;
    float *z[MLP_LAYERS_MAX], *a[MLP_LAYERS_MAX], *delta[MLP_LAYERS_MAX];
    float *row_loss; /* batch_max values: each sample's loss */
    int *row_right;  /* batch_max values: 1 if the sample is classified correctly */
    float *host_loss;
    int *host_right;
};

static int failed(cudaError_t rc, const char *what)
{
    if (rc == cudaSuccess)
        return 0;
    fprintf(stderr, "digits: CUDA: %s: %s\n", what, cudaGetErrorString(rc));
    return -1;
}

static unsigned blocks(size_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Sets the rows of z to the bias. cuBLAS then adds the product. */
__global__ static void set_bias(float *z, const float *bias, size_t total, int width)
{
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < total)
        z[at] = bias[at % (size_t)width];
}

__global__ static void activate_all(float *a, const float *z, const int *sample, size_t total, int width,
                                    enum mlp_activation f, float dropout, uint64_t key)
{
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= total)
        return;
    float v = formula_activate(f, z[at]);
    a[at] = dropout > 0 ? v * formula_kept(key, sample[at / (size_t)width], (int)(at % (size_t)width), dropout) : v;
}

__global__ static void slope_all(float *delta, const float *z, const int *sample, size_t total, int width,
                                 enum mlp_activation f, float dropout, uint64_t key)
{
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= total)
        return;
    float k = dropout > 0 ? formula_kept(key, sample[at / (size_t)width], (int)(at % (size_t)width), dropout) : 1;
    delta[at] *= k * formula_slope(f, z[at]);
}

/* Computes the softmax, the smoothed cross entropy, and its gradient by the logits. One thread per
 * sample. */
__global__ static void loss_rows(float *delta, float *loss, int *right, const float *z, const int *label,
                                 int n, int classes, float smoothing, float scale)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    const float *row = z + (size_t)i * (size_t)classes;
    float *d = delta + (size_t)i * (size_t)classes, top = row[0], sum = 0, total = 0;
    int best = 0;
    for (int j = 1; j < classes; j++) {
        best = row[j] > row[best] ? j : best;
        top = row[j] > top ? row[j] : top;
    }
    for (int j = 0; j < classes; j++)
        sum += d[j] = expf(row[j] - top);
    float log_sum = logf(sum) + top;
    for (int j = 0; j < classes; j++) {
        float target = smoothing / (float)classes + (j == label[i] ? 1 - smoothing : 0);
        total += target * (log_sum - row[j]);
        d[j] = (d[j] / sum - target) * scale;
    }
    loss[i] = total;
    right[i] = best == label[i];
}

/* Sums the columns of delta. One thread per column, which adds in the order of the samples, as on
 * the CPU. */
__global__ static void sum_columns(float *out, const float *delta, int n, int width)
{
    int j = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (j >= width)
        return;
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += delta[(size_t)i * (size_t)width + (size_t)j];
    out[j] = sum;
}

__global__ static void sum_losses(float *out, const float *loss, int n, float scale)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)loss[i];
    *out = (float)(sum * (double)scale);
}

__global__ static void step_all(float *w, float *m1, float *m2, const float *grad, size_t n,
                                enum mlp_optimizer opt, float lr, float mu, float decay, float fix1, float fix2)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float g = grad[i];
    if (opt == MLP_ADAMW)
        w[i] -= lr * decay * w[i];
    else
        g += decay * w[i];
    if (opt == MLP_ADAM || opt == MLP_ADAMW) {
        m1[i] = 0.9f * m1[i] + (1 - 0.9f) * g;
        m2[i] = 0.999f * m2[i] + (1 - 0.999f) * g * g;
        w[i] -= lr * (m1[i] / fix1) / (sqrtf(m2[i] / fix2) + 1e-8f);
    } else {
        m1[i] = mu * m1[i] + g;
        w[i] -= lr * m1[i];
    }
}

/* ---- the interface -------------------------------------------------------------------------- */

static void cuda_close(struct mlp *m)
{
    if (!m)
        return;
    for (int l = 0; l < m->c.layers; l++) {
        cudaFree(m->z[l]);
        cudaFree(m->a[l]);
        cudaFree(m->delta[l]);
    }
    void *all[] = {m->w, m->grad, m->m1, m->m2, m->x, m->label, m->sample, m->row_loss, m->row_right};
    for (void *p : all)
        cudaFree(p);
    free(m->host_loss);
    free(m->host_right);
    if (m->blas)
        cublasDestroy(m->blas);
    if (m->stream)
        cudaStreamDestroy(m->stream);
    free(m);
}

template <typename T> static cudaError_t zeroed(T **p, size_t n)
{
    cudaError_t rc = cudaMalloc((void **)p, (n ? n : 1) * sizeof(T));
    return rc == cudaSuccess ? cudaMemset(*p, 0, (n ? n : 1) * sizeof(T)) : rc;
}

static cudaError_t allocate(struct mlp *m)
{
    size_t rows = (size_t)m->c.batch_max;
    cudaError_t rc = zeroed(&m->w, m->params);
    rc = rc ? rc : zeroed(&m->grad, m->params + MLP_EXTRA);
    rc = rc ? rc : zeroed(&m->m1, m->params);
    rc = rc ? rc : zeroed(&m->m2, m->params);
    rc = rc ? rc : zeroed(&m->x, rows * (size_t)m->c.width[0]);
    rc = rc ? rc : zeroed(&m->label, rows);
    rc = rc ? rc : zeroed(&m->sample, rows);
    rc = rc ? rc : zeroed(&m->row_loss, rows);
    rc = rc ? rc : zeroed(&m->row_right, rows);
    for (int l = 0; l < m->c.layers; l++) {
        size_t n = rows * (size_t)m->c.width[l + 1];
        rc = rc ? rc : zeroed(&m->z[l], n);
        rc = rc ? rc : zeroed(&m->a[l], n);
        rc = rc ? rc : zeroed(&m->delta[l], n);
    }
    return rc;
}

static int cuda_devices(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static int cuda_open(struct mlp **out, const struct mlp_config *c, char *why, size_t why_size)
{
    int devices = 0;
    cudaError_t rc = cudaGetDeviceCount(&devices);
    if (rc != cudaSuccess || devices == 0) {
        snprintf(why, why_size, "no GPU: %s", rc ? cudaGetErrorString(rc) : "the driver shows none");
        return -1;
    }
    struct mlp *m = (struct mlp *)calloc(1, sizeof *m);
    if (!m)
        return -1;
    m->c = *c;
    m->params = mlp_params(c);
    m->host_loss = (float *)calloc((size_t)c->batch_max, sizeof *m->host_loss);
    m->host_right = (int *)calloc((size_t)c->batch_max, sizeof *m->host_right);
    /* If there are more ranks than GPUs, ranks share GPUs. */
    rc = cudaSetDevice(c->device % devices);
    rc = rc ? rc : cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking);
    rc = rc ? rc : allocate(m);
    rc = rc ? rc : cudaDeviceSynchronize();
    if (rc || !m->host_loss || !m->host_right || cublasCreate(&m->blas) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(m->blas, m->stream) != CUBLAS_STATUS_SUCCESS ||
        cublasSetMathMode(m->blas, CUBLAS_PEDANTIC_MATH) != CUBLAS_STATUS_SUCCESS) {
        snprintf(why, why_size, "GPU %d: %s", c->device % devices, rc ? cudaGetErrorString(rc) : "cuBLAS or memory");
        cuda_close(m);
        return -1;
    }
    *out = m;
    return 0;
}

/* Computes C (rows x cols) = op(A) op(B) + beta C for row-major matrices, as cblas_sgemm() does.
 * cuBLAS uses column-major matrices, so it gets B before A, and computes the transpose of C. */
static int product(struct mlp *m, bool ta, bool tb, int rows, int cols, int inner, const float *a, int lda,
                   const float *b, int ldb, float beta, float *c)
{
    const float one = 1;
    cublasStatus_t rc = cublasSgemm(m->blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, cols,
                                    rows, inner, &one, b, ldb, a, lda, &beta, c, cols);
    if (rc == CUBLAS_STATUS_SUCCESS)
        return 0;
    fprintf(stderr, "digits: cuBLAS: %s\n", cublasGetStatusString(rc));
    return -1;
}

static int upload(struct mlp *m, const struct mlp_batch *b)
{
    size_t n = (size_t)b->n;
    cudaError_t rc = cudaMemcpyAsync(m->x, b->x, n * (size_t)m->c.width[0] * sizeof(float), cudaMemcpyHostToDevice, m->stream);
    rc = rc ? rc : cudaMemcpyAsync(m->label, b->label, n * sizeof(int), cudaMemcpyHostToDevice, m->stream);
    rc = rc ? rc : cudaMemcpyAsync(m->sample, b->sample, n * sizeof(int), cudaMemcpyHostToDevice, m->stream);
    return failed(rc, "copy of a batch");
}

static int forward(struct mlp *m, const struct mlp_batch *b, bool train)
{
    const struct mlp_config *c = &m->c;
    const float *in = m->x;
    for (int l = 0; l < c->layers; l++) {
        int n_in = c->width[l], n_out = c->width[l + 1];
        size_t total = (size_t)b->n * (size_t)n_out;
        const float *w = m->w + mlp_at(c, l), *bias = w + (size_t)n_out * (size_t)n_in;
        LAUNCH(set_bias, blocks(total), THREADS, m->stream, m->z[l], bias, total, n_out);
        if (product(m, false, true, b->n, n_out, n_in, in, n_in, w, n_in, 1, m->z[l]) < 0)
            return -1;
        if (l < c->layers - 1)
            LAUNCH(activate_all, blocks(total), THREADS, m->stream, m->a[l], m->z[l], m->sample, total, n_out,
                   c->activation, train ? c->dropout : 0,
                   formula_mask_key(c->seed, b->epoch, l));
        in = m->a[l];
    }
    return failed(cudaGetLastError(), "forward");
}

static int backward(struct mlp *m, const struct mlp_batch *b)
{
    const struct mlp_config *c = &m->c;
    for (int l = c->layers - 1; l >= 0; l--) {
        int n_in = c->width[l], n_out = c->width[l + 1];
        const float *in = l ? m->a[l - 1] : m->x, *w = m->w + mlp_at(c, l);
        float *gw = m->grad + mlp_at(c, l), *gb = gw + (size_t)n_out * (size_t)n_in;
        if (product(m, true, false, n_out, n_in, b->n, m->delta[l], n_out, in, n_in, 0, gw) < 0)
            return -1;
        LAUNCH(sum_columns, blocks((size_t)n_out), THREADS, m->stream, gb, m->delta[l], b->n, n_out);
        if (l == 0)
            break;
        size_t total = (size_t)b->n * (size_t)n_in;
        if (product(m, false, false, b->n, n_in, n_out, m->delta[l], n_out, w, n_in, 0, m->delta[l - 1]) < 0)
            return -1;
        LAUNCH(slope_all, blocks(total), THREADS, m->stream, m->delta[l - 1], m->z[l - 1], m->sample, total, n_in,
               c->activation, c->dropout,
               formula_mask_key(c->seed, b->epoch, l - 1));
    }
    return failed(cudaGetLastError(), "backward");
}

static int losses(struct mlp *m, const struct mlp_batch *b, float smoothing)
{
    int last = m->c.layers - 1;
    LAUNCH(loss_rows, blocks((size_t)b->n), THREADS, m->stream, m->delta[last], m->row_loss, m->row_right, m->z[last],
           m->label, b->n, m->c.width[m->c.layers], smoothing,
           b->scale);
    return failed(cudaGetLastError(), "loss");
}

static int cuda_gradient(struct mlp *m, const struct mlp_batch *b)
{
    if (failed(cudaMemsetAsync(m->grad, 0, (m->params + MLP_EXTRA) * sizeof(float), m->stream), "clear") < 0)
        return -1;
    if (b->n == 0)
        return 0;
    if (upload(m, b) < 0 || forward(m, b, true) < 0 || losses(m, b, m->c.label_smoothing) < 0)
        return -1;
    LAUNCH(sum_losses, 1, 1, m->stream, m->grad + m->params, m->row_loss, b->n, b->scale);
    return backward(m, b);
}

static int cuda_update(struct mlp *m, float lr, int64_t t)
{
    float mu = m->c.optimizer == MLP_MOMENTUM ? m->c.momentum : 0;
    LAUNCH(step_all, blocks(m->params), THREADS, m->stream, m->w, m->m1, m->m2, m->grad, m->params, m->c.optimizer, lr,
           mu, m->c.weight_decay, 1 - powf(0.9f, (float)t),
           1 - powf(0.999f, (float)t));
    return failed(cudaGetLastError(), "update");
}

static int cuda_evaluate(struct mlp *m, const struct mlp_batch *b, double *loss_sum, int *right)
{
    *loss_sum = 0;
    *right = 0;
    if (b->n == 0)
        return 0;
    if (upload(m, b) < 0 || forward(m, b, false) < 0 || losses(m, b, 0) < 0)
        return -1;
    size_t n = (size_t)b->n;
    cudaError_t rc = cudaMemcpyAsync(m->host_loss, m->row_loss, n * sizeof(float), cudaMemcpyDeviceToHost, m->stream);
    rc = rc ? rc : cudaMemcpyAsync(m->host_right, m->row_right, n * sizeof(int), cudaMemcpyDeviceToHost, m->stream);
    rc = rc ? rc : cudaStreamSynchronize(m->stream);
    for (size_t i = 0; i < n; i++) {
        *loss_sum += (double)m->host_loss[i];
        *right += m->host_right[i];
    }
    return failed(rc, "evaluation");
}

static float *cuda_buffer(struct mlp *m)
{
    return m->grad;
}

static void *cuda_stream(struct mlp *m)
{
    return m->stream;
}

static int copy(struct mlp *m, void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
    cudaError_t rc = cudaMemcpyAsync(to, from, n * sizeof(float), kind, m->stream);
    return failed(rc ? rc : cudaStreamSynchronize(m->stream), "copy");
}

static int cuda_put(struct mlp *m, size_t at, const float *values, size_t n)
{
    return copy(m, m->grad + at, values, n, cudaMemcpyHostToDevice);
}

static int cuda_get(struct mlp *m, size_t at, float *values, size_t n)
{
    return copy(m, values, m->grad + at, n, cudaMemcpyDeviceToHost);
}

static int cuda_save(struct mlp *m, float *state)
{
    size_t n = m->params;
    if (copy(m, state, m->w, n, cudaMemcpyDeviceToHost) < 0 || copy(m, state + n, m->m1, n, cudaMemcpyDeviceToHost) < 0)
        return -1;
    return copy(m, state + 2 * n, m->m2, n, cudaMemcpyDeviceToHost);
}

static int cuda_load(struct mlp *m, const float *state)
{
    size_t n = m->params;
    if (copy(m, m->w, state, n, cudaMemcpyHostToDevice) < 0 || copy(m, m->m1, state + n, n, cudaMemcpyHostToDevice) < 0)
        return -1;
    return copy(m, m->m2, state + 2 * n, n, cudaMemcpyHostToDevice);
}

extern "C" __attribute__((visibility("default"))) const struct mlp_backend mlp_cuda = {
    "cuda",      cuda_devices, cuda_open, cuda_close, cuda_gradient, cuda_update, cuda_evaluate,
    cuda_buffer, cuda_stream, cuda_put,   cuda_get,      cuda_save,   cuda_load,
};
