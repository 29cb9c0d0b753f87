/* ops_cpu - the operations on the CPU, with OpenBLAS. Elements that are bfloat16 are converted to
 * float before an operation and back after it, so each formula exists once.
 *
 * This file is compiled with -O3 -ffast-math, so that gcc calls libmvec's expf(), which is most of
 * the speed. That also removes isfinite(): train.c checks the loss. */
#include <cblas.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef I /* of complex.h, which cblas.h includes */
#include "../kit/throughput.h"
#include "ops.h"

/* Compiles a function a second time, for processors with AVX2; the dynamic linker chooses. */
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_AVX2 __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define FOR_AVX2
#endif

enum { SLOTS = 5, ALIGN = 64 };

struct ops {
    struct ops_info info;
    enum ops_precision precision;
    size_t used;          /* bytes of memory */
    float *slot[SLOTS];   /* operands of an operation as float, if they are bfloat16 */
    float *tile[2];       /* the scores of one head, and their gradient */
    double at[OPS_MARKS]; /* ms */
};

static int cpu_open(struct ops **out, int device, enum ops_precision p, char *why, size_t why_size)
{
    struct ops *o = calloc(1, sizeof *o);
    if (!o)
        return snprintf(why, why_size, "out of memory"), -1;
    o->precision = p;
    snprintf(o->info.name, sizeof o->info.name, "cpu");
    if (!getenv("OPENBLAS_NUM_THREADS") && !getenv("OMP_NUM_THREADS"))
        openblas_set_num_threads(1); /* ranks are the parallelism; small products gain nothing */
    *out = o;
    return 0;
}

static void *cpu_alloc(struct ops *o, size_t bytes)
{
    size_t size = (bytes + ALIGN) / ALIGN * ALIGN;
    void *p = aligned_alloc(ALIGN, size);
    if (!p)
        return NULL;
    o->used += malloc_usable_size(p);
    return memset(p, 0, size);
}

static void cpu_release(struct ops *o, void *p)
{
    o->used -= malloc_usable_size(p);
    free(p);
}

static void cpu_close(struct ops *o)
{
    if (!o)
        return;
    for (int k = 0; k < SLOTS; k++)
        cpu_release(o, o->slot[k]);
    for (int k = 0; k < 2; k++)
        cpu_release(o, o->tile[k]);
    free(o);
}

static const struct ops_info *cpu_info(const struct ops *o)
{
    return &o->info;
}

static int cpu_copy(struct ops *o, void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return 0;
}

static void cpu_zero(struct ops *o, void *p, size_t bytes)
{
    memset(p, 0, bytes);
}

static int cpu_wait(struct ops *o)
{
    return 0;
}

