#include "launcher/pmix/libpmix.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"

static struct libpmix loaded; /* once and for all, as every library */

static void *open_library(void *arg)
{
    return dlopen("libpmix.so.2", RTLD_LAZY | RTLD_GLOBAL); /* its plug-ins look there */
}

void libpmix_prepare(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, open_library, NULL) == 0)
        pthread_detach(thread); /* dlopen() takes a lock: who loads it meanwhile waits for that */
}

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
    void *lib = open_library(NULL);
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
