/* lobby - where ranks find the PMIx server, and wait for it, before there is a server.
 *
 * To load libpmix and start its server takes 5 ms, and most jobs have no use for it. So a socket
 * listens from the start, and the server is started when the first rank knocks. It takes the
 * socket over, with all who wait at it, in place of the one that it would bind. */
#ifndef DROVER_PMIX_LISTENER_H
#define DROVER_PMIX_LISTENER_H

#include <stdbool.h>
#include <uv.h>

#include "common/err.h"

/* Descriptors kept for the server: libpmix select()s on some, which have to be below 1024. */
enum { PMIX_LISTENER_KEEPS = 16 };

struct pmix_listener {
    uv_poll_t knock;
    int fd;
    int port; /* 0: not opened */
    int kept[PMIX_LISTENER_KEEPS];
    void (*knocked)(void *arg);
    void *arg;
};

/* Listens on the loopback device, at any port. `knocked` is called once. Its handle does not keep
 * the loop going. */
int pmix_listener_open(struct pmix_listener *l, uv_loop_t *loop, void (*knocked)(void *arg),
                       void *arg, struct err *e);
/* From `knocked`: the next socket that this thread binds becomes the lobby, and its owner's
 * accept() waits for pmix_listener_enable_accept(). */
void pmix_listener_transfer_fd(struct pmix_listener *l);
/* False: nobody has bound a socket, and those who waited have been turned away. */
bool pmix_listener_enable_accept(void);
/* Turns away who still waits. The handle is then to be closed: uv_close(&l->knock). */
void pmix_listener_close(struct pmix_listener *l);

#endif
