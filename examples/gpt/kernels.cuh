/* kernels - the kernels of gpt_cuda.cu, except attention (attend.cuh).
 *
 * T is the type of activations, float or bfloat16; all arithmetic is in float. A sum over rows is
 * computed in a fixed order, in two steps: blocks write partial sums, then one thread per column adds
 * them. So the same input gives the same bits, which float atomics would not. */
#ifndef GPT_KERNELS_CUH
#define GPT_KERNELS_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#include "../kit/launch.h"
#include "ops.h"

typedef __nv_bfloat16 bf16;

/* Blocks of THREADS threads are WARPS rows of a matrix, one per warp, or WARPS groups of rows. */
enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP, SYMBOLS = 256, SYMBOL_BLOCKS = 8 };
#define KERNEL __global__ void __launch_bounds__(THREADS)

/* 16 bytes, which a thread reads or writes at once. */
template <typename T> struct alignas(16) pack {
    enum { N = 16 / sizeof(T) };
    T v[N];
};
template <typename T> static __device__ pack<T> pack_get(const T *p)
{
    return *(const pack<T> *)p;
}
template <typename T> static __device__ void pack_put(T *p, const pack<T> &v)
{
    *(pack<T> *)p = v;
}

static __device__ float warp_sum(float v)
{
    for (int m = WARP / 2; m; m /= 2)
        v += __shfl_xor_sync(~0u, v, m);
    return v;
}
static __device__ float warp_max(float v)
{
    for (int m = WARP / 2; m; m /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, m));
    return v;
}

/* ---- embedding ------------------------------------------------------------------------------- */

/* One thread per pack. */
template <typename T>
KERNEL embed_rows(T *y, const T *wte, const T *wpe, const uint8_t *token, int rows, int context,
                  int C)
{
    size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * pack<T>::N;
    int row = (int)(at / C), c = (int)(at % C);
    if (row >= rows)
        return;
    pack<T> a = pack_get(wte + (size_t)token[row] * C + c);
    pack<T> b = pack_get(wpe + (size_t)(row % context) * C + c);
    for (int i = 0; i < pack<T>::N; i++)
        a.v[i] = (T)((float)a.v[i] + (float)b.v[i]);
    pack_put(y + at, a);
}

/* A block has WARP columns, and every gridDim.y-th symbol. For each symbol, each warp reads a part of the tokens, and adds
 * the rows of this symbol. */
template <typename T>
KERNEL embed_back_tokens(float *dwte, const T *dy, const uint8_t *token, int rows, int C)
{
    SHARED(float, part, THREADS);
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, c = (int)blockIdx.x * WARP + lane;
    for (int symbol = (int)blockIdx.y; symbol < SYMBOLS; symbol += (int)gridDim.y) {
        float sum = 0;
        for (int first = warp * WARP; first < rows; first += THREADS) {
            int row = first + lane;
            unsigned hits = __ballot_sync(~0u, row < rows && token[row] == symbol);
            for (int i = 0; hits; i++, hits >>= 1)
                if (hits & 1 && c < C)
                    sum += (float)dy[(size_t)(first + i) * C + c];
        }
        part[threadIdx.x] = sum;
        __syncthreads();
        for (int i = 1; i < WARPS && warp == 0; i++)
            sum += part[i * WARP + lane];
        if (warp == 0 && sum != 0) /* a symbol that does not occur may be outside of the vocabulary */
            dwte[(size_t)symbol * C + c] += sum;
        __syncthreads();
    }
}

/* ---- layer norm: one warp per row ------------------------------------------------------------- */

template <typename T>
KERNEL norm_rows(T *y, float *stat, T *x, const T *add, const T *gain, const T *bias, int R, int C)
{
    enum { N = pack<T>::N };
    int row = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    if (row >= R)
        return;
    x += (size_t)row * C;
    float sum = 0, squares = 0;
    for (int c = lane * N; c < C; c += WARP * N) {
        pack<T> v = pack_get(x + c);
        if (add) {
            pack<T> a = pack_get(add + (size_t)row * C + c);
            for (int i = 0; i < N; i++)
                v.v[i] = (T)((float)v.v[i] + (float)a.v[i]);
            pack_put(x + c, v);
        }
        for (int i = 0; i < N; i++)
            sum += (float)v.v[i];
    }
    if (!y)
        return;
    float mean = __fdividef(warp_sum(sum), C);
    for (int c = lane * N; c < C; c += WARP * N) {
        pack<T> v = pack_get(x + c);
        for (int i = 0; i < N; i++)
            squares += ((float)v.v[i] - mean) * ((float)v.v[i] - mean);
    }
    float inverse = rsqrtf(__fdividef(warp_sum(squares), C) + 1e-5f);
#pragma unroll 2
    for (int c = lane * N; c < C; c += WARP * N) {
        pack<T> v = pack_get(x + c), g = pack_get(gain + c), b = pack_get(bias + c);
        for (int i = 0; i < N; i++)
            v.v[i] = (T)(((float)v.v[i] - mean) * inverse * (float)g.v[i] + (float)b.v[i]);
        pack_put(y + (size_t)row * C + c, v);
    }
    if (lane == 0)
        stat[2 * row] = mean, stat[2 * row + 1] = inverse;
}

