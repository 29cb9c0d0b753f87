#include "collectives/bench/ring/ring_probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectives/bootstrap/bootstrap_server.h"
#include "collectives/bootstrap/task.h"
#include "common/clock.h"
#include "common/entropy.h"
#include "common/listen.h"
#include "launcher/node/netif.h"

enum {
    CONNECT_MS = 300,
    SMALL_MS = 1000,
    LARGE_MS = 5000,
    FULL_PACKETS = 64 << 10,
    LARGE = 4 << 20,
    PEERS_MAX = 16,
    PART = 64 << 10
};

/* ---- the server ----------------------------------------------------------------------------- */

/* A connection that was accepted. First comes the token, then messages, each with its length before
 * it. */
struct peer {
    struct task task; /* first */
    int fd;
    char token[RING_PROBE_TOKEN_BYTES];
};

static atomic_int peers; /* number of connections */

struct ring_probe {
    pthread_t thread;
    int listener, stop;
    char token[RING_PROBE_TOKEN_BYTES];
};

/* Reads a message of `left` bytes, and answers it. */
static int answer(int fd, uint32_t left)
{
    char bytes[PART];
    int64_t end_ms = clock_ms() + LARGE_MS;
    int rc = left > LARGE ? -EMSGSIZE : 0;
    for (uint32_t n; left > 0 && rc == 0; left -= n) {
        n = left < sizeof bytes ? left : sizeof bytes;
        rc = bootstrap_server_recv(fd, bytes, n, end_ms);
    }
    return rc < 0 ? rc : bootstrap_server_send(fd, "", 1, end_ms);
}

static void serve_peer(struct task *t)
{
    const struct peer *p = (struct peer *)t;
    char token[RING_PROBE_TOKEN_BYTES];
    uint32_t bytes;
    int rc = bootstrap_server_recv(p->fd, token, sizeof token, clock_ms() + SMALL_MS);
    if (rc == 0 && memcmp(token, p->token, sizeof token) != 0)
        rc = -EACCES;
    while (rc == 0 &&
           (rc = bootstrap_server_recv(p->fd, &bytes, sizeof bytes, clock_ms() + LARGE_MS)) == 0)
        rc = answer(p->fd, bytes);
    close(p->fd);
    peers--;
}

