/* quickack - what ranks say to PMIx's server is acknowledged without the kernel's delay.
 *
 * A rank's last words in MPI_Finalize are small, and the first of them has no answer: TCP holds the
 * next back until that one is acknowledged (RFC 896, Nagle's algorithm), and the server's side
 * delays this by 40 ms (RFC 1122, 4.2.3.2), since most words have an answer. That was half of the
 * time of a program that does nothing else. libpmix sets neither TCP_NODELAY nor TCP_QUICKACK, and
 * the kernel forgets the latter with the next answer; so it is set again and again, in the first
 * second after a rank came: who runs longer does not miss 40 ms. */
#ifndef DROVER_TCP_QUICKACK_H
#define DROVER_TCP_QUICKACK_H

#include <stdbool.h>
#include <uv.h>

#include "common/mem.h"

enum { TCP_QUICKACK_EVERY_MS = 5, TCP_QUICKACK_TIMES = 200 };

struct tcp_quickack {
    uv_timer_t timer; /* its data is the caller's */
    int *fds;         /* this process's connections over TCP … */
    size_t count;
    bool stale; /* … and one that is not among them */
    int left;   /* times */
};

/* Its timer keeps no loop alive. The caller closes it, and calls tcp_quickack_free() then. */
void tcp_quickack_init(struct tcp_quickack *q, uv_loop_t *loop);
/* A rank has come. */
void tcp_quickack_rearm(struct tcp_quickack *q);
void tcp_quickack_free(struct tcp_quickack *q);

#endif
