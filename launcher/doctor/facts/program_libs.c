#include "launcher/doctor/facts/program_libs.h"

#include <glob.h>
#include <stdbool.h>
#include <string.h>

#include "common/mem.h"
#include "common/python.h"

/* Returns the path of the program, with symbolic links as they are; NULL: not found. */
static char *find_program(const char *name)
{
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? xstrdup(name) : NULL;
    const char *dirs = getenv("PATH");
    for (const char *d = dirs; d && *d;) {
        size_t len = strcspn(d, ":");
        AUTO(free) char *path = xasprintf("%.*s/%s", (int)len, d, name);
        if (len > 0 && access(path, X_OK) == 0)
            return TAKE(path);
        d += len + (d[len] == ':');
    }
    return NULL;
}

static void push_matches(char ***out, const char *pattern)
{
    glob_t g = {0};
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++)
            strv_push(out, xstrdup(g.gl_pathv[i]));
    globfree(&g);
}

/* Returns the directory above that of a file: PREFIX of PREFIX/bin/python3. */
static char *prefix_of(const char *file)
{
    AUTO(free) char *prefix = xstrdup(file);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(prefix, '/');
        if (!slash)
            return NULL;
        *slash = '\0';
    }
    return TAKE(prefix);
}

/* Returns the Python that a command runs; a script runs with the python3 of PATH. */
static char *python_of(char *const *command)
{
    if (!command || !command[0])
        return NULL;
    bool is_script = python_is_script(command[0]);
    if (!is_script && !python_is_interpreter(command[0]))
        return NULL;
    return find_program(is_script ? "python3" : command[0]);
}

char **program_libs_packages(char *const *command)
{
    AUTO(free) char *python = python_of(command);
    AUTO(free) char *prefix = python ? prefix_of(python) : NULL;
    char **out = NULL;
    static const char *const places[] = {
        "lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages",
        "local/lib/python3*/dist-packages"};
    for (size_t i = 0; prefix && i < COUNT_OF(places); i++) {
        AUTO(free) char *pattern = xasprintf("%s/%s", prefix, places[i]);
        push_matches(&out, pattern);
    }
    return out;
}

char **program_libs_dirs(char *const *command)
{
    char **out = NULL;
    const char *dirs = getenv("LD_LIBRARY_PATH");
    for (const char *d = dirs; d && *d;) {
        size_t len = strcspn(d, ":");
        if (len > 0)
            strv_push(&out, xstrndup(d, len));
        d += len + (d[len] == ':');
    }
    AUTO(strv) char **packages = program_libs_packages(command);
    for (char **p = packages; p && *p; p++) {
        AUTO(free) char *old = xasprintf("%s/nvidia/cuda_runtime/lib", *p);
        AUTO(free) char *new = xasprintf("%s/nvidia/cu[0-9]*/lib", *p); /* since CUDA 13 */
        push_matches(&out, old);
        push_matches(&out, new);
    }
    AUTO(free) char *program = command && command[0] ? find_program(command[0]) : NULL;
    AUTO(free) char *prefix = program ? prefix_of(program) : NULL;
    if (prefix) {
        strv_push(&out, xasprintf("%s/lib", prefix));
        strv_push(&out, xasprintf("%s/lib64", prefix));
    }
    return out;
}
