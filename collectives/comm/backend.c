#include "collectives/comm/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/comm/cuda_loader.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/client/client_internal.h"

/* Returns the folder of the library or program that contains this function, or NULL if it is
 * unknown. The caller frees it. */
static char *own_folder(void)
{
    char path[PATH_MAX];
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((void *)own_folder, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return NULL;
    /* The link map of the program itself has no name. */
    if (!realpath(map->l_name && *map->l_name ? map->l_name : "/proc/self/exe", path))
        return NULL;
    return xstrdup(dirname(path));
}

/* Returns the folders to search for plug-ins, in order; the caller frees the strv. The relative
 * folders fit libdrover, which is in lib, programs in bin or libexec/drover, and tests, which are
 * two levels below the build folder. */
static char **plugin_folders(void)
{
    static const char *const relative[] = {"drover", "../lib/drover", "../../lib/drover"};
    AUTO(strv) char **v = strv_copy(NULL);
    const char *chosen = getenv("DROVER_PLUGIN_DIR");
    if (chosen && *chosen)
        strv_push(&v, xstrdup(chosen));
    AUTO(free) char *own = own_folder();
    for (size_t i = 0; own && i < COUNT_OF(relative); i++)
        strv_push(&v, xasprintf("%s/%s", own, relative[i]));
    return TAKE(v);
}

static int load_file(const struct backend **out, const char *path, struct err *e)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return err_set(e, -ELIBBAD, "plug-in %s", dlerror());
    const struct backend *b = dlsym(lib, "drover_backend");
    int rc = 0;
    if (!b)
        rc = err_set(e, -ELIBBAD, "plug-in %s has no drover_backend", path);
    else if (b->abi != BACKEND_ABI)
        rc = err_set(e, -ELIBBAD, "plug-in %s has ABI %u, expected %u", path, (unsigned)b->abi,
                     (unsigned)BACKEND_ABI);
    if (rc < 0) {
        dlclose(lib);
        return rc;
    }
    *out = b;
    return 0;
}

int backend_load(const struct backend **out, const char *name, struct err *e)
{
    if (strcmp(name, backend_self.name) == 0) {
        *out = &backend_self;
        return 0;
    }
    AUTO(strbuf) struct strbuf tried = {0};
    AUTO(strv) char **folders = plugin_folders();
    for (size_t i = 0; !strchr(name, '/') && folders[i]; i++) {
        AUTO(free) char *path = xasprintf("%s/backend_%s.so", folders[i], name);
        if (access(path, R_OK) == 0)
            return load_file(out, path, e);
        strbuf_printf(&tried, "%s%s", i ? ", " : "", folders[i]);
    }
    err_set(e, -ENOENT, "unknown backend '%s' (no backend_%s.so in %s)", name, name,
            strbuf_str(&tried));
    return err_hint(e, "set DROVER_PLUGIN_DIR; mpi and nccl are built only if their headers are "
                       "found");
}

void *drover_cuda_library(const char *name)
{
    const char *const names[] = {name, NULL};
    void *lib = NULL;
    /* On failure, drover_error(NULL) returns the error. */
    (void)cuda_loader_open(&lib, names, NULL, client_err(NULL));
    return lib;
}