static void accept_peer(const struct ring_probe *r)
{
    int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;
    if (fd < 0)
        return;
    if (peers++ >= PEERS_MAX) {
        peers--;
        close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct peer *p = xzalloc(sizeof *p);
    p->fd = fd;
    memcpy(p->token, r->token, sizeof p->token);
    task_start(&p->task, serve_peer);
    task_free(&p->task); /* when it ends */
}

static void *serve(void *arg)
{
    struct ring_probe *r = arg;
    for (;;) {
        struct pollfd all[] = {{.fd = r->stop, .events = POLLIN},
                               {.fd = r->listener, .events = POLLIN}};
        if (poll(all, COUNT_OF(all), -1) < 0)
            continue; /* EINTR */
        if (all[0].revents)
            return NULL;
        accept_peer(r);
    }
}

/* ---- open and close ------------------------------------------------------------------------- */

static void list_addresses(struct ring_probe_place *place)
{
    AUTO(strv) char **all = NULL;
    netif_addresses(&all);
    for (size_t i = 0; i < strv_len(all) && i < RING_PROBE_ADDRESSES; i++)
        snprintf(place->addresses[i], sizeof place->addresses[i], "%s", all[i]);
    if (!place->addresses[0][0]) /* all ranks are on this machine */
        snprintf(place->addresses[0], sizeof place->addresses[0], "127.0.0.1");
}

int ring_probe_open(struct ring_probe **out, struct ring_probe_place *place, struct err *e)
{
    struct ring_probe *r = xzalloc(sizeof *r);
    *place = (struct ring_probe_place){.port = 0};
    r->stop = eventfd(0, EFD_CLOEXEC);
    struct listen_address everywhere = listen_everywhere(0); /* a neighbour may use any of them */
    int rc = r->stop < 0 ? err_set(e, -errno, "eventfd") : 0;
    r->listener = listen_open(&everywhere, LISTEN_ALONE, PEERS_MAX);
    place->port = (uint16_t)listen_port(&everywhere.at.any);
    if (r->listener < 0)
        rc = err_set(e, r->listener, "a TCP port for the neighbours: %s", strerror(-r->listener));
    if (rc == 0 && (rc = entropy_fill(r->token, sizeof r->token)) < 0)
        err_set(e, rc, "no random numbers for the token: %s", strerror(-rc));
    if (rc == 0 && (rc = -pthread_create(&r->thread, NULL, serve, r)) < 0)
        err_set(e, rc, "a thread for the neighbours: %s", strerror(-rc));
    if (rc < 0) {
        auto_fd(&r->stop);
        auto_fd(&r->listener);
        free(r);
        return rc;
    }
    memcpy(place->token, r->token, sizeof r->token);
    list_addresses(place);
    *out = r;
    return 0;
}

void ring_probe_close(struct ring_probe *p)
{
    const uint64_t one = 1;
    if (!p)
        return;
    (void)!write(p->stop, &one, sizeof one); /* an eventfd takes it */
    pthread_join(p->thread, NULL);
    close(p->listener);
    close(p->stop);
    free(p);
}

/* ---- the client ----------------------------------------------------------------------------- */

/* Returns a connected socket, or a negative errno. */
static int connect_to(const char *address, uint16_t port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return -EADDRNOTAVAIL;
    int fd = bootstrap_server_connect(found, clock_ms() + CONNECT_MS);
    freeaddrinfo(found);
    return fd;
}

/* Sends a message and waits for its answer. Sets *seconds. Returns 0 or a negative errno. */
static int exchange(int fd, uint32_t bytes, int within_ms, double *seconds)
{
    AUTO(free) char *message = xcalloc(bytes, 1);
    char answer;
    double begin = clock_s();
    int64_t end_ms = clock_ms() + within_ms;
    int rc = bootstrap_server_send(fd, &bytes, sizeof bytes, end_ms);
    rc = rc < 0 ? rc : bootstrap_server_send(fd, message, bytes, end_ms);
    rc = rc < 0 ? rc : bootstrap_server_recv(fd, &answer, 1, end_ms);
    *seconds = clock_s() - begin;
    return rc;
}

static void explain_connect(struct ring_probe_result *out, int rc)
{
    if (rc == -ETIMEDOUT)
        snprintf(out->error, sizeof out->error,
                 "no answer within %d ms: a firewall drops the packets, or the link is down",
                 CONNECT_MS);
    else
        snprintf(out->error, sizeof out->error, "%s", strerror(-rc));
}

static int probe(struct ring_probe_result *out, int fd, const char *token)
{
    double seconds = 0;
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int rc = bootstrap_server_send(fd, token, RING_PROBE_TOKEN_BYTES, clock_ms() + SMALL_MS);
    rc = rc < 0 ? rc : exchange(fd, 1, SMALL_MS, &seconds);
    if (rc == 0)
        rc = exchange(fd, 1, SMALL_MS, &seconds); /* the first one waited for the server's thread */
    if (rc < 0) {
        snprintf(out->error, sizeof out->error, "connects, and then answers nothing: %s",
                 strerror(-rc));
        return rc;
    }
    out->latency_us = seconds / 2 * 1e6;
    rc = exchange(fd, FULL_PACKETS, SMALL_MS, &seconds);
    if (rc < 0) {
        snprintf(out->error, sizeof out->error,
                 "one byte arrives, and %d KiB do not within %d ms: large packets vanish, see MTUs",
                 FULL_PACKETS >> 10, SMALL_MS);
        return rc;
    }
    if (exchange(fd, LARGE, LARGE_MS, &seconds) == 0)
        out->gbps = LARGE / seconds / 1e9;
    else
        snprintf(out->error, sizeof out->error, "%d MiB do not arrive within %d s", LARGE >> 20,
                 LARGE_MS / 1000);
    return 0;
}

void ring_probe_try(struct ring_probe_result *out, const struct ring_probe_place *to)
{
    int fd = -EADDRNOTAVAIL;
    *out = (struct ring_probe_result){.gbps = 0};
    for (int i = 0; i < RING_PROBE_ADDRESSES && to->addresses[i][0] && fd < 0; i++) {
        fd = connect_to(to->addresses[i], to->port);
        if (fd >= 0 || i == 0)
            snprintf(out->address, sizeof out->address, "%s", to->addresses[i]);
        if (fd < 0 && i == 0)
            explain_connect(out, fd);
    }
    if (fd < 0)
        return;
    out->error[0] = '\0';
    (void)probe(out, fd, to->token); /* the error is in the result */
    close(fd);
}
