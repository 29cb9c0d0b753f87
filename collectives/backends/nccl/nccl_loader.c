#include "collectives/backends/nccl/nccl_loader.h"

#include <errno.h>
#include <string.h>

#include "collectives/comm/cuda_loader.h"
#include "common/log.h"

#define VERSIONS "NCCL 2.19 and CUDA 12, or newer"

int nccl_loader_open_nccl(const struct nccl_lib **out, const char *path, struct err *e)
{
#define AT(call) offsetof(struct nccl_lib, call)
#define SYMBOL(call) {#call, AT(call), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {
        {"ncclCommInitRankScalable", AT(init_scalable), DL_OPTIONAL},
        {"ncclCommShrink", AT(shrink), DL_OPTIONAL},
        {"ncclCommRevoke", AT(revoke), DL_OPTIONAL},
        {"ncclCommWindowRegister", AT(window), DL_OPTIONAL},
        {"ncclCommWindowDeregister", AT(window_free), DL_OPTIONAL},
        {"ncclAlltoAll", AT(all_to_all), DL_OPTIONAL},
        {"ncclGather", AT(gather), DL_OPTIONAL},
        {"ncclScatter", AT(scatter), DL_OPTIONAL},
        NCCL_CALLS(SYMBOL)};
#undef SYMBOL
#undef AT
    static struct nccl_lib table;
    struct dl_library library = {.names = {"libnccl.so.2"},
                                 .variable = "DROVER_NCCL_LIB",
                                 .hint = VERSIONS,
                                 DL_SYMBOLS(symbols)};
    int rc = 0;
    if (path && *path && table.ncclAllReduce) {
        log_debug("another libnccl is already loaded; '%s' is not", path);
    } else if (path && *path) {
        library.names[0] = path;
        library.variable = NULL;
        rc = dl_load(&table, NULL, &library, e);
    } else if (!table.ncclAllReduce) {
        rc = cuda_loader_load(&table, &library, e);
    }
    if (rc == 0)
        *out = &table;
    return rc;
}

int nccl_loader_open_cuda(const struct cuda_lib **out, struct err *e)
{
#define AT(call) offsetof(struct cuda_lib, call)
#define SYMBOL(call) {#call, AT(call), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {
        {"cudaGetDeviceProperties_v2", AT(get_properties), DL_OPTIONAL}, /* CUDA 12 */
        {"cudaGetDeviceProperties", AT(get_properties), DL_OPTIONAL},
        {"cudaHostAlloc", AT(host_alloc), DL_OPTIONAL},
        {"cudaFreeHost", AT(host_free), DL_OPTIONAL},
        CUDA_CALLS(SYMBOL)};
#undef SYMBOL
#undef AT
    static const struct dl_library library = {CUDA_LOADER_RUNTIME, .hint = VERSIONS,
                                              DL_SYMBOLS(symbols)};
    static struct cuda_lib table;
    int rc = table.cudaMalloc ? 0 : cuda_loader_load(&table, &library, e);
    if (rc == 0)
        *out = &table;
    return rc;
}

int nccl_loader_cuda(struct err *e, const struct cuda_lib *cuda, cudaError_t rc, const char *what)
{
    if (rc == cudaSuccess)
        return 0;
    int code = rc == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
    return err_set(e, code, "CUDA: %s: %s", what, cuda->cudaGetErrorString(rc));
}

/* Uses the text of ncclGetLastError() if there is one, since it is more specific. */
int nccl_loader_nccl(struct err *e, const struct nccl_lib *nccl, ncclResult_t rc, const char *what)
{
    if (rc == ncclSuccess)
        return 0;
    const char *last = nccl->ncclGetLastError(NULL);
    int code = rc == ncclInvalidArgument || rc == ncclInvalidUsage ? -EINVAL
               : rc == ncclRemoteError                             ? -ECONNRESET
                                                                   : -EIO;
    err_set(e, code, "NCCL: %s: %s%s%s", what, nccl->ncclGetErrorString(rc),
            last && *last ? ": " : "", last ? last : "");
    if (e)
        e->text[strcspn(e->text, "\n")] = '\0';
    return err_hint(e, "NCCL_DEBUG=INFO for details");
}
