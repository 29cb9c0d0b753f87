/* gpt_cuda - the operations of ops.h on an NVIDIA GPU, in the library gpt_cuda.so. cuBLASLt computes matrix products,
 * with bias and GELU in the same kernel; cuDNN (attend_path.h) or attend.cuh has attention, and kernels.cuh the rest. */
#include <algorithm>
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend.cuh"
#include "attend_path.h"
#include "ops.h"

enum { PLANS = 64, WORKSPACE = 32 << 20, CHUNKS = 64, WIDE = 1024 /* logits: a block per row */ };

/* A product of matrices that are stored column by column, as cuBLASLt has them: d (m x n) = op(a) op(b), k inner.
 * `adds`: d is float in either precision, and the product is added to it. */
struct product {
    int m, n, k, ta, tb, adds;
    cublasLtEpilogue_t epilogue;
};

struct plan { /* how cuBLASLt computes a product */
    struct product of;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
};

struct ops {
    struct ops_info info;
    enum ops_precision precision;
    cudaStream_t stream, comm;
    cudaEvent_t ordered, marks[OPS_MARKS];
    cublasLtHandle_t blas;
    struct plan plans[PLANS];
    int planned; /* number of products planned so far; the newest PLANS are kept */
    void *workspace;
    float *scratch;
    size_t scratch_n;
    int sm; /* compute capability: 90 is 9.0 */
    struct attend_path attend;
    void *attend_workspace; /* of cuDNN, for all layers */
    size_t attend_workspace_size;
};

/* ---- errors: each records the first one, and returns true if there is one ------------------- */

static bool failed(struct ops *o, const char *what, const char *why)
{
    if (!o->info.error[0])
        snprintf(o->info.error, sizeof o->info.error, "%s: %s", what, why);
    return true;
}

static bool failed(struct ops *o, const char *what, cudaError_t rc)
{
    return rc != cudaSuccess && failed(o, what, cudaGetErrorString(rc));
}

static bool failed(struct ops *o, const char *what, cublasStatus_t rc)
{
    return rc != CUBLAS_STATUS_SUCCESS && failed(o, what, cublasLtGetStatusString(rc));
}

/* ---- device and memory ---------------------------------------------------------------------- */

static const struct ops_info *cuda_info(const struct ops *o)
{
    return &o->info;
}

static void plan_free(struct plan *p)
{
    if (p->desc)
        cublasLtMatmulDescDestroy(p->desc);
    for (cublasLtMatrixLayout_t layout : {p->a, p->b, p->d})
        if (layout)
            cublasLtMatrixLayoutDestroy(layout);
    memset(p, 0, sizeof *p);
}

static void cuda_close(struct ops *o)
{
    if (!o)
        return;
    for (cudaStream_t s : {o->stream, o->comm})
        if (s)
            cudaStreamSynchronize(s), cudaStreamDestroy(s);
    for (struct plan &p : o->plans)
        plan_free(&p);
    for (cudaEvent_t e : o->marks)
        if (e)
            cudaEventDestroy(e);
    if (o->ordered)
        cudaEventDestroy(o->ordered);
    if (o->blas)
        cublasLtDestroy(o->blas);
    attend_close(&o->attend);
    cudaFree(o->attend_workspace);
    cudaFree(o->workspace);
    cudaFree(o->scratch);
    free(o);
}

