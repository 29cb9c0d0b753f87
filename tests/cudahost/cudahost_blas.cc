/* cudahost_blas - cuBLAS and cuBLASLt by OpenBLAS: products of float, half and bfloat16 with sums in
 * float. The detectors see which columns of which matrices a call reads and writes. */
#include "cudahost_internal.h"

#include <cblas.h>
#undef I /* of complex.h */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <vector>

/* rows x columns elements; element (i, j) is at j * ld + i, or with by_rows at i * ld + j. */
struct matrix {
    const void *p;
    cudaDataType type;
    size_t rows, columns, ld;
    bool by_rows;
};
/* d = epilogue(alpha op(a) op(b) + beta c) */
struct product {
    const char *what;
    void *pc;
    float alpha, beta;
    bool ta, tb;
    matrix a, b, c, d;
    unsigned epilogue;
    matrix bias, aux; /* aux has the type of d */
};

/* ---- matrices ------------------------------------------------------------------------------- */
static size_t bytes_of(cudaDataType t)
{
    return t == CUDA_R_16BF || t == CUDA_R_16F ? 2 : 4;
}

static memory_matrix range_of(matrix m)
{
    return {m.p, bytes_of(m.type), m.by_rows ? m.columns : m.rows, m.by_rows ? m.rows : m.columns,
            m.ld};
}

static size_t position(const matrix &m, size_t i, size_t j)
{
    return m.by_rows ? i * m.ld + j : j * m.ld + i;
}

static float get(const matrix &m, size_t i, size_t j)
{
    size_t at = position(m, i, j);
    return m.type == CUDA_R_16BF  ? __bfloat162float(((const __nv_bfloat16 *)m.p)[at])
           : m.type == CUDA_R_16F ? __half2float(((const __half *)m.p)[at])
                                  : ((const float *)m.p)[at];
}

/* Returns the value as it is stored. */
static float put(const matrix &m, size_t i, size_t j, float v)
{
    size_t at = position(m, i, j);
    if (m.type == CUDA_R_16BF) {
        ((__nv_bfloat16 *)m.p)[at] = __float2bfloat16(v);
        return __bfloat162float(((__nv_bfloat16 *)m.p)[at]);
    }
    if (m.type == CUDA_R_16F) {
        ((__half *)m.p)[at] = __float2half(v);
        return __half2float(((__half *)m.p)[at]);
    }
    return ((float *)m.p)[at] = v;
}

/* Returns m as floats, column by column. */
static std::vector<float> floats(const matrix &m)
{
    std::vector<float> out(m.rows * m.columns);
    for (size_t j = 0; j < m.columns; j++)
        for (size_t i = 0; i < m.rows; i++)
            out[j * m.rows + i] = get(m, i, j);
    return out;
}

/* ---- epilogues ------------------------------------------------------------------------------ */
/* GELU in its tanh form, as cuBLASLt has it. */
static float gelu(float z)
{
    return 0.5f * z * (1 + tanhf(0.7978845608f * (z + 0.044715f * z * z * z)));
}

static float gelu_slope(float z)
{
    float t = tanhf(0.7978845608f * (z + 0.044715f * z * z * z));
    return 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * z * z);
}

static bool has(const product &p, unsigned epilogue)
{
    return (p.epilogue & epilogue) == epilogue;
}

/* The sums of the rows of op(a), or of the columns of op(b). */
static void sum_operand(const product &p)
{
    bool of_a = has(p, CUBLASLT_EPILOGUE_BGRADA);
    const matrix &m = of_a ? p.a : p.b;
    bool over_columns = of_a != (of_a ? p.ta : p.tb); /* each sum goes over a row as it is stored */
    for (size_t n = 0; n < (over_columns ? m.rows : m.columns); n++) {
        float sum = 0;
        for (size_t k = 0; k < (over_columns ? m.columns : m.rows); k++)
            sum += over_columns ? get(m, n, k) : get(m, k, n);
        put(p.bias, n, 0, sum);
    }
}

static void finish(const product &p, std::vector<float> &d)
{
    bool adds = p.epilogue != CUBLASLT_EPILOGUE_DEFAULT && has(p, CUBLASLT_EPILOGUE_BIAS);
    bool slope = has(p, CUBLASLT_EPILOGUE_DGELU);
    bool sums = has(p, CUBLASLT_EPILOGUE_DGELU_BGRAD);
    for (size_t i = 0; i < p.d.rows; i++) {
        float sum = 0;
        for (size_t j = 0; j < p.d.columns; j++) {
            float v = d[j * p.d.rows + i] + (adds ? get(p.bias, i, 0) : 0);
            if (has(p, CUBLASLT_EPILOGUE_GELU_AUX))
                put(p.aux, i, j, v);
            if (has(p, CUBLASLT_EPILOGUE_GELU))
                v = gelu(v);
            if (slope)
                v *= gelu_slope(get(p.aux, i, j));
            put(p.d, i, j, v);
            sum += v;
        }
        if (sums)
            put(p.bias, i, 0, sum);
    }
    if (has(p, CUBLASLT_EPILOGUE_BGRADA) || has(p, CUBLASLT_EPILOGUE_BGRADB))
        sum_operand(p);
}

