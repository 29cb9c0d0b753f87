#include "launcher/pmix/libpmix.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"

static struct libpmix loaded; /* once and for all, as every library */

int libpmix_load(struct err *e)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define FUNCTION(name) {"PMIx_" #name, offsetof(struct libpmix, name)},
        LIBPMIX_EACH(FUNCTION)};
    if (loaded.Error_string)
        return 0;
    void *lib = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_GLOBAL); /* its plug-ins look there */
    struct libpmix l;
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        void *f = lib ? dlsym(lib, functions[i].name) : NULL;
        if (!f) {
            err_set(e, -ENOENT, "PMIx: %s", dlerror());
            return err_hint(e, "apt install libpmix2; or drover run --no-pmix where no rank needs "
                               "MPI");
        }
        memcpy((char *)&l + functions[i].at, &f, sizeof f);
    }
    loaded = l;
    return 0;
}

const struct libpmix *libpmix(void)
{
    struct err e = {0};
    if (libpmix_load(&e) < 0) {
        log_error("%s", e.text);
        abort();
    }
    return &loaded;
}
