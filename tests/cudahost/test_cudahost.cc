/* cudahost itself: what kernels are tested with is right. */
#include <cublasLt.h>
#include <cublas_v2.h>

#include "examples/kit/launch.h"
#include "tests/cudahost/kit_device.h"

typedef __nv_bfloat16 bf16;

/* ---- threads -------------------------------------------------------------------------------- */
__global__ void who(int *out)
{
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = (int)(block * 1000 + thread);
}

TEST(a_grid_has_three_dimensions)
{
    on_device<int> out(2 * 3 * 2 * 3 * 5 * 2);
    LAUNCH(who, dim3(2, 3, 2), dim3(3, 5, 2), kit_stream(), out);
    std::vector<int> got = out.get();
    for (int i = 0; i < (int)got.size(); i++)
        CHECK_INT(got[(size_t)i], i / 30 * 1000 + i % 30);
}

__global__ void warp_functions(int *out, int width)
{
    int lane = (int)threadIdx.x % 32, *mine = out + 8 * threadIdx.x;
    mine[0] = __shfl_sync(~0u, lane, 3, width);
    mine[1] = __shfl_xor_sync(~0u, lane, 5, width);
    mine[2] = __shfl_down_sync(~0u, lane, 2, width);
    mine[3] = __shfl_up_sync(~0u, lane, 2, width);
    mine[4] = (int)__ballot_sync(~0u, lane % 3 == 0);
    mine[5] = __any_sync(~0u, lane == 7);
    mine[6] = __all_sync(~0u, lane != 7);
    mine[7] = __all_sync(~0u, lane < 32);
}

TEST(warp_functions_do_what_the_manual_says)
{
    for (int width : {32, 8}) {
        on_device<int> out(64 * 8);
        LAUNCH(warp_functions, 1, 64, kit_stream(), out, width);
        std::vector<int> got = out.get();
        for (int i = 0; i < 64; i++) {
            int lane = i % 32, first = lane / width * width, *mine = &got[(size_t)(8 * i)];
            int down = lane + 2, up = lane - 2;
            CHECK_INT(mine[0], first + 3);
            CHECK_INT(mine[1], (lane ^ 5));
            CHECK_INT(mine[2], down < first + width ? down : lane);
            CHECK_INT(mine[3], up >= first ? up : lane);
            CHECK_INT((unsigned)mine[4], 0x49249249u);
            CHECK_INT(mine[5], 1);
            CHECK_INT(mine[6], 0);
            CHECK_INT(mine[7], 1);
        }
    }
}

__global__ void count(int *n, float *sum, unsigned *top)
{
    atomicAdd(n, 1);
    atomicAdd(sum, 0.5f);
    atomicMax(top, blockIdx.x * blockDim.x + threadIdx.x);
}

TEST(atomics_lose_nothing)
{
    on_device<int> n(std::vector<int>{5});
    on_device<float> sum(std::vector<float>{1});
    on_device<unsigned> top(std::vector<unsigned>{0});
    LAUNCH(count, 3, 33, kit_stream(), n, sum, top);
    CHECK_INT(n.get()[0], 5 + 99);
    CHECK_NEAR(sum.get()[0], 1 + 49.5, 0);
    CHECK_INT(top.get()[0], 98);
}

TEST(a_launch_that_no_device_accepts_is_an_error)
{
    on_device<int> n(1);
    LAUNCH(who, 1, 1025, kit_stream(), n);
    CHECK_INT(cudaGetLastError(), cudaErrorInvalidConfiguration);
    LAUNCH(who, 0, 32, kit_stream(), n);
    CHECK_INT(cudaGetLastError(), cudaErrorInvalidConfiguration);
    CHECK_INT(cudaGetLastError(), cudaSuccess);
}

/* ---- cuBLASLt ------------------------------------------------------------------------------- */
static double gelu(double z)
{
    return 0.5 * z * (1 + tanh(0.7978845608 * (z + 0.044715 * z * z * z)));
}

enum { M = 8, N = 5, K = 3 };
static float out_of[M * N], bias_of[M], aux_of[M * N];

/* d (M x N, by columns) = epilogue(a' b), a: K x M, b: K x N. */
static void multiply(cublasLtEpilogue_t epilogue, int order, const std::vector<float> &bias,
                     const std::vector<float> &aux)
{
    cublasLtHandle_t h;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t la, lb, ld;
    cublasOperation_t t = order == CUBLASLT_ORDER_ROW ? CUBLAS_OP_N : CUBLAS_OP_T;
    on_device<float> a(kit_floats(M * K, 3)), b(kit_floats(K * N, 4)), d(M * N), dbias(bias),
        daux(aux);
    float *bias_p = dbias, *aux_p = daux, one = 1, zero = 0;
    int64_t aux_ld = M;
    cublasLtCreate(&h);
    cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
    cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias_p, sizeof bias_p);
    cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux_p,
                                   sizeof aux_p);
    cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_ld,
                                   sizeof aux_ld);
    bool by_rows = order == CUBLASLT_ORDER_ROW; /* the same memory */
    cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, by_rows ? M : K, by_rows ? K : M, K);
    cublasLtMatrixLayoutSetAttribute(la, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, K, N, K);
    cublasLtMatrixLayoutCreate(&ld, CUDA_R_32F, M, N, M);
    CHECK_INT(
        cublasLtMatmul(h, op, &one, a, la, b, lb, &zero, d, ld, d, ld, NULL, NULL, 0, kit_stream()),
        CUBLAS_STATUS_SUCCESS);
    memcpy(out_of, d.get().data(), sizeof out_of);
    memcpy(bias_of, dbias.get().data(), sizeof bias_of);
    memcpy(aux_of, daux.get().data(), sizeof aux_of);
    cublasLtMatrixLayoutDestroy(la);
    cublasLtMatrixLayoutDestroy(lb);
    cublasLtMatrixLayoutDestroy(ld);
    cublasLtMatmulDescDestroy(op);
    cublasLtDestroy(h);
}