/* ---- a product ------------------------------------------------------------------------------ */
static void tell_detectors(const product &p)
{
    memory_reads(p.pc, p.what, range_of(p.a));
    memory_reads(p.pc, p.what, range_of(p.b));
    if (p.beta != 0)
        memory_reads(p.pc, p.what, range_of(p.c));
    memory_writes(p.pc, p.what, range_of(p.d));
    if (p.bias.p && p.epilogue & CUBLASLT_EPILOGUE_BIAS)
        memory_reads(p.pc, p.what, range_of(p.bias));
    else if (p.bias.p)
        memory_writes(p.pc, p.what, range_of(p.bias));
    if (p.aux.p && has(p, CUBLASLT_EPILOGUE_DGELU))
        memory_reads(p.pc, p.what, range_of(p.aux));
    else if (p.aux.p)
        memory_writes(p.pc, p.what, range_of(p.aux));
}

static void multiply(const product &p)
{
    tell_detectors(p);
    std::vector<float> a = floats(p.a), b = floats(p.b);
    std::vector<float> d = p.beta != 0 ? floats(p.c) : std::vector<float>(p.d.rows * p.d.columns);
    blasint inner = (blasint)(p.ta ? p.a.rows : p.a.columns);
    cblas_sgemm(CblasColMajor, p.ta ? CblasTrans : CblasNoTrans, p.tb ? CblasTrans : CblasNoTrans,
                (blasint)p.d.rows, (blasint)p.d.columns, inner, p.alpha, a.data(),
                (blasint)p.a.rows, b.data(), (blasint)p.b.rows, p.beta, d.data(),
                (blasint)p.d.rows);
    finish(p, d);
}

static bool is_known(cudaDataType t)
{
    return t == CUDA_R_32F || t == CUDA_R_16BF || t == CUDA_R_16F;
}

/* The shapes agree, and each leading dimension is at least the length of what it separates. */
static bool is_valid(const product &p)
{
    for (const matrix *m : {&p.a, &p.b, &p.d})
        if (!is_known(m->type) || m->ld < (m->by_rows ? m->columns : m->rows) || m->rows == 0 ||
            m->columns == 0)
            return false;
    return (p.ta ? p.a.columns : p.a.rows) == p.d.rows &&
           (p.tb ? p.b.rows : p.b.columns) == p.d.columns &&
           (p.ta ? p.a.rows : p.a.columns) == (p.tb ? p.b.columns : p.b.rows);
}

static cublasStatus_t start(cudaStream_t s, const product &p)
{
    if (!is_valid(p))
        return CUBLAS_STATUS_INVALID_VALUE;
    stream_do(s, p.pc, [=] { multiply(p); });
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuBLAS --------------------------------------------------------------------------------- */
struct cublasContext {
    cudaStream_t stream;
};

/* The arguments of cublasGemmEx(), as matrices. */
static product plain(void *pc, const char *what, cublasOperation_t ta, cublasOperation_t tb, int m,
                     int n, int k, matrix a, matrix b, matrix c)
{
    product p = {};
    p.what = what;
    p.pc = pc;
    p.ta = ta != CUBLAS_OP_N;
    p.tb = tb != CUBLAS_OP_N;
    p.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    a.rows = (size_t)(p.ta ? k : m);
    a.columns = (size_t)(p.ta ? m : k);
    b.rows = (size_t)(p.tb ? n : k);
    b.columns = (size_t)(p.tb ? k : n);
    c.rows = (size_t)m;
    c.columns = (size_t)n;
    p.a = a;
    p.b = b;
    p.c = p.d = c;
    return p;
}

static matrix of(const void *p, cudaDataType t, int ld)
{
    return {p, t, 0, 0, (size_t)ld, false};
}

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    *out = (cublasHandle_t)calloc(1, sizeof **out);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s)
{
    h->stream = s;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS         ? "success"
           : s == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value"
                                              : "not supported by cudahost";
}
cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                              int n, int k, const float *alpha, const float *a, int lda,
                              const float *b, int ldb, const float *beta, float *c, int ldc)
{
    product p = plain(CALLER, "cublasSgemm", ta, tb, m, n, k, of(a, CUDA_R_32F, lda),
                      of(b, CUDA_R_32F, ldb), of(c, CUDA_R_32F, ldc));
    p.alpha = *alpha;
    p.beta = *beta;
    return start(h->stream, p);
}
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType ta_type,
                            int lda, const void *b, cudaDataType tb_type, int ldb, const void *beta,
                            void *c, cudaDataType tc_type, int ldc, cublasComputeType_t,
                            cublasGemmAlgo_t)
{
    product p = plain(CALLER, "cublasGemmEx", ta, tb, m, n, k, of(a, ta_type, lda),
                      of(b, tb_type, ldb), of(c, tc_type, ldc));
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    return start(h->stream, p);
}