static int cuda_open(struct ops **out, int device, enum ops_precision p, char *why, size_t why_size)
{
    struct ops *o = (struct ops *)calloc(1, sizeof *o);
    struct cudaDeviceProp properties = {};
    int devices = 0;
    cudaError_t rc = o ? cudaGetDeviceCount(&devices) : cudaErrorMemoryAllocation;
    if (rc != cudaSuccess || devices == 0) {
        snprintf(why, why_size, "no GPU: %s", rc ? cudaGetErrorString(rc) : "the driver shows none");
        free(o);
        return -1;
    }
    o->precision = p;
    device %= devices; /* if there are more ranks than GPUs, ranks share GPUs */
    rc = cudaSetDevice(device);
    rc = rc ? rc : cudaGetDeviceProperties(&properties, device);
    rc = rc ? rc : cudaStreamCreateWithFlags(&o->stream, cudaStreamNonBlocking);
    rc = rc ? rc : cudaStreamCreateWithFlags(&o->comm, cudaStreamNonBlocking);
    rc = rc ? rc : cudaEventCreateWithFlags(&o->ordered, cudaEventDisableTiming);
    rc = rc ? rc : cudaMalloc(&o->workspace, WORKSPACE);
    if (failed(o, "CUDA", rc) || failed(o, "cublasLtCreate", cublasLtCreate(&o->blas)) ||
        (p == OPS_BF16 && properties.major < 8 && failed(o, "bfloat16", "needs compute capability 8.0 or later (try: fp32)"))) {
        snprintf(why, why_size, "GPU %d: %s", device, o->info.error);
        cuda_close(o);
        return -1;
    }
    snprintf(o->info.name, sizeof o->info.name, "%s", properties.name);
    o->sm = properties.major * 10 + properties.minor;
    o->info.devices = devices;
    o->info.comm_stream = o->comm;
    *out = o;
    return 0;
}

static void *cuda_alloc(struct ops *o, size_t bytes)
{
    void *p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError(); /* the caller may continue: the next operation has not failed */
        return NULL;
    }
    failed(o, "alloc", cudaMemsetAsync(p, 0, bytes, o->stream));
    return p;
}

static void cuda_release(struct ops *o, void *p)
{
    failed(o, "release", cudaStreamSynchronize(o->stream));
    failed(o, "release", cudaFree(p));
}

static void *cuda_alloc_host(struct ops *, size_t bytes)
{
    void *p = NULL;
    if (cudaMallocHost(&p, bytes ? bytes : 1) != cudaSuccess)
        cudaGetLastError();
    return p;
}

static void cuda_release_host(struct ops *o, void *p)
{
    failed(o, "release_host", cudaFreeHost(p));
}

static int cuda_wait(struct ops *o)
{
    failed(o, "wait", cudaStreamSynchronize(o->stream));
    return o->info.error[0] ? -1 : 0;
}

static int cuda_put(struct ops *o, void *to, const void *from, size_t bytes)
{
    return failed(o, "put", cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, o->stream)) ? -1 : 0;
}

static int cuda_get(struct ops *o, void *to, const void *from, size_t bytes)
{
    failed(o, "get", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, o->stream));
    return cuda_wait(o);
}

static void cuda_zero(struct ops *o, void *p, size_t bytes)
{
    failed(o, "zero", cudaMemsetAsync(p, 0, bytes, o->stream));
}

static void cuda_memory(struct ops *o, size_t *used, size_t *total)
{
    size_t unused = 0;
    *total = 0;
    failed(o, "memory", cudaMemGetInfo(&unused, total));
    *used = *total - unused;
}

/* Returns n floats for the operation that is queued next. NULL: out of memory. */
static float *scratch(struct ops *o, const char *what, size_t n)
{
    if (n > o->scratch_n) {
        failed(o, what, cudaStreamSynchronize(o->stream));
        cudaFree(o->scratch);
        o->scratch = NULL;
        o->scratch_n = failed(o, what, cudaMalloc((void **)&o->scratch, n * sizeof(float))) ? 0 : n;
    }
    return o->scratch;
}

/* ---- streams and time ----------------------------------------------------------------------- */

static void cuda_order(struct ops *o, int comm_waits)
{
    failed(o, "order", cudaEventRecord(o->ordered, comm_waits ? o->stream : o->comm));
    failed(o, "order", cudaStreamWaitEvent(comm_waits ? o->comm : o->stream, o->ordered, 0));
}

static void cuda_mark(struct ops *o, int slot, int on_comm_stream)
{
    cudaEvent_t *e = &o->marks[slot];
    if (*e || !failed(o, "mark", cudaEventCreateWithFlags(e, cudaEventDefault)))
        failed(o, "mark", cudaEventRecord(*e, on_comm_stream ? o->comm : o->stream));
}

