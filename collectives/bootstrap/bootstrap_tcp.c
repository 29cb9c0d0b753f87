/* bootstrap_tcp - bootstrap over TCP between the ranks. Rank 0 listens, and the other ranks connect
 * to it. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/bootstrap/bootstrap_server.h"
#include "common/clock.h"
#include "common/fnv_hash.h"
#include "common/listen.h"
#include "common/plural.h"

enum {
    PORTS = 16, /* number of ports after MASTER_PORT to try; torch uses MASTER_PORT itself */
    GREETING_MS = 1000,
    PAUSE_MS = 10, /* pause between two attempts to reach rank 0, doubled each time up to … */
    PAUSE_MAX_MS = 500,
    ASK_MS = 1000, /* time to wait for the list of missing ranks, after this rank gave up */
    KEY_MAX = 255,
};

struct tcp_bootstrap {
    struct rank_identity identity;
    uint32_t round;
    struct strbuf put; /* the bytes that this rank has put: key, NUL, length, value, and so on */
    struct strbuf all; /* the bytes that all ranks have put */
};

/* The number of rounds so far, and the port of rank 0 in the last round. */
static struct {
    uint32_t rounds;
    int port;
} session;

/* ---- address of rank 0 ---------------------------------------------------------------------- */

struct rank0_address {
    const char *host;
    int first, count; /* the ports first … first + count - 1; rank 0 listens on one of them */
    bool chosen; /* DROVER_BOOT_PORT is set; drover may have bound this port to reserve it for the
                    job */
};

static int read_port(int *out, const char *name, struct err *e)
{
    const char *text = getenv(name);
    char *end = NULL;
    long port = text ? strtol(text, &end, 10) : 0;
    if (!text || *end || port < 1 || port > 65535)
        return err_set(e, -EINVAL, "%s: invalid port '%s' (1 to 65535)", name, text ? text : "");
    *out = (int)port;
    return 0;
}

static int find_rank0_address(struct rank0_address *r0, const struct tcp_bootstrap *t,
                              struct err *e)
{
    r0->host = getenv("MASTER_ADDR");
    r0->chosen = getenv("DROVER_BOOT_PORT") != NULL;
    r0->count = 1;
    if (!r0->host || !*r0->host || (!r0->chosen && !getenv("MASTER_PORT"))) {
        err_set(e, -ENOTSUP,
                "cannot find the other %d rank%s: no PMIx server, and MASTER_ADDR and MASTER_PORT "
                "are not set",
                t->identity.size - 1, plural_s(t->identity.size - 1));
        return err_hint(e, "start the job with drover run, mpirun, srun --mpi=pmix or torchrun");
    }
    if (r0->chosen)
        return read_port(&r0->first, "DROVER_BOOT_PORT", e);
    int rc = read_port(&r0->first, "MASTER_PORT", e);
    r0->first = r0->first + PORTS > 65535 ? r0->first - PORTS : r0->first + 1;
    r0->count = PORTS;
    return rc;
}

/* Returns a hash of variables that distinguish this job from other jobs. */
static uint64_t job_token(void)
{
    uint64_t h = FNV_HASH_INIT;
    const char *const names[] = {"DROVER_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_PORT",
                                 "TORCHELASTIC_RESTART_COUNT"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *text = getenv(names[i]);
        h = fnv_hash_text(h, text ? text : "");
    }
    return h;
}

static struct bootstrap_hello hello_of(const struct tcp_bootstrap *t)
{
    const struct rank_identity *identity = &t->identity;
    struct bootstrap_hello h;
    memset(&h, 0, sizeof h);
    h.magic = BOOTSTRAP_MAGIC;
    h.token = job_token();
    h.rank = (uint32_t)identity->rank;
    h.size = (uint32_t)identity->size;
    h.round = t->round;
    h.bytes = (uint32_t)t->put.len;
    if (gethostname(h.node, sizeof h.node - 1) < 0)
        h.node[0] = '\0';
    /* If ranks are numbered node by node, the other ranks of this node are known, too. */
    if (getenv("LOCAL_WORLD_SIZE") &&
        identity->rank - identity->local_rank == identity->node * identity->local_size) {
        h.first = (uint32_t)(identity->rank - identity->local_rank);
        h.local_size = (uint32_t)identity->local_size;
    }
    return h;
}

AUTO_DEFINE(found, struct addrinfo *, freeaddrinfo)

static int resolve(struct addrinfo **out, const char *host, int port, struct err *e)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int rc = getaddrinfo(host, service, &hints, out);
    if (rc != 0)
        return err_set(e, -EHOSTUNREACH, "MASTER_ADDR '%s': %s", host, gai_strerror(rc));
    return 0;
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

/* Listens at MASTER_ADDR. If this node does not have that address, listens at all addresses.
 * Returns a socket or a negative errno. */
