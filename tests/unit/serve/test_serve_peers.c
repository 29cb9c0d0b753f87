/* test_serve_peers - which connection makes way for another one. */
#include "serve/serve_peers.h"

#include "tests/unit/test.h"

TEST(a_connection_without_a_request_makes_way_first)
{
    struct serve_peers p = {0};
    struct serve_peer *reading = serve_peers_add(&p, 3, 10),
                      *streaming = serve_peers_add(&p, 4, 20), *idle = serve_peers_add(&p, 5, 30),
                      *asking = serve_peers_add(&p, 6, 40), *newer = serve_peers_add(&p, 7, 50);
    reading->state = SERVE_PEER_READING;
    streaming->state = SERVE_PEER_STREAMING;
    idle->state = SERVE_PEER_IDLE;
    struct serve_peer *const order[] = {asking, newer, idle, streaming, reading};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        CHECK_INT(serve_peers_count(&p), 5 - i);
        CHECK_INT(serve_peers_victim(&p)->fd, order[i]->fd);
        serve_peers_victim(&p)->state = SERVE_PEER_CLOSING;
    }
    CHECK(!serve_peers_victim(&p));
    while (p.first)
        serve_peers_remove(&p, p.first);
}

TEST(the_answer_that_is_longest_under_way_is_the_slowest)
{
    struct serve_peers p = {0};
    CHECK(!serve_peers_slowest(&p));
    struct serve_peer *empty = serve_peers_add(&p, 3, 10), *old = serve_peers_add(&p, 4, 20),
                      *new = serve_peers_add(&p, 5, 30);
    empty->state = old->state = new->state = SERVE_PEER_READING;
    old->body = 100;
    new->body = 50;
    CHECK_INT(serve_peers_bytes(&p), 150);
    CHECK_INT(serve_peers_slowest(&p)->fd, 4);
    old->state = SERVE_PEER_CLOSING;
    CHECK_INT(serve_peers_bytes(&p), 50);
    CHECK_INT(serve_peers_slowest(&p)->fd, 5);
    while (p.first)
        serve_peers_remove(&p, p.first);
}
