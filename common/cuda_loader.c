#include "common/cuda_loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/strbuf.h"

struct search {
    const char *const *names;
    struct strbuf places; /* that were looked at */
};

/* The first of the names that lies in a folder, which is a pattern. */
static void *open_in(struct search *s, const char *folder)
{
    strbuf_printf(&s->places, ", %s", folder);
    void *lib = NULL;
    for (size_t n = 0; s->names[n] && !lib; n++) {
        AUTO(free) char *pattern = xasprintf("%s/%s", folder, s->names[n]);
        glob_t found = {0};
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = found.gl_pathc; i > 0 && !lib; i--) /* the youngest Python first */
                lib = dlopen(found.gl_pathv[i - 1], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return lib;
}

static void *open_in_toolkit(struct search *s)
{
    static const char usual[] = "/usr/local/cuda";
    static const char *const below[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
    const char *home = getenv("CUDA_HOME");
    const char *const homes[] = {home && *home ? home : usual, usual};
    void *lib = NULL;
    for (size_t h = 0; h < COUNT_OF(homes) && !lib; h++)
        for (size_t b = 0; b < COUNT_OF(below) && !lib; b++) {
            AUTO(free) char *folder = xasprintf("%s/%s", homes[h], below[b]);
            if (access(folder, X_OK) == 0 && (h == 0 || strcmp(homes[0], usual) != 0))
                lib = open_in(s, folder);
        }
    return lib;
}

/* The folder above that of the first python3 in PATH, or NULL. An environment's python3 is a link,
 * and its packages are beside the link. */
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

static void *open_in_wheels(struct search *s)
{
    const char *home = getenv("HOME");
    AUTO(free) char *of_path = python_prefix();
    AUTO(free) char *of_user = home ? xasprintf("%s/.local", home) : NULL;
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), of_path, of_user,
                                    "/usr/local"};
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
    const char *chosen = variable ? getenv(variable) : NULL;
    if (chosen && *chosen) { /* a choice is not overruled */
        void *lib = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            return err_set(e, -ENOENT, "%s: %s", variable, dlerror());
        *out = lib;
        return 0;
    }
    struct search s = {.names = names};
    void *lib = NULL;
    for (size_t i = 0; names[i] && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; names[i] && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = open_in_toolkit(&s);
    if (!lib)
        lib = open_in_wheels(&s);
    AUTO(free) char *places = strbuf_take(&s.places);
    if (lib) {
        *out = lib;
        return 0;
    }
    err_set(e, -ENOENT, "no %s was found on the loader's path%s", names[0], places ? places : "");
    if (variable)
        return err_hint(e, "set %s to the file, or put its folder into LD_LIBRARY_PATH", variable);
    return err_hint(e, "put its folder into LD_LIBRARY_PATH");
}
