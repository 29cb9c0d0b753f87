#include "collectives/comm/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cuda_loader.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/client/client_internal.h"

/* The folder of the library or program that this function is in, or NULL. */
static char *own_folder(void)
{
    char path[PATH_MAX];
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((void *)own_folder, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return NULL;
    /* The program itself has no name there. */
    if (!realpath(map->l_name && *map->l_name ? map->l_name : "/proc/self/exe", path))
        return NULL;
    return xstrdup(dirname(path));
}

/* Where plug-ins may be, best first: libdrover is in lib, programs in bin, in libexec/drover, and
 * tests two levels below the build. */
static char **plugin_folders(void)
{
    static const char *const beside[] = {"drover", "../lib/drover", "../../lib/drover"};
    AUTO(strv) char **v = strv_copy(NULL);
    const char *chosen = getenv("DROVER_PLUGIN_DIR");
    if (chosen && *chosen)
        strv_push(&v, xstrdup(chosen));
    AUTO(free) char *own = own_folder();
    for (size_t i = 0; own && i < COUNT_OF(beside); i++)
        strv_push(&v, xasprintf("%s/%s", own, beside[i]));
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
        rc = err_set(e, -ELIBBAD, "plug-in %s is for interface %u, this is %u", path,
                     (unsigned)b->abi, (unsigned)BACKEND_ABI);
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
    err_set(e, -ENOENT, "there is no backend '%s' (looked for backend_%s.so in %s)", name, name,
            strbuf_str(&tried));
    return err_hint(e, "mpi and nccl are built where their headers are found; DROVER_PLUGIN_DIR "
                       "names another folder");
}

void *drover_cuda_library(const char *name)
{
    const char *const names[] = {name, NULL};
    void *lib = NULL;
    (void)cuda_loader_open(&lib, names, NULL,
                           client_err(NULL)); /* the error is kept for the caller */
    return lib;
}