static void cpu_memory(struct ops *o, size_t *used, size_t *total)
{
    *used = o->used;
    *total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

static void cpu_order(struct ops *o, int comm_waits) /* there is one queue */
{
}

static void cpu_mark(struct ops *o, int slot, int on_comm_stream)
{
    o->at[slot] = 1e3 * throughput_now_s();
}

static double cpu_between(struct ops *o, int from, int to)
{
    return o->at[to] - o->at[from];
}

/* ---- bfloat16 ------------------------------------------------------------------------------- */

static inline float from_bf16(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t to_bf16(float f) /* to the nearest, ties to even */
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64); /* NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Returns memory for n floats, whose content is undefined. */
static float *room(struct ops *o, float **p, size_t n)
{
    if (malloc_usable_size(*p) < n * sizeof **p) {
        cpu_release(o, *p);
        *p = cpu_alloc(o, n * sizeof **p);
    }
    if (*p)
        return *p;
    fprintf(stderr, "gpt: out of memory (try: a smaller --batch)\n");
    exit(1);
}

/* Returns where an operation writes n elements of p: p, or a slot that store() converts. */
static float *target(struct ops *o, int slot, act *p, size_t n)
{
    return o->precision == OPS_FP32 || !p ? p : room(o, &o->slot[slot], n);
}

/* Returns n elements of p as float: p, or a slot with a copy. */
static inline float *values(struct ops *o, int slot, const act *p, size_t n)
{
    float *v = target(o, slot, (act *)p, n);
    const uint16_t *b = p;
    if (v != p)
        for (size_t i = 0; i < n; i++)
            v[i] = from_bf16(b[i]);
    return v;
}

static inline void store(act *p, const float *v, size_t n)
{
    uint16_t *b = p;
    if (v != p)
        for (size_t i = 0; i < n; i++)
            b[i] = to_bf16(v[i]);
}

/* ---- the operations ------------------------------------------------------------------------- */

FOR_AVX2 static void cpu_embed(struct ops *o, act *y, const act *wte, const act *wpe,
                               const uint16_t *token, int B, int T, int C)
{
    size_t n = (size_t)B * T * C, bytes = (size_t)C * (o->precision == OPS_BF16 ? 2 : 4);
    const float *w = values(o, 1, wpe, (size_t)T * C);
    float *v = target(o, 2, y, n);
    for (int r = 0; r < B * T; r++) {
        const float *e = values(o, 0, (const char *)wte + token[r] * bytes, C);
        for (int c = 0; c < C; c++)
            v[(size_t)r * C + c] = e[c] + w[r % T * C + c];
    }
    store(y, v, n);
}

FOR_AVX2 static void cpu_embed_back(struct ops *o, float *dwte, float *dwpe, const act *dy,
                                    const uint16_t *token, int B, int T, int C, int V)
{
    const float *d = values(o, 0, dy, (size_t)B * T * C);
    for (int r = 0; r < B * T; r++)
        for (int c = 0; c < C; c++) {
            dwte[(size_t)token[r] * C + c] += d[(size_t)r * C + c];
            dwpe[r % T * C + c] += d[(size_t)r * C + c];
        }
}

FOR_AVX2 static void cpu_norm(struct ops *o, act *y, float *stat, act *x, const act *add,
                              const act *gain, const act *bias, int R, int C)
{
    size_t n = (size_t)R * C;
    float *v = values(o, 0, x, n), *out = target(o, 1, y, n);
    if (add) {
        const float *a = values(o, 2, add, n);
        for (size_t i = 0; i < n; i++)
            v[i] += a[i];
        store(x, v, n);
        v = values(o, 0, x, n); /* rounded, as the backward pass reads it */
    }
    if (!y)
        return;
    const float *g = values(o, 2, gain, C), *b = values(o, 3, bias, C);
    for (int r = 0; r < R; r++) {
        float *xr = v + (size_t)r * C, mean = 0, var = 0;
        for (int c = 0; c < C; c++)
            mean += xr[c];
        mean /= (float)C;
        for (int c = 0; c < C; c++)
            var += (xr[c] - mean) * (xr[c] - mean);
        float scale = 1 / sqrtf(var / (float)C + 1e-5f);
        for (int c = 0; c < C; c++)
            out[(size_t)r * C + c] = (xr[c] - mean) * scale * g[c] + b[c];
        stat[2 * r] = mean;
        stat[2 * r + 1] = scale;
    }
    store(y, out, n);
}

FOR_AVX2 static void cpu_norm_back(struct ops *o, act *dx, float *dgain, float *dbias,
                                   const act *dy, const act *x, const float *stat, const act *gain,
                                   int R, int C)
{
    size_t n = (size_t)R * C;
    float *dxv = values(o, 0, dx, n);
    const float *dyv = values(o, 1, dy, n), *v = values(o, 2, x, n), *g = values(o, 3, gain, C);
    for (int r = 0; r < R; r++) {
        const float *d = dyv + (size_t)r * C, *xr = v + (size_t)r * C;
        float mean = stat[2 * r], scale = stat[2 * r + 1], s1 = 0, s2 = 0;
        for (int c = 0; c < C; c++) {
            float normed = (xr[c] - mean) * scale, e = d[c] * g[c];
            s1 += e;
            s2 += e * normed;
            dgain[c] += d[c] * normed;
            dbias[c] += d[c];
        }
        s1 /= (float)C;
        s2 /= (float)C;
        for (int c = 0; c < C; c++)
            dxv[(size_t)r * C + c] += (d[c] * g[c] - s1 - (xr[c] - mean) * scale * s2) * scale;
    }
    store(dx, dxv, n);
}

/* Returns the share s(z) of the tanh form of GELU, z * s(z), by 1 + tanh(u) = 2 / (1 +
 * exp(-2u)). */
static inline float gelu_share(float z)
{
    return 1 / (1 + expf(-1.5957691216f * (z + 0.044715f * z * z * z)));
}

FOR_AVX2 static void cpu_linear(struct ops *o, act *y, act *z, const act *x, const act *w,
                                const act *bias, int R, int I, int O)
{
    size_t n = (size_t)R * O;
    const float *xv = values(o, 0, x, (size_t)R * I), *wv = values(o, 1, w, (size_t)I * O);
    const float *b = values(o, 2, bias, O);
    float *yv = target(o, 3, y, n), *zv = z ? target(o, 4, z, n) : yv;
    for (int r = 0; b && r < R; r++)
        memcpy(zv + (size_t)r * O, b, (size_t)O * sizeof *b);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, R, O, I, 1, xv, I, wv, I, b ? 1 : 0, zv,
                O);
    for (size_t i = 0; z && i < n; i++)
        yv[i] = zv[i] * gelu_share(zv[i]);
    store(y, yv, n);
    if (z)
        store(z, zv, n);
}

