/* exchange_hub - rank 0's side of the exchange over TCP: takes in what every rank says, and tells
 * all of it to all. The other side is bootstrap_tcp_new.c; what they say to each other is here.
 *
 * Rank 0 speaks first, so that a rank that has found somebody else's listener sends it nothing:
 *
 *     0 -> r   greeting
 *     r -> 0   hello, then `bytes` of what rank r has put
 *     0 -> r   answer, then `bytes`: what every rank has put (code 0), or why not (-errno)
 *
 * A rank that gives up closes its half and gets an answer still: who is missing. Numbers are in the
 * machine's own order; another one's shows in the magic. The token keeps jobs apart that share a
 * machine. It is no secret. */
#ifndef DROVER_BOOTSTRAP_SERVER_H
#define DROVER_BOOTSTRAP_SERVER_H

#include <stdint.h>

#include "collectives/bootstrap/bootstrap_missing.h"
#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/client/rank_identity.h"

#define EXCHANGE_MAGIC UINT64_C(0x313072766f726421) /* "!drovr01" */

enum { EXCHANGE_SAID_MAX = 64 << 10 }; /* bytes that a rank puts in one round */

struct exchange_greeting {
    uint64_t magic, token;
};

struct exchange_hello {
    uint64_t magic, token;
    uint32_t rank, size, round;
    uint32_t first, local_size; /* the ranks of its node, where they follow each other; else 0, 0 */
    uint32_t bytes;
    char node[BOOTSTRAP_NODE_BYTES];
};

struct exchange_answer {
    uint64_t magic;
    int32_t code;
    uint32_t bytes;
};

struct bootstrap_server {
    const struct exchange_hello *mine; /* rank 0's own */
    const struct strbuf *said;         /* what it has put */
    int listener;
    int64_t timeout_ms;
};

/* One round. `all` gets what every rank has put, in the order of ranks, each after its length
 * (uint32_t). When it returns, every rank that came has its answer.
 *   -ETIMEDOUT   not all came, or one that came gave up; the text names those that are missing */
int bootstrap_server_accept_all(struct strbuf *all, const struct bootstrap_server *h,
                                struct err *e);

/* All `len` bytes, over a non-blocking socket; 0, -ETIMEDOUT at `end_ms` of clock_ms(), -ECONNRESET
 * at the end of file, or another -errno. */
int bootstrap_server_send(int fd, const void *bytes, size_t len, int64_t end_ms);
int bootstrap_server_recv(int fd, void *bytes, size_t len, int64_t end_ms);

#endif
