/* ring_probe: connections to this process, to a port that nobody listens on, and to strangers. */
#include "collectives/bench/ring/ring_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

static struct ring_probe_place only_loopback(struct ring_probe_place place)
{
    memset(place.addresses, 0, sizeof place.addresses);
    snprintf(place.addresses[0], sizeof place.addresses[0], "127.0.0.1");
    return place;
}

TEST(a_neighbour_that_listens_is_reached_again_and_again)
{
    AUTO(ring_probe) struct ring_probe *p = NULL;
    struct ring_probe_place place;
    struct ring_probe_result r;
    struct err e = {0};
    CHECK_INT(ring_probe_open(&p, &place, &e), 0);
    place = only_loopback(place);
    for (int i = 0; i < 40; i++) { /* more than there is room for at once */
        ring_probe_try(&r, &place);
        CHECK_STR(r.error, "");
        CHECK(r.latency_us > 0 && r.gbps > 0);
        CHECK_STR(r.address, "127.0.0.1");
    }
}

TEST(a_port_on_which_nobody_listens_is_refused)
{
    struct ring_probe *p = NULL;
    struct ring_probe_place place;
    struct ring_probe_result r;
    struct err e = {0};
    CHECK_INT(ring_probe_open(&p, &place, &e), 0);
    place = only_loopback(place);
    ring_probe_close(p);
    ring_probe_try(&r, &place);
    CHECK_STR(r.error, "Connection refused");
    CHECK_STR(r.address, "127.0.0.1");
}

TEST(the_second_address_is_used_if_the_first_one_does_not_answer)
{
    AUTO(ring_probe) struct ring_probe *p = NULL;
    struct ring_probe_place place;
    struct ring_probe_result r;
    struct err e = {0};
    CHECK_INT(ring_probe_open(&p, &place, &e), 0);
    place = only_loopback(place);
    snprintf(place.addresses[0], sizeof place.addresses[0], "no address");
    snprintf(place.addresses[1], sizeof place.addresses[1], "127.0.0.1");
    ring_probe_try(&r, &place);
    CHECK_STR(r.error, "");
    CHECK_STR(r.address, "127.0.0.1");
}

TEST(a_stranger_without_the_token_is_dropped)
{
    AUTO(ring_probe) struct ring_probe *p = NULL;
    struct ring_probe_place place;
    struct ring_probe_result r;
    struct err e = {0};
    CHECK_INT(ring_probe_open(&p, &place, &e), 0);
    place = only_loopback(place);
    place.token[3] = (char)(place.token[3] + 1);
    ring_probe_try(&r, &place);
    CHECK_HAS(r.error, "connects, and then answers nothing: ");
}

TEST(a_peer_that_answers_nothing_is_left_at_the_deadline)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    struct ring_probe_place place = {.addresses = {"127.0.0.1"}};
    struct ring_probe_result r;
    AUTO(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, 1) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    place.port = ntohs(a.sin_port);
    ring_probe_try(&r, &place);
    CHECK_STR(r.error, "connects, and then answers nothing: Connection timed out");
}
