#include "serve/serve_peers.h"

#include "common/mem.h"

struct serve_peer *serve_peers_add(struct serve_peers *p, int fd, int64_t now_ms)
{
    struct serve_peer *peer = xzalloc(sizeof *peer);
    *peer = (struct serve_peer){
        .fd = fd, .state = SERVE_PEER_ASKING, .since_ms = now_ms, .next = p->first};
    p->first = peer;
    return peer;
}

void serve_peers_remove(struct serve_peers *p, struct serve_peer *peer)
{
    struct serve_peer **at = &p->first;
    while (*at && *at != peer)
        at = &(*at)->next;
    if (*at)
        *at = peer->next;
    free(peer);
}

size_t serve_peers_count(const struct serve_peers *p)
{
    size_t n = 0;
    for (const struct serve_peer *peer = p->first; peer; peer = peer->next)
        n += peer->state != SERVE_PEER_CLOSING;
    return n;
}

size_t serve_peers_bytes(const struct serve_peers *p)
{
    size_t n = 0;
    for (const struct serve_peer *peer = p->first; peer; peer = peer->next)
        n += peer->state == SERVE_PEER_CLOSING ? 0 : peer->body;
    return n;
}

struct serve_peer *serve_peers_victim(const struct serve_peers *p)
{
    struct serve_peer *victim = NULL;
    for (struct serve_peer *peer = p->first; peer; peer = peer->next) {
        if (peer->state == SERVE_PEER_CLOSING)
            continue;
        if (!victim || peer->state < victim->state ||
            (peer->state == victim->state && peer->since_ms <= victim->since_ms))
            victim = peer; /* the list begins with the newest one */
    }
    return victim;
}

struct serve_peer *serve_peers_slowest(const struct serve_peers *p)
{
    struct serve_peer *slowest = NULL;
    for (struct serve_peer *peer = p->first; peer; peer = peer->next)
        if (peer->state == SERVE_PEER_READING && peer->body > 0 &&
            (!slowest || peer->since_ms <= slowest->since_ms))
            slowest = peer;
    return slowest;
}