static double cuda_between(struct ops *o, int from, int to)
{
    float ms = 0;
    cudaError_t rc = cudaEventSynchronize(o->marks[from]);
    rc = rc ? rc : cudaEventSynchronize(o->marks[to]);
    failed(o, "between", rc ? rc : cudaEventElapsedTime(&ms, o->marks[from], o->marks[to]));
    return ms;
}

/* ---- products ------------------------------------------------------------------------------- */

static cublasStatus_t plan_describe(const struct ops *o, struct plan *p)
{
    const struct product *s = &p->of;
    cudaDataType_t in = o->precision == OPS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cublasOperation_t ta = s->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = s->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t rc = cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    auto set = [&](cublasLtMatmulDescAttributes_t name, const auto &value) {
        rc = rc ? rc : cublasLtMatmulDescSetAttribute(p->desc, name, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, ta);
    set(CUBLASLT_MATMUL_DESC_TRANSB, tb);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, s->epilogue);
    auto layout = [&](cublasLtMatrixLayout_t *out, cudaDataType_t type, int rows, int cols) {
        rc = rc ? rc : cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)cols, rows);
    };
    layout(&p->a, in, s->ta ? s->k : s->m, s->ta ? s->m : s->k);
    layout(&p->b, in, s->tb ? s->n : s->k, s->tb ? s->k : s->n);
    layout(&p->d, s->adds ? CUDA_R_32F : in, s->m, s->n);
    return rc;
}