FOR_AVX2 static void cpu_linear_back(struct ops *o, act *dx, float *dw, float *dbias, const act *dy,
                                     const act *z, const act *x, const act *w, int R, int I, int O)
{
    size_t n = (size_t)R * I;
    const float *d = values(o, 0, dy, (size_t)R * O), *xv = values(o, 1, x, n);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, O, I, R, 1, d, O, xv, I, 1, dw, I);
    for (int r = 0; dbias && r < R; r++)
        for (int c = 0; c < O; c++)
            dbias[c] += d[(size_t)r * O + c];
    if (!dx)
        return;
    const float *wv = values(o, 2, w, (size_t)I * O), *zv = values(o, 3, z, n);
    float *dxv = target(o, 4, dx, n);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, R, I, O, 1, d, O, wv, I, 0, dxv, I);
    for (size_t i = 0; zv && i < n; i++) {
        float v = zv[i], s = gelu_share(v);
        dxv[i] *= s + v * s * (1 - s) * 1.5957691216f * (1 + 0.134145f * v * v);
    }
    store(dx, dxv, n);
}

/* One head: P (T x T) = softmax of causal Q K' / sqrt(D). `lse` is written if `first`, else
 * read. */
static inline void probabilities(float *P, const float *q, int T, int C, int D, float *lse,
                                 int first)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, T, T, D, 1 / sqrtf((float)D), q, 3 * C,
                q + C, 3 * C, 0, P, T);
    for (int i = 0; i < T; i++) {
        float *p = P + (size_t)i * T, top = p[0], sum = 0;
        for (int j = 1; first && j <= i; j++)
            top = p[j] > top ? p[j] : top;
        for (int j = 0; first && j <= i; j++)
            sum += expf(p[j] - top);
        if (first)
            lse[i] = top + logf(sum);
        float l = lse[i];
        for (int j = 0; j <= i; j++)
            p[j] = expf(p[j] - l);
        memset(p + i + 1, 0, (size_t)(T - i - 1) * sizeof *p);
    }
}

FOR_AVX2 static int cpu_attend_with(struct ops *o, enum ops_attention how, int B, int T, int C,
                                    int H)
{
    return 0;
}

static void cpu_attend(struct ops *o, act *y, float *lse, const act *qkv, int B, int T, int C,
                       int H)
{
    int D = C / H;
    size_t n = (size_t)B * T * C;
    const float *in = values(o, 0, qkv, 3 * n);
    float *out = target(o, 1, y, n), *P = room(o, &o->tile[0], (size_t)T * T);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++) {
            const float *q = in + (size_t)b * T * 3 * C + h * D;
            probabilities(P, q, T, C, D, lse + (size_t)(b * H + h) * T, 1);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, T, D, T, 1, P, T, q + 2 * C,
                        3 * C, 0, out + (size_t)b * T * C + h * D, C);
        }
    store(y, out, n);
}

/* One head of attend_back(). The softmax's gradient is P (S - rows' sums of dy * y) (Dao 2022). */
static inline void attend_head_back(float *dq, const float *d, const float *y, const float *q,
                                    const float *P, float *S, int T, int C, int D)
{
    float scale = 1 / sqrtf((float)D);
    int L = 3 * C;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, T, D, T, 1, P, T, d, C, 0, dq + 2 * C, L);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, T, T, D, 1, d, C, q + 2 * C, L, 0, S, T);
    for (int i = 0; i < T; i++) {
        const float *p = P + (size_t)i * T;
        float *s = S + (size_t)i * T, sum = 0;
        for (int c = 0; c < D; c++)
            sum += d[(size_t)i * C + c] * y[(size_t)i * C + c];
        for (int j = 0; j < T; j++)
            s[j] = p[j] * (s[j] - sum) * scale;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, T, D, T, 1, S, T, q + C, L, 0, dq, L);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, T, D, T, 1, S, T, q, L, 0, dq + C, L);
}

