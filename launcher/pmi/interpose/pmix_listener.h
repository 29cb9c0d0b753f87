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
enum { LOBBY_KEEPS = 16 };

struct lobby {
    uv_poll_t knock;
    int fd;
    int port; /* 0: not opened */
    int kept[LOBBY_KEEPS];
    void (*knocked)(void *arg);
    void *arg;
};

/* Listens on the loopback device, at any port. `knocked` is called once. Its handle does not keep
 * the loop going. */
int lobby_open(struct lobby *l, uv_loop_t *loop, void (*knocked)(void *arg), void *arg,
               struct err *e);
/* From `knocked`: the next socket that this thread binds becomes the lobby, and its owner's
 * accept() waits for lobby_let_in(). */
void lobby_hand_over(struct lobby *l);
/* False: nobody has bound a socket, and those who waited have been turned away. */
bool lobby_let_in(void);
/* Turns away who still waits. The handle is then to be closed: uv_close(&l->knock). */
void lobby_shut(struct lobby *l);

#endif
