/* ops_load - loads the GPU implementation of ops.h. It needs cuBLAS, which drover also finds in
 * folders that the loader does not search, and for bfloat16 it takes cuDNN if that is there. */
#include <dlfcn.h>
#include <stdio.h>

#include <drover.h>

#include "ops.h"

const struct ops_backend *ops_load(const char *path, char *why, size_t why_size)
{
    char missing[64], error[900];
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    snprintf(error, sizeof error, "%s", lib ? "no " OPS_CUDA_SYMBOL : dlerror());
    if (!lib && sscanf(error, "%63[^:/]: cannot open", missing) == 1) {
        if (drover_cuda_library(missing))
            lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        else
            snprintf(error, sizeof error, "%s", drover_error(NULL));
    }
    const struct ops_backend *b = lib ? dlsym(lib, OPS_CUDA_SYMBOL) : NULL;
    if (!b)
        snprintf(why, why_size, "built without CUDA, or not found: %s", error);
    void *(**load)(const char *) = b ? dlsym(lib, OPS_CUDA_LOAD_SYMBOL) : NULL;
    if (load)
        *load = drover_cuda_library;
    return b;
}
