#include "collectives/bench/local/cuda_libs.h"

#include "collectives/comm/cuda_loader.h"

#define VERSIONS "CUDA 12 or newer"

int cuda_libs_open_runtime(const struct cuda_libs_runtime **out, struct err *e)
{
#define AT(name) offsetof(struct cuda_libs_runtime, name)
#define SYMBOL(name, arguments) {#name, AT(name), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {
        {"cudaGetErrorString", AT(cudaGetErrorString), DL_REQUIRED},
        {"cudaGetDeviceProperties_v2", AT(cudaGetDeviceProperties), DL_OPTIONAL}, /* CUDA 12 */
        {"cudaGetDeviceProperties", AT(cudaGetDeviceProperties), DL_OPTIONAL},
        CUDA_LIBS_RUNTIME(SYMBOL)};
#undef SYMBOL
#undef AT
    static const struct dl_library library = {CUDA_LOADER_RUNTIME, .hint = VERSIONS,
                                              DL_SYMBOLS(symbols)};
    static struct cuda_libs_runtime table;
    int rc = table.cudaMalloc ? 0 : cuda_loader_load(&table, &library, e);
    if (rc == 0)
        *out = &table;
    return rc;
}

int cuda_libs_open_blas(const struct cuda_libs_blas **out, struct err *e)
{
#define AT(name) offsetof(struct cuda_libs_blas, name)
#define SYMBOL(name, arguments) {#name, AT(name), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {
        {"cublasLtGetStatusString", AT(cublasLtGetStatusString), DL_REQUIRED},
        CUDA_LIBS_BLAS(SYMBOL)};
#undef SYMBOL
#undef AT
    static const struct dl_library library = {
        .names = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
        .variable = "DROVER_CUBLASLT_LIB",
        .hint = VERSIONS,
        DL_SYMBOLS(symbols)};
    static struct cuda_libs_blas table;
    int rc = table.cublasLtMatmul ? 0 : cuda_loader_load(&table, &library, e);
    if (rc == 0)
        *out = &table;
    return rc;
}
