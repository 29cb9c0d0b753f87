#include "launcher/pmi/pmix_loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "launcher/interpose/interpose.h"

static struct pmix_loader loaded; /* mutable static data: a library is loaded once per process */

int pmix_loader_open(struct err *e)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define FUNCTION(name) {"PMIx_" #name, offsetof(struct pmix_loader, name)},
        LIBPMIX_EACH(FUNCTION)};
    if (loaded.Error_string)
        return 0;
    /* global, since its plug-ins need its symbols */
    const char *own = getenv(PMIX_LOADER_ENV);
    void *lib = dlopen(own ? own : "libpmix.so.2", RTLD_LAZY | RTLD_GLOBAL);
    struct pmix_loader l;
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        void *f = lib ? dlsym(lib, functions[i].name) : NULL;
        if (!f) {
            err_set(e, -ENOENT, "PMIx: %s", dlerror());
            return err_hint(e,
                            "apt install libpmix2; or drover run --no-pmix if no rank needs MPI");
        }
        memcpy((char *)&l + functions[i].at, &f, sizeof f);
    }
    interpose_pmix(lib);
    loaded = l;
    return 0;
}

const struct pmix_loader *pmix_loader(void)
{
    struct err e = {0};
    if (pmix_loader_open(&e) < 0) {
        log_error("%s", e.text);
        abort();
    }
    return &loaded;
}
