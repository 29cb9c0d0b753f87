#include "launcher/doctor/checks/nccl_library.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/doctor/checks/program.h"

#define SONAME "libnccl.so.2"

static char **in_loader_path(void)
{
    char **out = NULL;
    for (const char *p = getenv("LD_LIBRARY_PATH"); p && *p; p += strspn(p, ":;")) {
        int len = (int)strcspn(p, ":;");
        AUTO(free) char *path = xasprintf("%.*s/" SONAME, len, p);
        if (access(path, R_OK) == 0)
            strv_push(&out, TAKE(path));
        p += len;
    }
    return out;
}

static char *in_system(void)
{
    struct link_map *map = NULL;
    char *path = NULL;
    void *lib = dlopen(SONAME, RTLD_LAZY | RTLD_LOCAL);
    if (lib && dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0)
        path = xstrdup(map->l_name);
    if (lib)
        dlclose(lib);
    return path;
}

void nccl_library_find(struct nccl_library *out, char *const *command)
{
    AUTO(free) char *python = program_python(command);
    *out = (struct nccl_library){.loader = in_loader_path()};
    if (python) {
        program_packages(&out->wheels, python, "nvidia/nccl/lib/" SONAME);
        program_packages(&out->wheels, python, "torch/lib/" SONAME);
    }
    if (!out->loader && !out->wheels)
        out->system = in_system();
}

void nccl_library_clear(struct nccl_library *l)
{
    strv_free(l->loader);
    strv_free(l->wheels);
    free(l->system);
    *l = (struct nccl_library){0};
}

const char *nccl_library_used(const struct nccl_library *l)
{
    return l->loader ? l->loader[0] : l->wheels ? l->wheels[0] : l->system;
}

char *nccl_library_version(const char *path)
{
    int (*get)(int *version) = NULL;
    int v = 0;
    char *text = NULL;
    void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = lib ? dlsym(lib, "ncclGetVersion") : NULL;
    memcpy(&get, &symbol, sizeof get);
    /* Up to 2.8 the number is 1000 * major + 100 * minor + patch, later 10000 * major + … */
    if (get && get(&v) == 0)
        text = v < 10000 ? xasprintf("%d.%d.%d", v / 1000, v / 100 % 10, v % 100)
                         : xasprintf("%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    if (lib)
        dlclose(lib);
    return text;
}