static cublasStatus_t plan_choose(const struct ops *o, struct plan *p)
{
    cublasLtMatmulPreference_t want;
    cublasStatus_t rc = cublasLtMatmulPreferenceCreate(&want);
    if (rc)
        return rc;
    auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto &value) {
        rc = rc ? rc : cublasLtMatmulPreferenceSetAttribute(want, name, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (size_t)WORKSPACE);
    for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        set(name, (uint32_t)16);
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    rc = rc ? rc : cublasLtMatmulAlgoGetHeuristic(o->blas, p->desc, p->a, p->b, p->d, p->d, want, 1, &best, &found);
    cublasLtMatmulPreferenceDestroy(want);
    p->algo = best.algo;
    return rc || found > 0 ? rc : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Returns the plan of a product; the first call for each product makes it. */
static struct plan *plan_find(struct ops *o, const struct product *s)
{
    for (struct plan &p : o->plans)
        if (p.desc && memcmp(&p.of, s, sizeof *s) == 0)
            return &p;
    struct plan *p = &o->plans[o->planned++ % PLANS];
    plan_free(p);
    p->of = *s;
    return failed(o, "cuBLASLt", plan_describe(o, p)) ? NULL : p;
}

/* bias: a vector of m. aux: the input of GELU (m x n), which the epilogue writes in a forward, and reads in a backward
 * pass. */
static void multiply(struct ops *o, const char *what, const struct product &s, void *d, const void *a, const void *b,
                     const void *bias, const void *aux)
{
    int before = o->planned;
    int64_t ld = s.m;
    struct plan *p = plan_find(o, &s);
    if (!p)
        return;
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    auto set = [&](cublasLtMatmulDescAttributes_t name, const auto &value) {
        rc = rc ? rc : cublasLtMatmulDescSetAttribute(p->desc, name, &value, sizeof value);
    };
    if (bias)
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (aux) {
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    }
    if (o->planned != before)
        rc = rc ? rc : plan_choose(o, p);
    float one = 1, beta = s.adds ? 1 : 0;
    rc = rc ? rc : cublasLtMatmul(o->blas, p->desc, &one, a, p->a, b, p->b, &beta, d, p->d, d, p->d, &p->algo, o->workspace,
                                  WORKSPACE, o->stream);
    if (failed(o, what, rc))
        plan_free(p);
}

static void cuda_linear(struct ops *o, act *y, act *z, const act *x, const act *w, const act *bias, int R, int I, int O)
{
    cublasLtEpilogue_t e = z ? bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX
                             : bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    multiply(o, "linear", {O, R, I, 1, 0, 0, e}, y, w, x, bias, z);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Calls f with a value of the type of activations, then looks for errors of its launches. */
template <typename F> static void launch(struct ops *o, const char *what, F f)
{
    if (o->precision == OPS_BF16)
        f(bf16());
    else
        f(float());
    failed(o, what, cudaGetLastError());
}

static unsigned blocks(size_t n, size_t per = THREADS)
{
    return (unsigned)((n + per - 1) / per);
}

/* Adds the sums of dy's columns to `plain`; with x, those of dy * the normalized x to `normed`. cuBLASLt's epilogues
 * for the gradient of a bias cannot add. */
template <typename T>
static void columns(struct ops *o, const char *what, float *plain, float *normed, const T *dy, const T *x, const float *stat,
                    int R, int C)
{
    unsigned chunks = std::min(blocks((size_t)R, 4 * WARPS), (unsigned)CHUNKS);
    float *part = scratch(o, what, 2 * (size_t)chunks * C);
    if (!part)
        return;
    LAUNCH(sum_columns<T>, dim3(blocks((size_t)C, WARP * pack<T>::N), chunks), THREADS, o->stream, part, dy, x, stat, R, C);
    LAUNCH(add_columns, blocks((size_t)C), THREADS, o->stream, plain, normed, part, (int)chunks, C);
}

static void cuda_linear_back(struct ops *o, act *dx, float *dw, float *dbias, const act *dy, const act *z, const act *x,
                             const act *w, int R, int I, int O)
{
    multiply(o, "linear_back", {I, O, R, 0, 1, 1, CUBLASLT_EPILOGUE_DEFAULT}, dw, x, dy, NULL, NULL);
    if (dbias)
        launch(o, "linear_back", [=](auto t) {
            typedef decltype(t) T;
            columns(o, "linear_back", dbias, NULL, (const T *)dy, (const T *)NULL, NULL, R, O);
        });
    if (dx)
        multiply(o, "linear_back", {I, R, O, 0, 0, 0, z ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT}, dx, w, dy,
                 NULL, z);
}

static void cuda_embed(struct ops *o, act *y, const act *wte, const act *wpe, const uint16_t *token, int B, int T, int C)
{
    launch(o, "embed", [=](auto t) {
        typedef decltype(t) A;
        LAUNCH(embed_rows<A>, blocks((size_t)B * T * C / pack<A>::N), THREADS, o->stream, (A *)y, (const A *)wte,
               (const A *)wpe, token, B * T, T, C);
    });
}

static void cuda_embed_back(struct ops *o, float *dwte, float *dwpe, const act *dy, const uint16_t *token, int B, int T, int C,
                            int V)
{
    int R = B * T, *rows = (int *)scratch(o, "embed_back", 2 * (size_t)R + (size_t)V + 1);
    if (!rows)
        return;
    int *rank = rows + R, *start = rank + R;
    launch(o, "embed_back", [=](auto t) {
        typedef decltype(t) A;
        LAUNCH(sort_rows, 1, THREADS, o->stream, rows, start, rank, token, R, V);
        LAUNCH(embed_back_tokens<A>, dim3((unsigned)V, blocks((size_t)C, WARP * pack<A>::N)), THREADS, o->stream, dwte,
               (const A *)dy, rows, start, C);
        columns(o, "embed_back", dwpe, NULL, (const A *)dy, (const A *)NULL, NULL, B, T * C); /* a row per sequence */
    });
}

static void cuda_norm(struct ops *o, act *y, float *stat, act *x, const act *add, const act *gain, const act *bias, int R,
                      int C)
{
    launch(o, "norm", [=](auto t) {
        typedef decltype(t) T;
        LAUNCH(norm_rows<T>, blocks((size_t)R, WARPS), THREADS, o->stream, (T *)y, stat, (T *)x, (const T *)add,
               (const T *)gain, (const T *)bias, R, C);
    });
}

static void cuda_norm_back(struct ops *o, act *dx, float *dgain, float *dbias, const act *dy, const act *x, const float *stat,
                           const act *gain, int R, int C)
{
    launch(o, "norm_back", [=](auto t) {
        typedef decltype(t) T;
        columns(o, "norm_back", dbias, dgain, (const T *)dy, (const T *)x, stat, R, C);
        LAUNCH(norm_back_rows<T>, blocks((size_t)R, WARPS), THREADS, o->stream, (T *)dx, (const T *)dy,
               (const T *)x, stat, (const T *)gain, R, C);
    });
}

/* Calls f with a value of the type of activations, and the size of a head as a type. */
template <typename F> static void launch_heads(struct ops *o, const char *what, int size, F f)
{
    launch(o, what, [=](auto t) {
        switch (size) {
        case 16:
            return f(t, std::integral_constant<int, 16>());
        case 32:
            return f(t, std::integral_constant<int, 32>());
        case 64:
            return f(t, std::integral_constant<int, 64>());
        case 128:
            return f(t, std::integral_constant<int, 128>());
        default:
            failed(o, what, "heads must have 16, 32, 64 or 128 channels");
        }
    });
}

/* Computes a pass by cuDNN, if it takes the shape and its workspace is there. Returns true if so. */
static bool attend_by_cudnn(struct ops *o, const char *what, const struct attend_arrays &x, int B, int T, int C, int H,
                            int backward)
{
    char why[200];
    const struct attend_plan *p = attend_find(&o->attend, B, T, C, H, backward);
    if (!p || p->workspace > o->attend_workspace_size)
        return false;
    if (o->attend.library->run(o->attend.cudnn, p->number, &x, o->attend_workspace, why, sizeof why) < 0)
        failed(o, what, why);
    return true;
}

static int cuda_attend_with(struct ops *o, enum ops_attention how, int B, int T, int C, int H)
{
    struct attend_path *path = &o->attend;
    path->how = o->precision == OPS_BF16 ? how : OPS_ATTEND_OWN;
    if (path->how != OPS_ATTEND_OWN)
        attend_open(path, o->sm, o->stream);
    const struct attend_plan *there = attend_find(path, B, T, C, H, 0);
    const struct attend_plan *back = there ? attend_find(path, B, T, C, H, 1) : NULL;
    size_t bytes = back ? std::max(there->workspace, back->workspace) : 0;
    if (bytes != o->attend_workspace_size) {
        failed(o, "attend_with", cudaStreamSynchronize(o->stream));
        cudaFree(o->attend_workspace);
        o->attend_workspace = NULL;
        o->attend_workspace_size = 0;
        if (bytes && !(o->attend_workspace = cuda_alloc(o, bytes)))
            return -1;
        o->attend_workspace_size = bytes;
    }
    int version = back ? path->library->version(path->cudnn) : 0;
    if (back)
        snprintf(o->info.attention, sizeof o->info.attention, "cuDNN %d.%d.%d%s", version / 10000, version / 100 % 100,
                 version % 100, how == OPS_ATTEND_SAME_BITS ? ", deterministic" : "");
    else if (path->how != OPS_ATTEND_OWN)
        snprintf(o->info.attention, sizeof o->info.attention, "own kernels: %s", path->why);
    if (!back) /* a shape has one path: both passes or none */
        path->how = OPS_ATTEND_OWN;
    return 0;
}

static void cuda_attend(struct ops *o, act *y, float *lse, const act *qkv, int B, int T, int C, int H)
{
    if (attend_by_cudnn(o, "attend", {qkv, NULL, y, NULL, lse}, B, T, C, H, 0))
        return;
    launch_heads(o, "attend", C / H, [=](auto t, auto size) {
        typedef decltype(t) A;
        const int D = size;
        typedef tiles<A, D> S;
        LAUNCH((attend_forward<A, D>), dim3(blocks((size_t)T, S::ROWS), (unsigned)(B * H)), S::THREADS, o->stream, (A *)y,
               lse, (const A *)qkv, T, C, H);
    });
}

static void cuda_attend_back(struct ops *o, act *dqkv, const act *dy, const act *y, const float *lse, const act *qkv, int B,
                             int T, int C, int H)
{
    if (attend_by_cudnn(o, "attend_back", {qkv, dy, (act *)y, dqkv, (float *)lse}, B, T, C, H, 1))
        return;
    float *delta = scratch(o, "attend_back", (size_t)B * H * T);
    if (!delta)
        return;
    launch_heads(o, "attend_back", C / H, [=](auto t, auto size) {
        typedef decltype(t) A;
        const int D = size;
        typedef tiles<A, D> S;
        dim3 grid(blocks((size_t)T, S::ROWS), (unsigned)(B * H));
        LAUNCH((attend_backward<A, D, false>), grid, S::THREADS, o->stream, (A *)dqkv, delta, (const A *)dy,
               (const A *)y, lse, (const A *)qkv, T, C, H);
        LAUNCH((attend_backward<A, D, true>), grid, S::THREADS, o->stream, (A *)dqkv, delta, (const A *)dy,
               (const A *)y, lse, (const A *)qkv, T, C, H);
    });
}

static void cuda_loss(struct ops *o, float *sum, act *logits, const uint16_t *target, int R, int V, float scale)
{
    int width = ops_padded(V);
    float *losses = scratch(o, "loss", (size_t)R);
    if (!losses)
        return;
    launch(o, "loss", [=](auto t) {
        typedef decltype(t) T;
        if (V > WIDE)
            LAUNCH((loss_rows<T, THREADS>), (unsigned)R, THREADS, o->stream, losses, (T *)logits, target, R, V, width, scale);
        else
            LAUNCH((loss_rows<T, WARP>), blocks((size_t)R, WARPS), THREADS, o->stream, losses, (T *)logits, target, R, V, width,
                   scale);
        LAUNCH(sum_values, 1, THREADS, o->stream, sum, losses, (size_t)R, 0, 1, scale);
    });
}

static void cuda_squares(struct ops *o, float *sum, const float *x, size_t n)
{
    unsigned parts = std::min(blocks(n), 4u * THREADS);
    float *part = scratch(o, "squares", parts);
    if (!part)
        return;
    LAUNCH(sum_values, parts, THREADS, o->stream, part, x, n, 1, 0, 1.0f);
    LAUNCH(sum_values, 1, THREADS, o->stream, sum, part, (size_t)parts, 0, 1, 1.0f);
    failed(o, "squares", cudaGetLastError());
}

static void cuda_adamw(struct ops *o, act *w, float *master, float *m1, float *m2, const float *gradient, size_t n,
                       const struct ops_adamw *a)
{
    float fix1 = 1 / (1 - powf(a->beta1, (float)a->t)), fix2 = 1 / (1 - powf(a->beta2, (float)a->t));
    struct ops_adamw how = *a;
    launch(o, "adamw", [=](auto t) {
        typedef decltype(t) T;
        LAUNCH(adamw_all<T>, blocks(n), THREADS, o->stream, (T *)w, master, m1, m2, gradient, n, how, fix1, fix2);
    });
}

extern "C" __attribute__((visibility("default"))) const struct ops_backend ops_cuda = {
    cuda_open, cuda_close, cuda_info,
    cuda_alloc, cuda_release, cuda_alloc_host, cuda_release_host, cuda_put, cuda_get, cuda_zero, cuda_wait, cuda_memory,
    cuda_order, cuda_mark, cuda_between,
    cuda_embed, cuda_embed_back, cuda_norm, cuda_norm_back, cuda_linear, cuda_linear_back, cuda_attend_with, cuda_attend, cuda_attend_back,
    cuda_loss, cuda_adamw, cuda_squares,
};
