#include "collectives/comm/cuda_loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/strbuf.h"

struct library_search {
    const char *const *names;
    struct strbuf searched; /* directories, each with a leading ", " */
};

/* Opens the first of `s->names` that exists in `folder`, which is a glob pattern. Returns NULL if
 * none can be loaded. */
static void *open_in(struct library_search *s, const char *folder)
{
    strbuf_printf(&s->searched, ", %s", folder);
    void *lib = NULL;
    for (size_t n = 0; s->names[n] && !lib; n++) {
        AUTO(free) char *pattern = xasprintf("%s/%s", folder, s->names[n]);
        glob_t found = {0};
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = found.gl_pathc; i > 0 && !lib; i--) /* the newest Python first */
                lib = dlopen(found.gl_pathv[i - 1], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return lib;
}

static void *open_in_toolkit(struct library_search *s)
{
    static const char default_home[] = "/usr/local/cuda";
    static const char *const subdirs[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
    const char *home = getenv("CUDA_HOME");
    const char *const homes[] = {home && *home ? home : default_home, default_home};
    void *lib = NULL;
    for (size_t h = 0; h < COUNT_OF(homes) && !lib; h++)
        for (size_t b = 0; b < COUNT_OF(subdirs) && !lib; b++) {
            AUTO(free) char *folder = xasprintf("%s/%s", homes[h], subdirs[b]);
            if (access(folder, X_OK) == 0 && (h == 0 || strcmp(homes[0], default_home) != 0))
                lib = open_in(s, folder);
        }
    return lib;
}

/* Returns the parent of the directory of the first python3 in PATH, or NULL. In a virtual
 * environment python3 is a link, and its packages are next to the link. */
static char *python_prefix(void)
{
    AUTO(free) char *path = xstrdup(getenv("PATH") ? getenv("PATH") : "");
    char *rest = NULL;
    for (char *d = strtok_r(path, ":", &rest); d; d = strtok_r(NULL, ":", &rest)) {
        AUTO(free) char *program = xasprintf("%s/python3", d);
        if (access(program, X_OK) == 0)
            return xasprintf("%s/..", d);
    }
    return NULL;
}

static void *open_in_wheels(struct library_search *s)
{
    const char *home = getenv("HOME");
    AUTO(free) char *path_prefix = python_prefix();
    AUTO(free) char *user_prefix = home ? xasprintf("%s/.local", home) : NULL;
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), path_prefix,
                                    user_prefix, "/usr/local"};
    void *lib = NULL;
    for (size_t p = 0; p < COUNT_OF(prefixes) && !lib; p++) {
        if (!prefixes[p] || !*prefixes[p])
            continue;
        AUTO(free)
        char *folder = xasprintf("%s/lib/python3*/*-packages/nvidia/*/lib", prefixes[p]);
        lib = open_in(s, folder);
    }
    return lib ? lib : open_in(s, "/usr/lib/python3/dist-packages/nvidia/*/lib");
}

int cuda_loader_open(void **out, const char *const *names, const char *variable, struct err *e)
{
    const char *user_file = variable ? getenv(variable) : NULL;
    if (user_file && *user_file) { /* the user has chosen: no other file is tried */
        void *lib = dlopen(user_file, RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            return err_set(e, -ENOENT, "%s: %s", variable, dlerror());
        *out = lib;
        return 0;
    }
    struct library_search s = {.names = names};
    void *lib = NULL;
    for (size_t i = 0; names[i] && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; names[i] && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = open_in_toolkit(&s);
    if (!lib)
        lib = open_in_wheels(&s);
    AUTO(free) char *searched = strbuf_take(&s.searched);
    if (lib) {
        *out = lib;
        return 0;
    }
    err_set(e, -ENOENT, "no %s was found on the loader's path%s", names[0],
            searched ? searched : "");
    if (variable)
        return err_hint(e, "set %s to the file, or add its directory to LD_LIBRARY_PATH", variable);
    return err_hint(e, "add its directory to LD_LIBRARY_PATH");
}

int cuda_loader_load(void *table, const struct dl_library *l, struct err *e)
{
    void *lib = NULL;
    int rc = cuda_loader_open(&lib, l->names, l->variable, e);
    if (rc == 0 && (rc = dl_fill(table, lib, l->symbols, l->symbol_count, e)) < 0)
        err_hint(e, "%s", l->hint);
    return rc;
}
