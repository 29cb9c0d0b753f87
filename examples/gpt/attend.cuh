/* attend - causal attention, forward and backward, in tiles (Dao et al. 2022, "FlashAttention").
 *
 * A block has ROWS rows of one head, 16 per warp, and reads the other rows in tiles of COLS. No matrix
 * of scores is in global memory: the forward pass keeps a maximum and a sum per row ("online softmax"),
 * and the backward pass computes the scores again. Gradients of queries, and those of keys and values,
 * are computed by two launches, so each number has one writer and its sum a fixed order.
 *
 * These are plain multiplications, for float and for GPUs without cuDNN, which has tensor cores
 * (attend_cudnn.h). */
#ifndef GPT_ATTEND_CUH
#define GPT_ATTEND_CUH

#include "kernels.cuh"

/* Sizes by the bytes of a row, so that all tiles are within 48 KB. Rows in shared memory are 16 bytes
 * longer than their data: then the rows of a tile begin in different banks. */
template <typename T, int D> struct tiles {
    enum {
        BYTES = D * (int)sizeof(T),
        ROWS = BYTES > 128 ? 8192 / BYTES : 64,
        COLS = ROWS < 32 ? ROWS : 32,
        TILES = COLS / 16, /* of 16 x 16, per warp */
        THREADS = ROWS / 16 * WARP,
        PAD = 16 / (int)sizeof(T),
        LD = D + PAD,
        LDP = COLS + PAD
    };
};

/* A lane's 8 numbers of a 16 x 16 tile: x[i] is in row lane_row(i) and column lane_column(i). */
struct fragment {
    float x[8];
};
static __device__ __forceinline__ int lane_row(int i)
{
    return (int)threadIdx.x % WARP / 8 * 4 + i / 2;
}
static __device__ __forceinline__ int lane_column(int i)
{
    return (int)threadIdx.x % 8 * 2 + i % 2;
}

/* One warp: c (16 x 16N) += a (16 x 16K) b (16K x 16N); TURNED: b is stored as its transpose. Two steps
 * at once hide latency where sums are few, and would cost too many registers where they are many. */
template <int N, int K, bool TURNED, typename T>
static __device__ void product(fragment (&c)[N], const T *a, int lda, const T *b, int ldb)
{
#pragma unroll(N < 8 ? 2 : 1)
    for (int k = 0; k < 16 * K; k++) {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int j = n * 16 + lane_column(i);
                c[n].x[i] += (float)a[lane_row(i) * lda + k] *
                             (float)(TURNED ? b[j * ldb + k] : b[k * ldb + j]);
            }
    }
}

/* Copies n rows from row `first` on to shared memory; rows from `end` on are 0. */
template <typename T, int D>
static __device__ void tile_load(T *to, const T *from, int stride, int first, int n, int end)
{
    enum { N = pack<T>::N, PACKS = D / N };
    for (int i = (int)threadIdx.x; i < n * PACKS; i += tiles<T, D>::THREADS) {
        int row = i / PACKS, c = i % PACKS * N;
        pack<T> v = {};
        if (first + row < end)
            v = pack_get(from + (size_t)(first + row) * stride + c);
        pack_put(to + row * tiles<T, D>::LD + c, v);
    }
}

/* Calls f(n, i, row, column) for each element c[n].x[i] that this lane has of the sums c[0 ... N - 1], side by side. */
template <int N, typename F> static __device__ __forceinline__ void each(F f)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            f(n, i, lane_row(i), n * 16 + lane_column(i));
}

template <int N> static __device__ __forceinline__ void clear(fragment (&c)[N])
{
#pragma unroll
    for (int i = 0; i < 8 * N; i++)
        c[i / 8].x[i % 8] = 0;
}

/* Writes this warp's 16 rows of D numbers, times factor and, if `by_row` is not NULL, by_row[row * ld]. */
template <typename T, int D>
static __device__ void tile_store(T *to, int stride, const fragment (&c)[D / 16], int rows, float factor,
                                  const float *by_row, int ld)
{
    each<D / 16>([&](int n, int i, int row, int column) {
        if (row < rows)
            to[row * stride + column] = (T)(c[n].x[i] * factor * (by_row ? by_row[row * ld] : 1));
    });
}

