#include "collectives/bench/local/cuda_libs.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "collectives/comm/cuda_loader.h"
#include "common/mem.h"

#define VERSIONS "CUDA 12 or newer"

int cuda_libs_open_runtime(const struct cuda_libs_runtime **out, struct err *e)
{
#define ENTRY(name, arguments) {#name, offsetof(struct cuda_libs_runtime, name)},
    static const struct cuda_loader_entry entries[] = {CUDA_LIBS_RUNTIME(ENTRY){
        "cudaGetErrorString", offsetof(struct cuda_libs_runtime, cudaGetErrorString)}};
#undef ENTRY
    static struct cuda_libs_runtime table;
    static bool loaded;
    if (!loaded) {
        void *lib = NULL, *call = NULL;
        int rc = cuda_loader_open_runtime(&lib, &call, e);
        if (rc == 0)
            rc = cuda_loader_fill(&table, lib, entries, COUNT_OF(entries), VERSIONS, e);
        if (rc < 0)
            return rc;
        memcpy(&table.cudaGetDeviceProperties, &call, sizeof call);
        loaded = true;
    }
    *out = &table;
    return 0;
}

int cuda_libs_open_blas(const struct cuda_libs_blas **out, struct err *e)
{
#define ENTRY(name, arguments) {#name, offsetof(struct cuda_libs_blas, name)},
    static const struct cuda_loader_entry entries[] = {CUDA_LIBS_BLAS(ENTRY){
        "cublasLtGetStatusString", offsetof(struct cuda_libs_blas, cublasLtGetStatusString)}};
#undef ENTRY
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                        NULL};
    static struct cuda_libs_blas table;
    static bool loaded;
    if (!loaded) {
        void *lib = NULL;
        int rc = cuda_loader_open(&lib, names, "DROVER_CUBLASLT_LIB", e);
        if (rc == 0)
            rc = cuda_loader_fill(&table, lib, entries, COUNT_OF(entries), VERSIONS, e);
        if (rc < 0)
            return rc;
        loaded = true;
    }
    *out = &table;
    return 0;
}
