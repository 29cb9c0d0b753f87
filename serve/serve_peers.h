/* serve_peers - the open connections, and which one makes way for another. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum serve_peer_state {
    SERVE_PEER_CLOSING,   /* it was told to end, and no longer counts */
    SERVE_PEER_ASKING,    /* its request is not complete */
    SERVE_PEER_IDLE,      /* its request is answered */
    SERVE_PEER_STREAMING, /* a stream of events */
    SERVE_PEER_READING    /* its answer is being sent */
};

struct serve_peer {
    int fd;
    enum serve_peer_state state;
    int64_t since_ms; /* when it entered this state */
    size_t body;      /* bytes of its answer */
    void *stream;     /* STREAMING: for the owner */
    struct serve_peer *next;
};

struct serve_peers { /* zeroes are empty */
    struct serve_peer *first;
};

struct serve_peer *serve_peers_add(struct serve_peers *p, int fd, int64_t now_ms);
void serve_peers_remove(struct serve_peers *p, struct serve_peer *peer);

/* Returns the number of connections that count. */
size_t serve_peers_count(const struct serve_peers *p);
/* Returns the sum of `body`. */
size_t serve_peers_bytes(const struct serve_peers *p);

/* Returns the connection to close for a new one: of the connections in the first state above that
 * occurs, the connection that is longest in it. NULL: there is none. */
struct serve_peer *serve_peers_victim(const struct serve_peers *p);
/* Returns the connection that takes longest to receive its answer; NULL: there is none. */
struct serve_peer *serve_peers_slowest(const struct serve_peers *p);