/* Logarithms and powers are of base 2, which is what the hardware has. */
#define LOG2E 1.44269504f

/* grid: (blocks of queries, B * H). The last queries, which have most keys, start first. */
template <typename T, int D>
__global__ void __launch_bounds__(tiles<T, D>::THREADS)
    attend_forward(T *y, float *lse, const T *qkv, int context, int C, int H)
{
    typedef tiles<T, D> S;
    enum { LDS = S::COLS + 4 }; /* the factor of a row follows its scores */
    SHARED(T, queries, S::ROWS * S::LD);
    SHARED(T, keys, S::COLS * S::LD);
    SHARED(T, values, S::COLS * S::LD);
    SHARED(T, weights, S::ROWS * S::LDP);
    SHARED(float, scores, S::ROWS * LDS);
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, row = lane / 2;
    int block = (int)(gridDim.x - 1 - blockIdx.x) * S::ROWS, first = block + warp * 16;
    size_t sequence = (size_t)(blockIdx.y / H) * context;
    int channel = (int)(blockIdx.y % H) * D;
    const T *q = qkv + sequence * 3 * C + channel;
    float *s = scores + warp * 16 * LDS, top = -INFINITY, sum = 0;
    T *p = weights + warp * 16 * S::LDP;
    tile_load<T, D>(queries, q, 3 * C, block, S::ROWS, context);
    __syncthreads();
    fragment out[D / 16], c[S::TILES];
    clear(out);
    for (int k = 0; k < block + S::ROWS && k < context; k += S::COLS) {
        __syncthreads();
        tile_load<T, D>(keys, q + C, 3 * C, k, S::COLS, context);
        tile_load<T, D>(values, q + 2 * C, 3 * C, k, S::COLS, context);
        __syncthreads();
        if (k > first + 15) /* all keys are after this warp's queries */
            continue;
        clear(c);
        product<S::TILES, D / 16, true>(c, queries + warp * 16 * S::LD, S::LD, keys, S::LD);
        each<S::TILES>([&](int n, int i, int r, int j) {
            s[r * LDS + j] = k + j <= first + r ? c[n].x[i] * (LOG2E / sqrtf((float)D)) : -INFINITY;
        });
        __syncwarp();
        float up = top, add = 0; /* two lanes per row, each with every second column */
        for (int j = lane % 2; j < S::COLS; j += 2)
            up = fmaxf(up, s[row * LDS + j]);
        up = fmaxf(up, __shfl_xor_sync(~0u, up, 1));
        for (int j = lane % 2; j < S::COLS; j += 2) {
            float e = exp2f(s[row * LDS + j] - up);
            add += e;
            p[row * S::LDP + j] = (T)e;
        }
        float keep = exp2f(top - up);
        sum = sum * keep + add, top = up;
        if (lane % 2 == 0)
            s[row * LDS + S::COLS] = keep;
        __syncwarp();
        each<D / 16>([&](int n, int i, int r, int) { out[n].x[i] *= s[r * LDS + S::COLS]; });
        product<D / 16, S::TILES, false>(out, p, S::LDP, values, S::LD);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    __syncwarp();
    if (lane % 2 == 0) {
        s[row * LDS + S::COLS] = 1 / sum;
        if (first + row < context)
            lse[(size_t)blockIdx.y * context + first + row] = (top + log2f(sum)) / LOG2E;
    }
    __syncwarp();
    tile_store<T, D>(y + (sequence + first) * C + channel, C, out, context - first, 1, s + S::COLS, LDS);
}

/* KEYS false: rows are queries, and the block computes their gradient and delta, the sum of dy * y per
 * query. KEYS true: rows are keys, and the block computes the gradients of keys and values; it needs
 * delta. Both are: weights = exp(own0 other0' - lse), slopes = weights * (own1 other1' - delta),
 * gradient0 += slopes other0, gradient1 += weights other1. */
template <typename T, int D, bool KEYS>
__global__ void __launch_bounds__(tiles<T, D>::THREADS)
    attend_backward(T *dqkv, float *delta, const T *dy, const T *y, const float *lse, const T *qkv,
                    int context, int C, int H)
{
    typedef tiles<T, D> S;
    SHARED(T, own0, S::ROWS * S::LD);
    SHARED(T, own1, S::ROWS * S::LD);
    SHARED(T, other0, S::COLS * S::LD);
    SHARED(T, other1, S::COLS * S::LD);
    SHARED(T, slopes, S::ROWS * S::LDP);
    SHARED(T, weights, KEYS ? S::ROWS * S::LDP : 16);
    SHARED(float, stat, 2 * S::ROWS); /* lse in base 2, then delta, of the rows or columns that are queries */
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    int block = (int)(KEYS ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * S::ROWS, first = block + warp * 16;
    size_t sequence = (size_t)(blockIdx.y / H) * context, head = (size_t)blockIdx.y * context;
    int channel = (int)(blockIdx.y % H) * D;
    const T *q = qkv + sequence * 3 * C + channel, *k = q + C, *v = k + C;
    const T *g = dy + sequence * C + channel;
    T *ds = slopes + warp * 16 * S::LDP, *p = weights + (KEYS ? warp * 16 * S::LDP : 0);
    tile_load<T, D>(own0, KEYS ? k : q, 3 * C, block, S::ROWS, context);
    tile_load<T, D>(own1, KEYS ? v : g, KEYS ? 3 * C : C, block, S::ROWS, context);
    __syncthreads();
    for (int r = 0; r < 16 && !KEYS; r++) {
        float sum = 0;
        for (int c = lane; c < D && first + r < context; c += WARP)
            sum += (float)own1[(warp * 16 + r) * S::LD + c] *
                   (float)y[(sequence + first + r) * C + channel + c];
        sum = warp_sum(sum);
        if (lane > 0)
            continue;
        stat[warp * 16 + r] = first + r < context ? lse[head + first + r] * LOG2E : INFINITY;
        stat[S::ROWS + warp * 16 + r] = sum;
        if (first + r < context)
            delta[head + first + r] = sum;
    }
    fragment grad0[D / 16], grad1[D / 16], c[S::TILES], d[S::TILES];
    clear(grad0);
    clear(grad1);
    int end = KEYS || block + S::ROWS > context ? context : block + S::ROWS;
    for (int j0 = KEYS ? block : 0; j0 < end; j0 += S::COLS) {
        __syncthreads();
        tile_load<T, D>(other0, KEYS ? q : k, 3 * C, j0, S::COLS, context);
        tile_load<T, D>(other1, KEYS ? g : v, KEYS ? C : 3 * C, j0, S::COLS, context);
        for (int j = (int)threadIdx.x; j < S::COLS && KEYS; j += S::THREADS) {
            /* Beyond the last query, exp(... - INFINITY) makes all weights 0. */
            stat[j] = j0 + j < context ? lse[head + j0 + j] * LOG2E : INFINITY;
            stat[S::ROWS + j] = j0 + j < context ? delta[head + j0 + j] : 0;
        }
        __syncthreads();
        if (KEYS ? j0 + S::COLS - 1 < first : j0 > first + 15)
            continue;
        clear(c);
        clear(d);
        product<S::TILES, D / 16, true>(c, own0 + warp * 16 * S::LD, S::LD, other0, S::LD);
        product<S::TILES, D / 16, true>(d, own1 + warp * 16 * S::LD, S::LD, other1, S::LD);
        each<S::TILES>([&](int n, int i, int r, int j) {
            int query = KEYS ? j : warp * 16 + r;
            bool seen = KEYS ? j0 + j >= first + r : j0 + j <= first + r;
            float e = seen ? exp2f(c[n].x[i] * (LOG2E / sqrtf((float)D)) - stat[query]) : 0;
            ds[r * S::LDP + j] = (T)(e * (d[n].x[i] - stat[S::ROWS + query]));
            if (KEYS)
                p[r * S::LDP + j] = (T)e;
        });
        __syncwarp();
        product<D / 16, S::TILES, false>(grad0, ds, S::LDP, other0, S::LD);
        if (KEYS)
            product<D / 16, S::TILES, false>(grad1, p, S::LDP, other1, S::LD);
    }
    T *to = dqkv + (sequence + first) * 3 * C + channel;
    tile_store<T, D>(to + (KEYS ? C : 0), 3 * C, grad0, context - first, 1 / sqrtf((float)D), NULL, 0);
    if (KEYS)
        tile_store<T, D>(to + 2 * C, 3 * C, grad1, context - first, 1, NULL, 0);
}

#endif
