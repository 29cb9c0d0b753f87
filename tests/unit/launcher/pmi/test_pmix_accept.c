/* pmix_accept: connections reach libpmix with a valid greeting only. */
#include "launcher/pmi/pmix_accept.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "tests/unit/launcher/pmi/kit_tcp.h"
#include "tests/unit/test.h"

enum { LONG_MS = 60000, PAYLOAD = 58 };

static struct pmix_accept *a;
static struct sockaddr_in at;
static int listener;

static void begin(int limit_ms)
{
    listener = kit_tcp_listen(&at);
    CHECK_INT(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
    CHECK_INT(pmix_accept_open(&a, limit_ms, NULL), 0);
}

static void end(void)
{
    pmix_accept_close(a);
    close(listener);
}

/* A greeting, as libpmix 4.2 sends it: a header of 16 bytes, and its payload. */
static void make_greeting(char out[16 + PAYLOAD])
{
    static const char parts[] = "native\0\0\0\0\10uuuugggg\0drover-1-abcdef01\0\0\0\0\0"
                                "4.2.2\0v41\0\1hash";
    const size_t bytes = PAYLOAD;
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    _Static_assert(sizeof parts == PAYLOAD, "the length of a greeting");
    memset(out, 0xff, 8);
    memcpy(out + 8, &bytes, sizeof bytes);
    memcpy(out + 16, parts, sizeof parts);
    memcpy(out + 16 + 11, &uid, 4);
    memcpy(out + 16 + 15, &gid, 4);
}

static void send_greeting(int fd)
{
    char greeting[16 + PAYLOAD];
    make_greeting(greeting);
    CHECK_INT(write(fd, greeting, sizeof greeting), sizeof greeting);
}

static int next(void)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    return pmix_accept_next(a, listener, (struct sockaddr *)&peer, &len);
}

/* Checks that the connection `fd`, which was accepted, has a whole greeting to read at once. */
static void check_greeting(int fd)
{
    char got[16 + PAYLOAD], want[16 + PAYLOAD];
    make_greeting(want);
    CHECK(fd >= 0);
    CHECK_INT(recv(fd, got, sizeof got, MSG_DONTWAIT), sizeof got);
    CHECK_INT(memcmp(got, want, sizeof got), 0);
    close(fd);
}

static bool is_closed(int fd)
{
    char c;
    return recv(fd, &c, 1, 0) <= 0;
}

TEST(a_connection_with_its_greeting_is_returned)
{
    begin(LONG_MS);
    CHECK_INT(next(), -1);
    CHECK_INT(errno, EAGAIN);
    int client = kit_tcp_connect(&at);
    send_greeting(client);
    check_greeting(next());
    CHECK_INT(next(), -1);
    CHECK_INT(errno, EAGAIN);
    end();
}

TEST(silent_connections_do_not_delay_others)
{
    begin(LONG_MS);
    int silent[50];
    for (int i = 0; i < 50; i++)
        silent[i] = kit_tcp_connect(&at);
    CHECK_INT(write(silent[3], "\xff", 1), 1);
    for (int i = 0; i < 3; i++) {
        int client = kit_tcp_connect(&at);
        send_greeting(client);
        check_greeting(next());
    }
    send_greeting(silent[7]); /* it was late */
    check_greeting(next());
    end();
    CHECK(is_closed(silent[0]));
}

/* libpmix waits for the listener before it calls. */
TEST(the_listener_is_readable_while_connections_wait)
{
    begin(LONG_MS);
    int late = kit_tcp_connect(&at), client = kit_tcp_connect(&at);
    send_greeting(client);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    CHECK_INT(poll(&p, 1, LONG_MS), 1);
    check_greeting(next());
    send_greeting(late);
    CHECK_INT(poll(&p, 1, LONG_MS), 1);
    check_greeting(next());
    end();
}

static void *send_in_pieces(void *arg)
{
    char greeting[16 + PAYLOAD];
    make_greeting(greeting);
    for (size_t i = 0; i < sizeof greeting; i += 9) {
        size_t n = sizeof greeting - i < 9 ? sizeof greeting - i : 9;
        CHECK_INT(write(*(int *)arg, greeting + i, n), n);
        usleep(1000);
    }
    return NULL;
}

TEST(a_greeting_in_pieces_is_awaited)
{
    begin(LONG_MS);
    int client = kit_tcp_connect(&at);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, send_in_pieces, &client), 0);
    int fd;
    while ((fd = next()) < 0) /* until the connection has arrived */
        ;
    check_greeting(fd);
    pthread_join(thread, NULL);
    end();
}

TEST(other_bytes_and_closed_connections_are_dropped)
{
    static const char *const garbage[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                                          "\xff\xff"};
    begin(LONG_MS);
    for (size_t i = 0; i < COUNT_OF(garbage); i++) {
        int client = kit_tcp_connect(&at);
        CHECK(write(client, garbage[i], strlen(garbage[i])) > 0);
        CHECK_INT(next(), -1);
        CHECK(is_closed(client));
    }
    int half = kit_tcp_connect(&at);
    CHECK_INT(write(half, "\xff\xff", 2), 2);
    close(half);
    CHECK_INT(next(), -1);
    end();
}

TEST(a_greeting_with_a_wrong_payload_is_dropped)
{
    begin(LONG_MS);
    for (int i = 0; i < 16 + PAYLOAD; i++) {
        char greeting[16 + PAYLOAD];
        make_greeting(greeting);
        memset(greeting + 16, i, PAYLOAD);
        int client = kit_tcp_connect(&at);
        CHECK_INT(write(client, greeting, sizeof greeting), sizeof greeting);
        CHECK_INT(next(), -1);
        CHECK(is_closed(client));
    }
    end();
}

TEST(a_silent_connection_is_closed_after_the_limit)
{
    begin(50);
    int client = kit_tcp_connect(&at);
    CHECK_INT(next(), -1);
    CHECK(is_closed(client));
    end();
}

TEST(another_user_is_rejected)
{
    if (geteuid() != 0)
        SKIP("needs root, to connect as another user");
    begin(LONG_MS);
    CHECK_INT(seteuid(12345), 0);
    int client = kit_tcp_connect(&at);
    CHECK_INT(seteuid(0), 0);
    send_greeting(client);
    CHECK_INT(next(), -1);
    CHECK(is_closed(client));
    end();
}

static void *stop_soon(void *arg)
{
    usleep(20000);
    pmix_accept_stop(a);
    return NULL;
}

TEST(a_stop_ends_the_wait)
{
    begin(LONG_MS);
    int client = kit_tcp_connect(&at);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, stop_soon, NULL), 0);
    CHECK_INT(next(), -1);
    CHECK_INT(errno, EAGAIN);
    pthread_join(thread, NULL);
    end();
    CHECK(is_closed(client));
}
