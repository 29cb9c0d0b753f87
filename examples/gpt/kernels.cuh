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
enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };
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
KERNEL embed_rows(T *y, const T *wte, const T *wpe, const uint16_t *token, int rows, int context,
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

/* Sorts the rows by their tokens, in one block: rows[start[v]] up to rows[start[v + 1]] are those with token v, in order. The
 * order, and so the sums over rows, has the same bits each time. The time is proportional to the rows and the vocabulary.
 * rank: the number of rows before this one with its token. */
static KERNEL sort_rows(int *rows, int *start, int *rank, const uint16_t *token, int R, int V)
{
    SHARED(int, now, THREADS);
    int thread = (int)threadIdx.x, each = V / THREADS + 1, total = 0;
    for (int v = thread; v <= V; v += THREADS)
        start[v] = 0;
    __syncthreads();
    for (int first = 0; first < R; first += THREADS) {
        int row = first + thread, mine = row < R ? token[row] : -1, before = 0, after = 0;
        now[thread] = mine;
        __syncthreads();
        for (int i = 0; i < THREADS; i++) {
            before += now[i] == mine && i < thread;
            after += now[i] == mine && i > thread;
        }
        int known = row < R ? start[mine] : 0;
        __syncthreads();
        if (row < R)
            rank[row] = known + before;
        if (row < R && after == 0)
            start[mine] = known + before + 1;
    }
    __syncthreads();
    for (int v = thread * each; v < (thread + 1) * each && v <= V; v++) /* from counts to positions */
        total += start[v];
    now[thread] = total;
    __syncthreads();
    int at = 0;
    for (int i = 0; i < thread; i++)
        at += now[i];
    for (int v = thread * each; v < (thread + 1) * each && v <= V; v++) {
        int count = start[v];
        start[v] = at;
        at += count;
    }
    __syncthreads();
    for (int row = thread; row < R; row += THREADS)
        rows[start[token[row]] + rank[row]] = row;
}

/* A block has a token, and WARP packs of columns. Each warp adds a part of the token's rows. */
template <typename T> KERNEL embed_back_tokens(float *dwte, const T *dy, const int *rows, const int *start, int C)
{
    enum { N = pack<T>::N };
    SHARED(float, part, THREADS * N);
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, c = ((int)blockIdx.y * WARP + lane) * N;
    int from = start[blockIdx.x], to = start[blockIdx.x + 1];
    if (from == to)
        return;
    float sum[N] = {};
    for (int i = from + warp; i < to && c < C; i += WARPS) {
        pack<T> d = pack_get(dy + (size_t)rows[i] * C + c);
        for (int k = 0; k < N; k++)
            sum[k] += (float)d.v[k];
    }
    for (int k = 0; k < N; k++)
        part[(warp * N + k) * WARP + lane] = sum[k];
    __syncthreads();
    for (int k = warp; k < N && c < C; k += WARPS) {
        float all = 0;
        for (int w = 0; w < WARPS; w++)
            all += part[(w * N + k) * WARP + lane];
        dwte[(size_t)blockIdx.x * C + c + k] += all;
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

/* LANES threads per row of `width`: a warp, or a block. Each lane reads and writes its own columns only, as lanes are not
 * ordered. The sum of exponentials is kept relative to the largest logit so far (Milakov and Gimelshein 2018). */
template <typename T, int LANES>
KERNEL loss_rows(float *loss, T *logits, const uint16_t *target, int R, int V, int width, float scale)
{
    enum { N = pack<T>::N };
    SHARED(float, part, 3 * WARPS);
    int lane = (int)threadIdx.x % LANES, row = (int)(blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES);
    if (row >= R)
        return;
    int hit_at = target[row];
    T *l = logits + (size_t)row * width;
    float top = -INFINITY, sum = 0, hit = 0;
    for (int v = lane * N; v < V; v += LANES * N) {
        pack<T> x = pack_get(l + v);
        float before = top;
        for (int i = 0; i < N && v + i < V; i++)
            top = fmaxf(top, (float)x.v[i]);
        sum *= expf(before - top);
        for (int i = 0; i < N && v + i < V; i++) {
            sum += expf((float)x.v[i] - top);
            hit += v + i == hit_at ? (float)x.v[i] : 0;
        }
    }
    float mine = top;
    top = warp_max(top);
    sum = warp_sum(mine == -INFINITY ? 0 : sum * expf(mine - top)), hit = warp_sum(hit);
    if (LANES == THREADS) {
        int warp = (int)threadIdx.x / WARP;
        if (threadIdx.x % WARP == 0)
            part[warp] = top, part[WARPS + warp] = sum, part[2 * WARPS + warp] = hit;
        __syncthreads();
        top = -INFINITY, sum = hit = 0;
        for (int w = 0; w < WARPS; w++)
            top = fmaxf(top, part[w]);
        for (int w = 0; w < WARPS; w++)
            sum += part[w] == -INFINITY ? 0 : part[WARPS + w] * expf(part[w] - top), hit += part[2 * WARPS + w];
    }
    for (int v = lane * N; v < width; v += LANES * N) {
        pack<T> x = pack_get(l + v);
        for (int i = 0; i < N; i++)
            x.v[i] = v + i < V ? (T)((expf((float)x.v[i] - top) / sum - (v + i == hit_at ? 1 : 0)) * scale) : (T)0.0f;
        pack_put(l + v, x);
    }
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
    float decay = 0;
    for (const struct ops_range &r : a.decays)
        decay = i >= r.begin && i < r.end ? a.decay : decay;
    float v = master[i] - a.lr * (m * fix1 / (sqrtf(q * fix2) + a.epsilon) + decay * master[i]);
    master[i] = v;
    w[i] = (T)v; /* in float, w is master */
}

#endif
