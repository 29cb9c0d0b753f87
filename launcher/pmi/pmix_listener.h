/* pmix_listener - the socket at which ranks connect to the PMIx server, before there is a server.
 *
 * Loading libpmix and starting its server takes 5 ms, and most jobs do not need it. So the socket
 * listens from the start, and the server is started when the first rank connects. It takes over the
 * socket with all ranks that wait at it (interpose.h). */
#ifndef DROVER_PMIX_LISTENER_H
#define DROVER_PMIX_LISTENER_H

#include <stdbool.h>
#include <uv.h>

#include "common/err.h"
#include "launcher/pmi/pmix_accept.h"

/* Descriptors reserved for the server: libpmix calls select() for some, which must be below 1024.
 */
enum { PMIX_LISTENER_RESERVED = 16 };

struct pmix_listener {
    uv_poll_t poll; /* first; its data is the caller's */
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
/* Only from `connected`: hands the socket and the reserved descriptors to the next socket that this
 * thread binds. Ranks wait until pmix_listener_enable_accept(), and `accept` accepts them then. */
void pmix_listener_transfer_fd(struct pmix_listener *l, struct pmix_accept *accept);
/* Lets the new owner accept. Returns false if no socket was bound: the ranks that waited are then
 * disconnected. */
bool pmix_listener_enable_accept(void);
/* Disconnects the ranks that still wait. The caller then closes the handle: uv_close(&l->poll). */
void pmix_listener_close(struct pmix_listener *l);

#endif
