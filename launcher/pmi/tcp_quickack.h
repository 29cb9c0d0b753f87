/* tcp_quickack - disables the kernel's delayed acknowledgements for connections to the PMIx server.
 *
 * A rank's last messages in MPI_Finalize are small, and the first of them has no answer. TCP holds
 * the next one back until the first is acknowledged (RFC 896, Nagle's algorithm), and the server's
 * side delays this by 40 ms (RFC 1122, 4.2.3.2), since most messages have an answer. That was half
 * of the run time of a program that does nothing else. libpmix sets neither TCP_NODELAY nor
 * TCP_QUICKACK, and the kernel resets the latter with the next answer. So it is set repeatedly, in
 * the first second after a rank connects: a longer run does not suffer from 40 ms. */
#ifndef DROVER_TCP_QUICKACK_H
#define DROVER_TCP_QUICKACK_H

#include <stdbool.h>
#include <uv.h>

#include "common/mem.h"

enum { TCP_QUICKACK_EVERY_MS = 5, TCP_QUICKACK_TIMES = 200 };

struct tcp_quickack {
    uv_timer_t timer; /* its data is the caller's */
    int *fds;         /* this process's TCP connections */
    size_t count;
    bool stale; /* a connection is missing in `fds` */
    int left;   /* number of times that remain */
};

/* Its timer does not keep the loop alive. The caller closes the timer and then calls
 * tcp_quickack_free(). */
void tcp_quickack_init(struct tcp_quickack *q, uv_loop_t *loop);
/* Starts over, because a rank has connected. */
void tcp_quickack_rearm(struct tcp_quickack *q);
void tcp_quickack_free(struct tcp_quickack *q);

#endif
