/* bootstrap_server - rank 0's side of the bootstrap over TCP.
 *
 * Rank 0 collects the bytes that every rank has put, and sends all of them to all ranks. The other
 * ranks' side is bootstrap_tcp.c. The messages are defined here.
 *
 * Rank 0 sends first, so that a rank that has connected to the port of another program sends
 * nothing:
 *
 *     0 -> r   greeting
 *     r -> 0   hello, then `bytes` bytes that rank r has put
 *     0 -> r   answer, then `bytes` bytes: those of all ranks (code 0), or an error text (code < 0)
 *
 * A rank that gives up shuts down its sending side; it still gets an answer, which names the
 * missing ranks. Numbers are in the byte order of the host. The magic number reveals another byte
 * order. The token distinguishes jobs that share a node. It is not a secret. */
#pragma once

#include <netdb.h>
#include <stdint.h>

#include "collectives/bootstrap/bootstrap_missing.h"
#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/client/rank_identity.h"

#define BOOTSTRAP_MAGIC UINT64_C(0x313072766f726421) /* "!drovr01" */

enum { BOOTSTRAP_PUT_BYTES_MAX = 64 << 10 }; /* limit on the bytes that a rank can put in a round */

struct bootstrap_greeting {
    uint64_t magic, token;
};

struct bootstrap_hello {
    uint64_t magic, token;
    uint32_t rank, size, round;
    uint32_t first, local_size; /* first rank and number of ranks on its node, if they are
                                   consecutive; otherwise 0, 0 */
    uint32_t bytes;
    char node[BOOTSTRAP_NODE_BYTES];
};

struct bootstrap_answer {
    uint64_t magic;
    int32_t code;
    uint32_t bytes;
};

struct bootstrap_server {
    const struct bootstrap_hello *mine; /* the hello of rank 0 */
    const struct strbuf *put;           /* the bytes that rank 0 has put */
    int listener;
    int64_t timeout_ms;
};

/* Runs one round. Appends to `all` the bytes that every rank has put, in the order of the ranks,
 * each after their length (uint32_t). On return, every rank that connected has its answer.
 *   -ETIMEDOUT  not all ranks connected, or one gave up; the message names the missing ranks */
int bootstrap_server_accept_all(struct strbuf *all, const struct bootstrap_server *s,
                                struct err *e);

/* Returns a connected socket, which is non-blocking, or a negative errno.
 *   -ETIMEDOUT  not connected at the time `end_ms` of clock_ms() */
int bootstrap_server_connect(const struct addrinfo *a, int64_t end_ms);

/* Send or receive exactly `len` bytes on a non-blocking socket. Return 0 or
 *   -ETIMEDOUT   not complete at the time `end_ms` of clock_ms()
 *   -ECONNRESET  the peer has closed the connection
 *   others       as send() and recv() */
int bootstrap_server_send(int fd, const void *bytes, size_t len, int64_t end_ms);
int bootstrap_server_recv(int fd, void *bytes, size_t len, int64_t end_ms);
