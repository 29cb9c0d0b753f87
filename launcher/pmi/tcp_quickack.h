/* tcp_quickack - disables the kernel's delayed acknowledgements for connections to the PMIx server.
 *
 * A rank's last messages in MPI_Finalize are small, and the first of them has no answer. TCP delays
 * the next message until the first one is acknowledged (RFC 896, Nagle's algorithm). The server's
 * kernel delays this acknowledgement by 40 ms (RFC 1122, 4.2.3.2), since most messages have an
 * answer. Without this module, an empty program would run twice as long. libpmix sets neither
 * TCP_NODELAY nor TCP_QUICKACK, and the kernel resets TCP_QUICKACK with the next answer. So this
 * module sets it repeatedly during the first second after a rank connects. For a longer run, 40 ms
 * do not matter. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "common/mem.h"

enum { TCP_QUICKACK_EVERY_MS = 5, TCP_QUICKACK_TIMES = 200 };

struct tcp_quickack {
    uv_timer_t timer; /* the caller uses its `data` */
    int *fds;         /* this process's TCP connections */
    size_t count;
    bool stale; /* a connection is missing in `fds` */
    int left;   /* how many times the timer still fires */
};

/* Initializes `q`. The timer does not keep the loop alive. The caller closes the timer and then
 * calls tcp_quickack_free(). */
void tcp_quickack_init(struct tcp_quickack *q, uv_loop_t *loop);
/* Starts the second again, because a rank has connected. */
void tcp_quickack_rearm(struct tcp_quickack *q);
void tcp_quickack_free(struct tcp_quickack *q);
