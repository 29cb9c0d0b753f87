#include "launcher/pmi/interpose/pmix_loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/mem.h"

/* libpmix's own function of this name, which the server greets a rank with, finds this one in its
 * place (Makefile: --export-dynamic-symbol). A rank that died meanwhile is no error here: where it
 * is one, libpmix (4.2, 5, 6: pmix_ptl_base_connection_hdlr.c) gives back what it knows of the rank
 * once more than it took it, and hangs when the job is over: in 4 of 63 jobs of four ranks that
 * were killed at some moment of MPI_Init. That the rank is gone it sees when it reads. */
__attribute__((visibility("default"))) pmix_status_t pmix_ptl_base_send_blocking(int sock, char *at,
                                                                                 size_t len)
{
    while (len > 0) {
        ssize_t n = send(sock, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            break;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return PMIX_SUCCESS;
}

static struct pmix_loader loaded; /* once and for all, as every library */

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
    void *lib = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_GLOBAL); /* its plug-ins look there */
    struct pmix_loader l;
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

const struct pmix_loader *pmix_loader(void)
{
    struct err e = {0};
    if (pmix_loader_open(&e) < 0) {
        log_error("%s", e.text);
        abort();
    }
    return &loaded;
}
