#include "collectives/backends/nccl/nccl_loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "collectives/comm/cuda_loader.h"
#include "common/log.h"
#include "common/mem.h"

#define VERSIONS "NCCL 2.19 and CUDA 12, or newer"

/* Opens the library `path`, or searches for NCCL if `path` is NULL. */
static int open_nccl(void **out, const char *path, struct err *e)
{
    static const char *const names[] = {"libnccl.so.2", NULL};
    if (!path || !*path)
        return cuda_loader_open(out, names, "DROVER_NCCL_LIB", e);
    *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return *out ? 0 : err_set(e, -ENOENT, "%s", dlerror());
}

static void fill_optional(struct nccl_lib *table, void *lib)
{
    static const struct cuda_loader_entry entries[] = {
        {"ncclCommInitRankScalable", offsetof(struct nccl_lib, init_scalable)},
        {"ncclCommShrink", offsetof(struct nccl_lib, shrink)},
        {"ncclCommRevoke", offsetof(struct nccl_lib, revoke)},
        {"ncclCommWindowRegister", offsetof(struct nccl_lib, window)},
        {"ncclCommWindowDeregister", offsetof(struct nccl_lib, window_free)},
        {"ncclAlltoAll", offsetof(struct nccl_lib, all_to_all)},
        {"ncclGather", offsetof(struct nccl_lib, gather)},
        {"ncclScatter", offsetof(struct nccl_lib, scatter)},
    };
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        void *call = dlsym(lib, entries[i].name);
        memcpy((char *)table + entries[i].offset, &call, sizeof call);
    }
}

int nccl_loader_open_nccl(const struct nccl_lib **out, const char *path, struct err *e)
{
#define ENTRY(call) {#call, offsetof(struct nccl_lib, call)},
    static const struct cuda_loader_entry entries[] = {NCCL_CALLS(ENTRY)};
#undef ENTRY
    static struct nccl_lib table;
    static bool loaded;
    if (!loaded) {
        void *lib = NULL;
        int rc = open_nccl(&lib, path, e);
        if (rc == 0)
            rc = cuda_loader_fill(&table, lib, entries, COUNT_OF(entries), VERSIONS, e);
        if (rc < 0)
            return rc;
        fill_optional(&table, lib);
        loaded = true;
    } else if (path && *path) {
        log_debug("another libnccl is already loaded; '%s' is not", path);
    }
    *out = &table;
    return 0;
}

int nccl_loader_open_cuda(const struct cuda_lib **out, struct err *e)
{
#define ENTRY(call) {#call, offsetof(struct cuda_lib, call)},
    static const struct cuda_loader_entry entries[] = {CUDA_CALLS(ENTRY)};
#undef ENTRY
    static struct cuda_lib table;
    static bool loaded;
    if (!loaded) {
        void *lib = NULL, *call = NULL;
        int rc = cuda_loader_open_runtime(&lib, &call, e);
        if (rc == 0)
            rc = cuda_loader_fill(&table, lib, entries, COUNT_OF(entries), VERSIONS, e);
        if (rc < 0)
            return rc;
        memcpy(&table.get_properties, &call, sizeof call);
        call = dlsym(lib, "cudaHostAlloc");
        memcpy(&table.host_alloc, &call, sizeof call);
        call = dlsym(lib, "cudaFreeHost");
        memcpy(&table.host_free, &call, sizeof call);
        loaded = true;
    }
    *out = &table;
    return 0;
}

int nccl_loader_cuda_failed(struct err *e, const struct cuda_lib *cuda, cudaError_t rc,
                            const char *what)
{
    int code = rc == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
    return err_set(e, code, "CUDA: %s: %s", what, cuda->cudaGetErrorString(rc));
}

/* Uses the text of ncclGetLastError() if there is one, since it is more specific. */
int nccl_loader_nccl_failed(struct err *e, const struct nccl_lib *nccl, ncclResult_t rc,
                            const char *what)
{
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
