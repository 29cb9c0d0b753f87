#include "launcher/pmi/pmix_loader.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/dl.h"
#include "common/log.h"
#include "launcher/pmi/interpose.h"

static struct pmix_loader loaded; /* mutable static data: a library is loaded once per process */

int pmix_loader_open(struct err *e)
{
#define SYMBOL(name) {"PMIx_" #name, offsetof(struct pmix_loader, name), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {LIBPMIX_EACH(SYMBOL)};
#undef SYMBOL
    static const struct dl_library library = {
        .names = {"libpmix.so.2"},
        .variable = PMIX_LOADER_ENV,
        .flags = RTLD_LAZY | RTLD_GLOBAL, /* global, since its plug-ins need its symbols */
        .hint = "apt install libpmix2; or drover run --no-pmix if no rank needs MPI",
        DL_SYMBOLS(symbols)};
    if (loaded.Error_string)
        return 0;
    void *lib = NULL;
    if (dl_load(&loaded, &lib, &library, e) < 0)
        return err_wrap(e, "PMIx");
    interpose_pmix(lib);
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