/* ---- cuBLASLt ------------------------------------------------------------------------------- */
cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = (cublasLtHandle_t)calloc(1, 1);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return cublasGetStatusString(s);
}
}

/* What the opaque descriptors hold. */
struct operation {
    int32_t ta, tb, bias_type;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t aux_ld;
};
struct layout {
    int32_t type, order;
    uint64_t rows, columns;
    int64_t ld;
};
static_assert(sizeof(operation) <= sizeof(cublasLtMatmulDescOpaque_t) &&
                  sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t),
              "the descriptors have room");

template <typename T> static cublasStatus_t set(T *to, const void *from, size_t bytes)
{
    if (bytes != sizeof *to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" {
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t, cudaDataType t,
                                                 uint64_t rows, uint64_t columns, int64_t ld)
{
    *(layout *)l = {(int32_t)t, CUBLASLT_ORDER_COL, rows, columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType t,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    *out = (cublasLtMatrixLayout_t)calloc(1, sizeof **out);
    return cublasLtMatrixLayoutInit_internal(*out, sizeof **out, t, rows, columns, ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, const void *v,
                                                size_t bytes)
{
    return a == CUBLASLT_MATRIX_LAYOUT_ORDER ? set(&((layout *)l)->order, v, bytes)
                                             : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t, cublasComputeType_t,
                                               cudaDataType_t)
{
    *(operation *)d = {CUBLAS_OP_N, CUBLAS_OP_N, -1, CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL, 0};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t c,
                                        cudaDataType_t t)
{
    *out = (cublasLtMatmulDesc_t)calloc(1, sizeof **out);
    return cublasLtMatmulDescInit_internal(*out, sizeof **out, c, t);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *v,
                                              size_t bytes)
{
    operation *o = (operation *)d;
    switch (a) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&o->ta, v, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&o->tb, v, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&o->epilogue, v, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&o->bias, v, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return set(&o->bias_type, v, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return set(&o->aux, v, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return set(&o->aux_ld, v, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t, size_t)
{
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = (cublasLtMatmulPreference_t)calloc(1, sizeof **out);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t)
{
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    *found = wanted > 0;
    if (*found)
        memset(&results[0], 0, sizeof results[0]);
    return CUBLAS_STATUS_SUCCESS;
}
}

static matrix of_layout(const void *p, cublasLtMatrixLayout_t desc)
{
    const layout *l = (const layout *)desc;
    return {p,          (cudaDataType)l->type, l->rows,
            l->columns, (size_t)l->ld,         l->order == CUBLASLT_ORDER_ROW};
}

/* cuBLASLt demands of aux that its leading dimension is a multiple of 8, of products in bfloat16
 * that each row or column begins at a multiple of 16 bytes. */
static bool is_supported(const product &p)
{
    const unsigned known = CUBLASLT_EPILOGUE_GELU_AUX_BIAS | CUBLASLT_EPILOGUE_DGELU_BGRAD |
                           CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB |
                           CUBLASLT_EPILOGUE_DEFAULT;
    return !(p.epilogue & ~known) && (!p.aux.p || p.aux.ld % 8 == 0) &&
           !p.d.by_rows == !p.c.by_rows;
}

static bool set_epilogue(product *p, const operation *o)
{
    size_t length = has(*p, CUBLASLT_EPILOGUE_BGRADB) ? p->d.columns : p->d.rows;
    bool needs_bias = p->epilogue & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA |
                                     CUBLASLT_EPILOGUE_BGRADB);
    bool needs_aux = p->epilogue & 128;
    cudaDataType type = o->bias_type < 0 ? p->d.type : (cudaDataType)o->bias_type;
    if (needs_bias)
        p->bias = {o->bias, type, length, 1, length, false};
    if (needs_aux)
        p->aux = {o->aux, p->d.type, p->d.rows, p->d.columns, (size_t)o->aux_ld, false};
    return (!needs_bias || o->bias) && (!needs_aux || (o->aux && p->aux.ld >= p->d.rows));
}

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                         const void *alpha, const void *a,
                                         cublasLtMatrixLayout_t la, const void *b,
                                         cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                         cublasLtMatrixLayout_t lc, void *d,
                                         cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *,
                                         void *, size_t, cudaStream_t stream)
{
    const operation *o = (const operation *)desc;
    product p = {};
    p.what = "cublasLtMatmul";
    p.pc = CALLER;
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    p.ta = o->ta != CUBLAS_OP_N;
    p.tb = o->tb != CUBLAS_OP_N;
    p.a = of_layout(a, la);
    p.b = of_layout(b, lb);
    p.c = of_layout(c, lc);
    p.d = of_layout(d, ld);
    p.epilogue = o->epilogue;
    if (!set_epilogue(&p, o))
        return CUBLAS_STATUS_INVALID_VALUE;
    return is_supported(p) ? start(stream, p) : CUBLAS_STATUS_NOT_SUPPORTED;
}
