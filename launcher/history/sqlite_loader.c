#include "launcher/history/sqlite_loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/mem.h"

static struct sqlite_loader loaded; /* mutable static data: a library is loaded once per process */

int sqlite_loader_open(struct err *e)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define FUNCTION(name) {"sqlite3_" #name, offsetof(struct sqlite_loader, name)},
        LIBSQLITE_EACH(FUNCTION)};
    if (loaded.step)
        return 0;
    void *lib = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    struct sqlite_loader l;
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        void *f = lib ? dlsym(lib, functions[i].name) : NULL;
        if (!f) {
            err_set(e, -ENOPKG, "SQLite: %s", dlerror());
            return err_hint(e, "apt install libsqlite3-0");
        }
        memcpy((char *)&l + functions[i].at, &f, sizeof f);
    }
    loaded = l;
    return 0;
}

const struct sqlite_loader *sqlite_loader(void)
{
    return &loaded;
}
