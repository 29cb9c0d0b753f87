/* bootstrap_server - rank 0's side of the bootstrap over TCP.
 *
 * It collects what every rank has put and sends all of it to all ranks. The other side is
 * bootstrap_tcp.c; the messages are defined here.
 *
 * Rank 0 speaks first, so that a rank that has connected to another program's port sends nothing:
 *
 *     0 -> r   greeting
 *     r -> 0   hello, then `bytes` bytes that rank r has put
 *     0 -> r   answer, then `bytes` bytes: what every rank has put (code 0), or the error (-errno)
 *
 * A rank that gives up shuts down its sending side and still gets an answer with the missing ranks.
 * Numbers are in the host's byte order; another order is noticed by the magic. The token separates
 * jobs that share a node. It is not a secret. */
#ifndef DROVER_BOOTSTRAP_SERVER_H
#define DROVER_BOOTSTRAP_SERVER_H

#include <stdint.h>

#include "collectives/bootstrap/bootstrap_missing.h"
#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/client/rank_identity.h"

#define BOOTSTRAP_MAGIC UINT64_C(0x313072766f726421) /* "!drovr01" */

enum { BOOTSTRAP_PUT_BYTES_MAX = 64 << 10 }; /* per rank and round */

struct bootstrap_greeting {
    uint64_t magic, token;
};

struct bootstrap_hello {
    uint64_t magic, token;
    uint32_t rank, size, round;
    uint32_t first, local_size; /* the ranks of its node if they are consecutive; else 0, 0 */
    uint32_t bytes;
    char node[BOOTSTRAP_NODE_BYTES];
};

struct bootstrap_answer {
    uint64_t magic;
    int32_t code;
    uint32_t bytes;
};

struct bootstrap_server {
    const struct bootstrap_hello *mine; /* rank 0's own */
    const struct strbuf *put;           /* what rank 0 has put */
    int listener;
    int64_t timeout_ms;
};

/* Runs one round. Appends to `all` what every rank has put, in the order of the ranks, each after
 * its length (uint32_t). When it returns, every rank that connected has its answer. -ETIMEDOUT  not
 * all ranks connected, or one of them gave up; the text names the missing ones */
int bootstrap_server_accept_all(struct strbuf *all, const struct bootstrap_server *s,
                                struct err *e);

/* Sends or receives all `len` bytes on a non-blocking socket. Returns 0 or
 *   -ETIMEDOUT   not done at `end_ms` of clock_ms()
 *   -ECONNRESET  end of file; or another -errno */
int bootstrap_server_send(int fd, const void *bytes, size_t len, int64_t end_ms);
int bootstrap_server_recv(int fd, void *bytes, size_t len, int64_t end_ms);

#endif