static int listen_at(const struct rank0_address *r0, int port, struct err *e)
{
    AUTO(found) struct addrinfo *found = NULL;
    int fd = resolve(&found, r0->host, port, e);
    if (fd < 0)
        return fd;
    /* With SO_REUSEADDR, bind() would also accept a port that another drover has bound to reserve
     * it for its job. */
    enum listen_reuse reuse = r0->chosen || port == session.port ? LISTEN_REUSE : LISTEN_ALONE;
    struct listen_address at;
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        at = listen_address_of(a->ai_addr);
        if ((fd = listen_open(&at, reuse, SOMAXCONN)) >= 0 || fd == -EADDRINUSE)
            break;
    }
    if (fd == -EADDRNOTAVAIL) {
        at = listen_everywhere(port);
        fd = listen_open(&at, reuse, SOMAXCONN);
    }
    return fd < 0 ? err_set(e, fd, "port %d of %s: %s", port, r0->host, strerror(-fd)) : fd;
}

static int listen_on_any(const struct rank0_address *r0, struct err *e)
{
    int fd = session.port ? listen_at(r0, session.port, e) : -EADDRINUSE;
    for (int i = 0; fd < 0 && i < r0->count; i++) {
        fd = listen_at(r0, r0->first + i, e);
        session.port = fd >= 0 ? r0->first + i : 0;
    }
    if (fd < 0)
        err_hint(e, "set DROVER_BOOT_PORT on all ranks to a free port of rank 0's node");
    return fd;
}

static int run_as_rank0(struct tcp_bootstrap *t, const struct rank0_address *r0, int64_t timeout_ms,
                        struct err *e)
{
    AUTO(fd) int listener = listen_on_any(r0, e);
    if (listener < 0)
        return listener;
    struct bootstrap_hello mine = hello_of(t);
    struct bootstrap_server h = {&mine, &t->put, listener, timeout_ms};
    return bootstrap_server_accept_all(&t->all, &h, e);
}

/* ---- the other ranks ------------------------------------------------------------------------ */

/* Returns a socket that is connected to rank 0 of this job, or a negative errno. */
static int connect_to_rank0_at(const struct rank0_address *r0, int port, int64_t end_ms,
                               struct err *e)
{
    AUTO(found) struct addrinfo *found = NULL;
    int rc = resolve(&found, r0->host, port, e);
    int64_t soon = clock_ms() + GREETING_MS;
    soon = soon < end_ms ? soon : end_ms;
    for (const struct addrinfo *a = found; rc >= 0 && a; a = a->ai_next) {
        AUTO(fd) int fd = bootstrap_server_connect(a, soon);
        struct bootstrap_greeting hi;
        rc = fd < 0 ? fd : bootstrap_server_recv(fd, &hi, sizeof hi, soon);
        if (rc == 0 && hi.magic == BOOTSTRAP_MAGIC && hi.token == job_token())
            return fd_take(&fd);
        rc = 0;
    }
    return rc < 0 ? rc : -ECONNREFUSED;
}

static int connect_to_rank0(const struct rank0_address *r0, int64_t timeout_ms, struct err *e)
{
    int64_t end = clock_ms() + timeout_ms;
    struct err why = {0};
    for (int pause = PAUSE_MS;; pause = pause < PAUSE_MAX_MS ? 2 * pause : PAUSE_MAX_MS) {
        for (int i = 0; i < r0->count; i++) {
            int fd = connect_to_rank0_at(r0, r0->first + i, end, &why);
            if (fd >= 0)
                return fd;
        }
        int64_t left = end - clock_ms();
        if (left <= 0)
            break;
        (void)poll(NULL, 0, (int)(left < pause ? left : pause));
    }
    err_set(e, -ETIMEDOUT, "rank 0 does not answer at %s, port%s %d%s within %lld ms%s%s", r0->host,
            r0->count > 1 ? "s from" : "", r0->first, r0->count > 1 ? " on," : ",",
            (long long)timeout_ms, why.text[0] ? ": " : "", why.text);
    return err_hint(e,
                    "check rank 0, and the network to its node; DROVER_BOOT_PORT selects the port");
}

static int read_answer(struct tcp_bootstrap *t, int fd, int64_t end_ms, struct err *e)
{
    struct bootstrap_answer a;
    int rc = bootstrap_server_recv(fd, &a, sizeof a, end_ms);
    if (rc < 0)
        return rc;
    size_t bytes_max = (size_t)t->identity.size * (BOOTSTRAP_PUT_BYTES_MAX + sizeof(uint32_t));
    if (a.magic != BOOTSTRAP_MAGIC || a.bytes > bytes_max)
        return err_set(e, -EPROTO, "invalid answer from rank 0");
    AUTO(free) char *bytes = try_calloc((size_t)a.bytes + 1, 1);
    if (!bytes)
        return err_set(e, -ENOMEM, "no memory for %zu bytes from rank 0", (size_t)a.bytes);
    rc = bootstrap_server_recv(fd, bytes, a.bytes, end_ms + ASK_MS);
    if (rc < 0)
        return rc;
    if (a.code == 0)
        strbuf_add(&t->all, bytes, a.bytes);
    else
        err_set(e, a.code < 0 ? a.code : -EPROTO, "%s", bytes);
    return a.code == 0 ? 0 : err_hint(e, "check the missing ranks, and how the ranks were started");
}

