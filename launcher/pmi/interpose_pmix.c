#include <dlfcn.h>
#include <errno.h>
#include <pmix_common.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "launcher/pmi/interpose.h"

bool interpose_enabled(void)
{
    const char *off = getenv("DROVER_NO_INTERPOSE");
    return !off || !*off || strcmp(off, "0") == 0;
}

/* libpmix calls the replacement by this name. */
pmix_status_t pmix_ptl_base_send_blocking(int sock, char *bytes, size_t len)
    __attribute__((visibility("default")));

/* libpmix's own function if interposition is disabled, else NULL. This is mutable static data,
 * since the library is loaded once per process. */
static pmix_status_t (*original)(int sock, char *bytes, size_t len);

void interpose_pmix(void *libpmix)
{
    if (interpose_enabled())
        return;
    void *f = dlsym(libpmix, "pmix_ptl_base_send_blocking");
    memcpy(&original, &f, sizeof f);
}

/* Does not report that the rank has died, since libpmix notices that when it reads. */
pmix_status_t pmix_ptl_base_send_blocking(int sock, char *bytes, size_t len)
{
    if (original)
        return original(sock, bytes, len);
    while (len > 0) {
        ssize_t n = send(sock, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            break;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return PMIX_SUCCESS;
}
