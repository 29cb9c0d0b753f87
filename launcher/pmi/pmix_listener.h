/* pmix_listener - the socket to which ranks connect before the PMIx server is started.
 *
 * Loading libpmix and starting its server takes 5 ms, and most jobs do not need it. So drover only
 * listens on the socket at first, and starts the server when the first rank connects. The server
 * then takes over the socket, with all ranks that wait at it (interpose.h). */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "launcher/pmi/pmix_accept.h"

/* Number of descriptors that are reserved for the server. libpmix calls select() for some of its
 * descriptors, so they must be below 1024. */
enum { PMIX_LISTENER_RESERVED = 16 };

struct pmix_listener {
    uv_poll_t poll; /* must be first; the caller uses its `data` */
    int fd;
    int port; /* 0: not opened */
    int reserved[PMIX_LISTENER_RESERVED];
    void (*connected)(void *arg);
    void *arg;
};

/* Listens on a free port of the loopback device. Calls `connected` once, when the first rank
 * connects. Its handle does not keep the loop alive. */
int pmix_listener_open(struct pmix_listener *l, uv_loop_t *loop, void (*connected)(void *arg),
                       void *arg, struct err *e);
/* Hands over the socket to libpmix, and releases the reserved descriptors. The next socket that
 * this thread binds becomes this socket. Call this only in `connected`. The ranks wait until
 * interpose_end_transfer(); then `accept` accepts them. */
void pmix_listener_transfer_fd(struct pmix_listener *l, struct pmix_accept *accept);
/* Disconnects the ranks that still wait. The caller then closes the handle: uv_close(&l->poll). */
void pmix_listener_close(struct pmix_listener *l);