static int run_as_peer(struct tcp_bootstrap *t, const struct rank0_address *r0, int64_t timeout_ms,
                       struct err *e)
{
    int64_t end = clock_ms() + timeout_ms;
    AUTO(fd) int fd = connect_to_rank0(r0, timeout_ms, e);
    if (fd < 0)
        return fd;
    struct bootstrap_hello mine = hello_of(t);
    struct err answer = {0};
    int rc = bootstrap_server_send(fd, &mine, sizeof mine, end);
    if (rc == 0)
        rc = bootstrap_server_send(fd, strbuf_str(&t->put), t->put.len, end);
    if (rc == 0)
        rc = read_answer(t, fd, end, &answer);
    if (rc == -ETIMEDOUT && !answer.text[0]) { /* asks rank 0 for the missing ranks */
        (void)shutdown(fd, SHUT_WR);
        rc = read_answer(t, fd, clock_ms() + ASK_MS, &answer);
    }
    if (rc < 0 && !answer.text[0])
        return err_set(e, rc, "rank 0 at %s %s", r0->host,
                       rc == -ETIMEDOUT ? "did not answer in time" : "exited or gave up");
    if (e && rc < 0)
        *e = answer;
    return rc;
}

/* ---- put, fence, get ------------------------------------------------------------------------ */

static int tcp_put(void *arg, const char *key, const void *bytes, size_t len, struct err *e)
{
    struct tcp_bootstrap *t = arg;
    size_t name = strlen(key) + 1;
    uint32_t n = (uint32_t)len;
    if (name > KEY_MAX || t->put.len + name + sizeof n + len > BOOTSTRAP_PUT_BYTES_MAX)
        return err_set(e, -EMSGSIZE, "'%s': a rank can put at most %d bytes", key,
                       BOOTSTRAP_PUT_BYTES_MAX);
    strbuf_add(&t->put, key, name);
    strbuf_add(&t->put, &n, sizeof n);
    strbuf_add(&t->put, bytes, len);
    return 0;
}

static int tcp_fence(void *arg, int64_t timeout_ms, struct err *e)
{
    struct tcp_bootstrap *t = arg;
    struct rank0_address r0 = {0};
    int rc = find_rank0_address(&r0, t, e);
    if (rc < 0)
        return rc;
    t->round = ++session.rounds;
    strbuf_reset(&t->all);
    return t->identity.rank == 0 ? run_as_rank0(t, &r0, timeout_ms, e)
                                 : run_as_peer(t, &r0, timeout_ms, e);
}

/* Reads the next field at `*at`, which is a length and then the bytes. Returns the bytes, sets
 * `*len` to their number and advances `*at`. Returns NULL if there is no complete field. */
static const char *next_field(const char **at, const char *end, uint32_t *len)
{
    if (end - *at < (ptrdiff_t)sizeof *len)
        return NULL;
    memcpy(len, *at, sizeof *len);
    const char *bytes = *at + sizeof *len;
    if ((uint64_t)(end - bytes) < *len)
        return NULL;
    *at = bytes + *len;
    return bytes;
}

static int tcp_get(void *arg, int rank, const char *key, void *out, size_t len, struct err *e)
{
    const struct tcp_bootstrap *t = arg;
    const char *at = strbuf_str(&t->all), *end = at + t->all.len, *put = NULL;
    uint32_t bytes = 0;
    for (int r = 0; r <= rank; r++)
        if (!(put = next_field(&at, end, &bytes)))
            return err_set(e, -EPROTO, "rank %d has not put anything", rank);
    for (end = put + bytes; put < end;) {
        const char *name = put, *value = NULL;
        put = memchr(name, '\0', (size_t)(end - name));
        if (!put++ || !(value = next_field(&put, end, &bytes)))
            break;
        if (strcmp(name, key) != 0)
            continue;
        if (bytes != len)
            break;
        memcpy(out, value, len);
        return 0;
    }
    return err_set(e, -EPROTO, "rank %d has not put a '%s' of %zu bytes", rank, key, len);
}

static void tcp_free(void *arg)
{
    struct tcp_bootstrap *t = arg;
    strbuf_free(&t->put);
    strbuf_free(&t->all);
    free(t);
}

void bootstrap_tcp_new(struct bootstrap *b, const struct rank_identity *identity)
{
    struct tcp_bootstrap *t = xzalloc(sizeof *t);
    t->identity = *identity;
    *b = (struct bootstrap){{t, tcp_put, tcp_fence, tcp_get}, tcp_free};
}