FOR_AVX2 static void cpu_attend_back(struct ops *o, act *dqkv, const act *dy, const act *y,
                                     const float *lse, const act *qkv, int B, int T, int C, int H)
{
    int D = C / H;
    size_t n = (size_t)B * T * C;
    const float *in = values(o, 0, qkv, 3 * n), *d = values(o, 1, dy, n), *out = values(o, 2, y, n);
    float *dq = target(o, 3, dqkv, 3 * n), *P = room(o, &o->tile[0], (size_t)T * T);
    float *S = room(o, &o->tile[1], (size_t)T * T);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++) {
            size_t at = (size_t)b * T * C + (size_t)(h * D), at3 = at + (size_t)b * T * 2 * C;
            probabilities(P, in + at3, T, C, D, (float *)lse + (size_t)(b * H + h) * T, 0);
            attend_head_back(dq + at3, d + at, out + at, in + at3, P, S, T, C, D);
        }
    store(dqkv, dq, 3 * n);
}

FOR_AVX2 static void cpu_loss(struct ops *o, float *sum, act *logits, const uint16_t *token, int R,
                              int V, float scale)
{
    int width = ops_padded(V);
    float *v = values(o, 0, logits, (size_t)R * width);
    double loss = 0;
    for (int r = 0; r < R; r++) {
        float *l = v + (size_t)r * width, top = l[0], total = 0, hit = l[token[r]];
        for (int i = 1; i < V; i++)
            top = l[i] > top ? l[i] : top;
        for (int i = 0; i < V; i++)
            total += l[i] = expf(l[i] - top);
        loss += (double)(logf(total) + top - hit);
        for (int i = 0; i < V; i++)
            l[i] *= scale / total;
        l[token[r]] -= scale;
        for (int i = V; i < width; i++)
            l[i] = 0;
    }
    *sum += (float)loss * scale;
    store(logits, v, (size_t)R * width);
}

/* AdamW: Loshchilov and Hutter 2019, algorithm 2. */
FOR_AVX2 static void cpu_adamw(struct ops *o, act *w, float *master, float *m1, float *m2,
                               const float *gradient, size_t n, const struct ops_adamw *a)
{
    float b1 = a->beta1, b2 = a->beta2, lr = a->lr, epsilon = a->epsilon;
    float f1 = 1 / (1 - powf(b1, (float)a->t)), f2 = 1 / (1 - powf(b2, (float)a->t));
    size_t from = 0;
    for (int k = 0; k <= 2 * OPS_RANGES; k++) { /* before the first range, in it, after it, ... */
        const struct ops_range *range = &a->decays[k / 2 % OPS_RANGES];
        size_t to = k == 2 * OPS_RANGES ? n : k % 2 ? range->end : range->begin;
        float decay = k % 2 ? a->decay : 0;
        for (size_t i = from; i < to; i++) {
            float g = gradient[i] * a->scale;
            m1[i] = b1 * m1[i] + (1 - b1) * g;
            m2[i] = b2 * m2[i] + (1 - b2) * g * g;
            master[i] -= lr * (m1[i] * f1 / (sqrtf(m2[i] * f2) + epsilon) + decay * master[i]);
        }
        from = to > from ? to : from;
    }
    store(w, master, n);
}

FOR_AVX2 static void cpu_squares(struct ops *o, float *sum, const float *x, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += (double)x[i] * (double)x[i];
    *sum += (float)total;
}

const struct ops_backend ops_cpu = {
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .alloc_host = cpu_alloc,
    .release_host = cpu_release,
    .put = cpu_copy,
    .get = cpu_copy,
    .zero = cpu_zero,
    .wait = cpu_wait,
    .memory = cpu_memory,
    .order = cpu_order,
    .mark = cpu_mark,
    .between = cpu_between,
    .embed = cpu_embed,
    .embed_back = cpu_embed_back,
    .norm = cpu_norm,
    .norm_back = cpu_norm_back,
    .linear = cpu_linear,
    .linear_back = cpu_linear_back,
    .attend_with = cpu_attend_with,
    .attend = cpu_attend,
    .attend_back = cpu_attend_back,
    .loss = cpu_loss,
    .adamw = cpu_adamw,
    .squares = cpu_squares,
};