template <typename T>
KERNEL norm_back_rows(T *dx, const T *dy, const T *x, const float *stat, const T *gain, int R,
                      int C)
{
    enum { N = pack<T>::N };
    int row = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    if (row >= R)
        return;
    float mean = stat[2 * row], inverse = stat[2 * row + 1], s1 = 0, s2 = 0;
    size_t at = (size_t)row * C;
    for (int c = lane * N; c < C; c += WARP * N) {
        pack<T> d = pack_get(dy + at + c), v = pack_get(x + at + c), g = pack_get(gain + c);
        for (int i = 0; i < N; i++) {
            float e = (float)d.v[i] * (float)g.v[i];
            s1 += e;
            s2 += e * ((float)v.v[i] - mean) * inverse;
        }
    }
    s1 = __fdividef(warp_sum(s1), C), s2 = __fdividef(warp_sum(s2), C);
    for (int c = lane * N; c < C; c += WARP * N) {
        pack<T> d = pack_get(dy + at + c), v = pack_get(x + at + c), g = pack_get(gain + c);
        pack<T> out = pack_get(dx + at + c);
        for (int i = 0; i < N; i++) {
            float e = (float)d.v[i] * (float)g.v[i] - s1 - ((float)v.v[i] - mean) * inverse * s2;
            out.v[i] = (T)((float)out.v[i] + e * inverse);
        }
        pack_put(dx + at + c, out);
    }
}

/* ---- sums ------------------------------------------------------------------------------------- */

/* Writes, for chunk k = blockIdx.y of the rows, the sums of the columns of dy to part[k][0]; with x,
 * also those of dy * the normalized x to part[k][1]. A lane has N columns, and a warp every WARPS-th
 * row of the chunk. */
template <typename T>
KERNEL sum_columns(float *part, const T *dy, const T *x, const float *stat, int R, int C)
{
    enum { N = pack<T>::N };
    SHARED(float, sums, 2 * THREADS * N);
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    int c = ((int)blockIdx.x * WARP + lane) * N;
    float plain[N] = {}, normed[N] = {};
    for (int row = (int)blockIdx.y * WARPS + warp; row < R && c < C; row += (int)gridDim.y * WARPS) {
        pack<T> d = pack_get(dy + (size_t)row * C + c), v = d;
        float mean = 0, inverse = 0;
        if (x)
            v = pack_get(x + (size_t)row * C + c), mean = stat[2 * row], inverse = stat[2 * row + 1];
        for (int i = 0; i < N; i++) {
            plain[i] += (float)d.v[i];
            normed[i] += (float)d.v[i] * ((float)v.v[i] - mean) * inverse;
        }
    }
    for (int i = 0; i < N; i++) {
        sums[(warp * N + i) * WARP + lane] = plain[i];
        sums[((WARPS + warp) * N + i) * WARP + lane] = normed[i];
    }
    __syncthreads();
    if (warp >= 2 || c >= C)
        return;
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int w = 0; w < WARPS; w++)
            sum += sums[((warp * WARPS + w) * N + i) * WARP + lane];
        part[((size_t)blockIdx.y * 2 + warp) * C + c + i] = sum;
    }
}

/* Adds the chunks' sums; `normed` may be NULL. One thread per column. */
static KERNEL add_columns(float *plain, float *normed, const float *part, int chunks, int C)
{
    int c = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (c >= C)
        return;
    float a = 0, b = 0;
    for (int k = 0; k < chunks; k++) {
        a += part[(size_t)2 * k * C + c];
        b += part[((size_t)2 * k + 1) * C + c];
    }
    plain[c] += a;
    if (normed)
        normed[c] += b;
}

/* Block b sums x, or its squares: out[b] is scale * that, or has it added. One block per element of out. */
static KERNEL sum_values(float *out, const float *x, size_t n, int squares, int adds, float scale)
{
    SHARED(float, sums, WARPS);
    float v = 0;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (size_t)gridDim.x * THREADS)
        v += squares ? x[i] * x[i] : x[i];
    v = warp_sum(v);
    if (threadIdx.x % WARP == 0)
        sums[threadIdx.x / WARP] = v;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int i = 1; i < WARPS; i++)
        v += sums[i];
    out[blockIdx.x] = (adds ? out[blockIdx.x] : 0) + scale * v;
}

/* ---- loss and update -------------------------------------------------------------------------- */

/* One warp per row. Each lane reads and writes its own columns only, as lanes are not ordered. */
template <typename T>
KERNEL loss_rows(float *loss, T *logits, const uint8_t *target, int R, int V, float scale)
{
    int row = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    if (row >= R)
        return;
    T *l = logits + (size_t)row * V;
    float top = -INFINITY, sum = 0, hit = 0;
    for (int v = lane; v < V; v += WARP)
        top = fmaxf(top, (float)l[v]);
    top = warp_max(top);
    for (int v = lane; v < V; v += WARP) {
        sum += expf((float)l[v] - top);
        hit += v == target[row] ? (float)l[v] : 0;
    }
    sum = warp_sum(sum), hit = warp_sum(hit);
    for (int v = lane; v < V; v += WARP)
        l[v] = (T)((expf((float)l[v] - top) / sum - (v == target[row] ? 1 : 0)) * scale);
    if (lane == 0)
        loss[row] = logf(sum) + top - hit;
}

/* fix1 and fix2 correct the bias of the moments. */
template <typename T>
KERNEL adamw_all(T *w, float *master, float *m1, float *m2, const float *gradient, size_t n,
                 struct ops_adamw a, float fix1, float fix2)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    float g = gradient[i] * a.scale;
    float m = m1[i] = a.beta1 * m1[i] + (1 - a.beta1) * g;
    float q = m2[i] = a.beta2 * m2[i] + (1 - a.beta2) * g * g;
    float v = master[i] - a.lr * (m * fix1 / (sqrtf(q * fix2) + a.epsilon) + a.decay * master[i]);
    master[i] = v;
    w[i] = (T)v; /* in float, w is master */
}

#endif
