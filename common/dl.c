#include "common/dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Pointers of a table are read and written by memcpy(), since the types of functions differ. */
static void *get(const void *table, size_t at)
{
    void *call;
    memcpy(&call, (const char *)table + at, sizeof call);
    return call;
}

static void set(void *table, size_t at, void *call)
{
    memcpy((char *)table + at, &call, sizeof call);
}

static void clear(void *table, const struct dl_symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++)
        set(table, symbols[i].at, NULL);
}

int dl_fill(void *table, void *lib, const struct dl_symbol *symbols, size_t n, struct err *e)
{
    clear(table, symbols, n);
    for (size_t i = 0; i < n; i++) {
        if (get(table, symbols[i].at))
            continue;
        void *call = dlsym(lib, symbols[i].name);
        if (!call && symbols[i].need == DL_REQUIRED) {
            err_set(e, -ELIBBAD, "%s", dlerror());
            clear(table, symbols, n);
            return -ELIBBAD;
        }
        set(table, symbols[i].at, call);
    }
    return 0;
}

/* Sets *e only if it has no error yet, or if the library was found. */
static void *load_file(void *table, const char *file, const struct dl_library *l, struct err *e)
{
    void *lib = dlopen(file, l->flags ? l->flags : RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *text = dlerror(); /* NULL: RTLD_NOLOAD, and the library is not loaded */
        if (e->code == 0)
            err_set(e, -ENOENT, "%s", text ? text : file);
        return NULL;
    }
    if (dl_fill(table, lib, l->symbols, l->symbol_count, e) == 0)
        return lib;
    dlclose(lib);
    return NULL;
}

int dl_load(void *table, void **lib, const struct dl_library *l, struct err *e)
{
    const char *only = l->variable ? getenv(l->variable) : NULL;
    struct err why = {0};
    void *found = NULL;
    clear(table, l->symbols, l->symbol_count);
    if (only && *only) {
        found = load_file(table, only, l, &why);
        if (!found)
            err_wrap(&why, "%s", l->variable);
    } else {
        for (size_t i = 0; i < COUNT_OF(l->names) && l->names[i] && !found; i++)
            found = load_file(table, l->names[i], l, &why);
    }
    if (found) {
        if (lib)
            *lib = found;
        return 0;
    }
    err_set(e, why.code, "%s", why.text);
    if (l->hint)
        err_hint(e, "%s", l->hint);
    return why.code;
}