static double entry(int i, int j)
{
    static const std::vector<float> a = kit_floats(M * K, 3), b = kit_floats(K * N, 4);
    double sum = 0;
    for (int k = 0; k < K; k++)
        sum += (double)a[(size_t)(i * K + k)] * (double)b[(size_t)(j * K + k)];
    return sum;
}

TEST(a_product_has_the_bias_and_the_activation_of_its_epilogue)
{
    std::vector<float> bias = kit_floats(M, 7), aux(M * N, 0);
    for (int order : {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW})
        for (auto e : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                       CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
            multiply(e, order, bias, aux);
            for (int j = 0; j < N; j++)
                for (int i = 0; i < M; i++) {
                    double z = entry(i, j) + (e & CUBLASLT_EPILOGUE_BIAS ? bias[(size_t)i] : 0);
                    CHECK_NEAR(out_of[j * M + i], e & CUBLASLT_EPILOGUE_GELU ? gelu(z) : z, 1e-5);
                    CHECK_NEAR(aux_of[j * M + i], e & CUBLASLT_EPILOGUE_GELU ? z : 0, 1e-5);
                }
        }
}

TEST(a_gradient_passes_the_activation_and_sums_the_bias)
{
    std::vector<float> aux = kit_floats(M * N, 8);
    multiply(CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_ORDER_COL, std::vector<float>(M, 0), aux);
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) {
            double z = aux[(size_t)(j * M + i)], h = 1e-5;
            double want = entry(i, j) * (gelu(z + h) - gelu(z - h)) / (2 * h);
            CHECK_NEAR(out_of[j * M + i], want, 1e-5);
            sum += want;
        }
        CHECK_NEAR(bias_of[i], sum, 1e-5);
    }
    std::vector<float> b = kit_floats(K * N, 4);
    multiply(CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_ORDER_COL, std::vector<float>(M, 0), aux);
    for (int j = 0; j < N; j++)
        CHECK_NEAR(bias_of[j], b[(size_t)(j * K)] + b[(size_t)(j * K + 1)] + b[(size_t)(j * K + 2)],
                   1e-5);
}

TEST(bfloat16_is_summed_in_float_and_rounded_once)
{
    std::vector<bf16> x(300, __float2bfloat16(1)), y(300, __float2bfloat16(1.0078125f));
    on_device<bf16> a(x), b(y), c(1);
    cublasHandle_t h;
    float one = 1, zero = 0;
    cublasCreate(&h);
    cublasSetStream(h, kit_stream());
    CHECK_INT(cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 300, &one, a, CUDA_R_16BF, 300, b,
                           CUDA_R_16BF, 300, &zero, c, CUDA_R_16BF, 1, CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    CHECK_NEAR(__bfloat162float(c.get()[0]), 302, 0); /* 302.34; in bfloat16 the sum ends at 256 */
    CHECK_INT(cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 5, 1, 1, &one, a, CUDA_R_16BF, 4, b,
                           CUDA_R_16BF, 1, &zero, c, CUDA_R_16BF, 5, CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_INVALID_VALUE);
    cublasDestroy(h);
}

/* ---- the runtime ---------------------------------------------------------------------------- */
TEST(memory_has_a_limit_and_copies_have_a_direction)
{
    setenv("FAKE_GPU_MEMORY", "1000", 1);
    float *p, *q, host[4] = {0};
    size_t free_bytes, total;
    CHECK_INT(cudaMalloc((void **)&p, 1001), cudaErrorMemoryAllocation);
    CHECK_INT(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMalloc((void **)&p, 600));
    CHECK_INT(cudaMalloc((void **)&q, 600), cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    CHECK_INT(free_bytes, 400);
    CHECK_INT(total, 1000);
    CHECK_CUDA(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK_INT(cudaMemcpy(host, p, sizeof host, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    CHECK_INT(cudaMemcpy(p, host, 601, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    CHECK_INT(cudaMemset(host, 0, sizeof host), cudaErrorInvalidValue);
    CHECK_CUDA(cudaFree(p));
}

TEST(time_between_events_is_known_when_the_host_has_waited)
{
    cudaEvent_t a, b;
    float ms = -1;
    CHECK_CUDA(cudaEventCreate(&a));
    CHECK_CUDA(cudaEventCreate(&b));
    CHECK_INT(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaEventRecord(a, kit_stream()));
    CHECK_CUDA(cudaEventRecord(b, kit_stream()));
    CHECK_INT(cudaEventElapsedTime(&ms, a, b), cudaErrorNotReady);
    CHECK_CUDA(cudaEventSynchronize(b));
    CHECK_CUDA(cudaEventElapsedTime(&ms, a, b));
    CHECK(ms >= 0);
    CHECK_CUDA(cudaEventDestroy(a));
    CHECK_CUDA(cudaEventDestroy(b));
}

TEST(there_are_as_many_devices_as_the_environment_says)
{
    int n;
    setenv("FAKE_GPUS", "2", 1);
    CHECK_CUDA(cudaGetDeviceCount(&n));
    CHECK_INT(n, 2);
    CHECK_CUDA(cudaSetDevice(1));
    CHECK_INT(cudaSetDevice(2), cudaErrorInvalidDevice);
    setenv("FAKE_GPUS", "0", 1);
    CHECK_INT(cudaGetDeviceCount(&n), cudaErrorNoDevice);
}
