#include "collectives/nccl/nccl_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"

/* What to try, in this order. */
struct search {
    const char *variable;   /* names one file */
    const char *names[4];   /* for the loader */
    const char *folders[6]; /* below a Python's packages, and CUDA_HOME: patterns */
};

static const struct search nccl_search = {
    "DROVER_NCCL_LIB", {"libnccl.so.2", NULL}, {"nvidia/nccl/lib/libnccl.so.2", NULL}};
static const struct search cuda_search = {
    "DROVER_CUDART_LIB",
    {"libcudart.so.13", "libcudart.so.12", "libcudart.so", NULL},
    {"nvidia/cu13/lib/libcudart.so.1[0-9]", "nvidia/cuda_runtime/lib/libcudart.so.1[0-9]", NULL}};

static void *open_pattern(const char *pattern)
{
    glob_t found = {0};
    void *lib = NULL;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i > 0 && !lib; i--) /* the highest version first */
            lib = dlopen(found.gl_pathv[i - 1], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return lib;
}

static void *open_in_cuda_home(const struct search *s)
{
    const char *home = getenv("CUDA_HOME");
    const char *const homes[] = {home && *home ? home : "/usr/local/cuda", "/usr/local/cuda"};
    static const char *const below[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
    void *lib = NULL;
    for (size_t h = 0; h < COUNT_OF(homes) && !lib; h++)
        for (size_t b = 0; b < COUNT_OF(below) && !lib; b++)
            for (size_t n = 0; s->names[n] && !lib; n++) {
                AUTO(free) char *path = xasprintf("%s/%s/%s", homes[h], below[b], s->names[n]);
                lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            }
    return lib;
}

/* NVIDIA's wheels, in the active environment or the user's or the system's packages. */
static void *open_in_python(const struct search *s)
{
    static const struct {
        const char *variable, *packages;
    } places[] = {
        {"VIRTUAL_ENV", "lib/python3*/site-packages"},
        {"CONDA_PREFIX", "lib/python3*/site-packages"},
        {"HOME", ".local/lib/python3*/site-packages"},
        {NULL, "usr/local/lib/python3*/*-packages"},
    };
    void *lib = NULL;
    for (size_t p = 0; p < COUNT_OF(places) && !lib; p++)
        for (size_t f = 0; s->folders[f] && !lib; f++) {
            const char *root = places[p].variable ? getenv(places[p].variable) : "";
            if (!root)
                continue;
            AUTO(free)
            char *pattern = xasprintf("%s/%s/%s", root, places[p].packages, s->folders[f]);
            lib = open_pattern(pattern);
        }
    return lib;
}

static int open_library(void **out, const struct search *s, const char *path, struct err *e)
{
    if (!path || !*path)
        path = getenv(s->variable);
    if (path && *path) { /* a choice is not overruled */
        *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        return *out ? 0 : err_set(e, -ENOENT, "%s", dlerror());
    }
    void *lib = NULL;
    for (int i = 0; s->names[i] && !lib; i++) /* a program that has one must get no second one */
        lib = dlopen(s->names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (int i = 0; s->names[i] && !lib; i++)
        lib = dlopen(s->names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = open_in_cuda_home(s);
    if (!lib)
        lib = open_in_python(s);
    if (!lib) {
        err_set(e, -ENOENT, "no %s was found", s->names[0]);
        return err_hint(e, "set %s to the file, or put its folder into LD_LIBRARY_PATH",
                        s->variable);
    }
    *out = lib;
    return 0;
}

struct entry {
    const char *name;
    size_t offset;
};

static int fill(void *table, void *lib, const struct entry *entries, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        void *call = dlsym(lib, entries[i].name);
        if (!call) {
            err_set(e, -ELIBBAD, "%s", dlerror());
            return err_hint(e, "NCCL 2.19 and CUDA 12 are the oldest that do");
        }
        memcpy((char *)table + entries[i].offset, &call, sizeof call);
    }
    return 0;
}

static void fill_younger(struct nccl_lib *table, void *lib)
{
    static const struct entry entries[] = {
        {"ncclCommInitRankScalable", offsetof(struct nccl_lib, init_scalable)},
        {"ncclCommShrink", offsetof(struct nccl_lib, shrink)},
        {"ncclCommRevoke", offsetof(struct nccl_lib, revoke)},
        {"ncclAlltoAll", offsetof(struct nccl_lib, all_to_all)},
        {"ncclGather", offsetof(struct nccl_lib, gather)},
        {"ncclScatter", offsetof(struct nccl_lib, scatter)},
    };
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        void *call = dlsym(lib, entries[i].name);
        memcpy((char *)table + entries[i].offset, &call, sizeof call);
    }
}

int nccl_lib_load(const struct nccl_lib **out, const char *path, struct err *e)
{
#define ENTRY(call) {#call, offsetof(struct nccl_lib, call)},
    static const struct entry entries[] = {NCCL_CALLS(ENTRY)};
#undef ENTRY
    static struct nccl_lib table;
    static bool loaded;
    if (!loaded) {
        void *lib = NULL;
        int rc = open_library(&lib, &nccl_search, path, e);
        if (rc == 0)
            rc = fill(&table, lib, entries, COUNT_OF(entries), e);
        if (rc < 0)
            return rc;
        fill_younger(&table, lib);
        loaded = true;
    } else if (path && *path) {
        log_debug("a libnccl is loaded already; '%s' is not", path);
    }
    *out = &table;
    return 0;
}

int cuda_lib_load(const struct cuda_lib **out, struct err *e)
{
#define ENTRY(call) {#call, offsetof(struct cuda_lib, call)},
    static const struct entry entries[] = {CUDA_CALLS(ENTRY)};
#undef ENTRY
    static struct cuda_lib table;
    static bool loaded;
    if (!loaded) {
        void *lib = NULL;
        int rc = open_library(&lib, &cuda_search, NULL, e);
        if (rc == 0)
            rc = fill(&table, lib, entries, COUNT_OF(entries), e);
        if (rc < 0)
            return rc;
        void *call = dlsym(lib, "cudaGetDeviceProperties_v2"); /* CUDA 12's name for it */
        if (!call)
            call = dlsym(lib, "cudaGetDeviceProperties");
        memcpy(&table.get_properties, &call, sizeof call);
        loaded = true;
    }
    *out = &table;
    return 0;
}
