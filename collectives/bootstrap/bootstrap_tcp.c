/* bootstrap_tcp_new - between the ranks themselves: rank 0 listens, the others come to it. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
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

enum {
    PORTS = 16, /* after MASTER_PORT, which is torch's */
    GREETING_MS = 1000,
    PAUSE_MS = 10, /* between two looks for rank 0; doubled up to … */
    PAUSE_MAX_MS = 500,
    ASK_MS = 1000, /* for who is missing, when this rank has given up */
    KEY_MAX = 255,
};

struct way {
    struct rank_identity who;
    uint32_t round;
    struct strbuf said, all;
};

/* Across rounds: how many there were, and the port that was rank 0's. */
static struct {
    uint32_t rounds;
    int port;
} session;

/* ---- where rank 0 is ---------------------------------------------------------------------------
 */

struct place {
    const char *host;
    int first, count; /* ports; rank 0 has one of them */
    bool chosen;      /* by DROVER_BOOT_PORT: it may be held for us, bound */
};

static int port_of(int *out, const char *name, struct err *e)
{
    const char *text = getenv(name);
    char *end = NULL;
    long port = text ? strtol(text, &end, 10) : 0;
    if (!text || *end || port < 1 || port > 65535)
        return err_set(e, -EINVAL, "%s is '%s', which is no port", name, text ? text : "");
    *out = (int)port;
    return 0;
}

static int find_place(struct place *p, const struct way *w, struct err *e)
{
    p->host = getenv("MASTER_ADDR");
    p->chosen = getenv("DROVER_BOOT_PORT") != NULL;
    p->count = 1;
    if (!p->host || !*p->host || (!p->chosen && !getenv("MASTER_PORT"))) {
        err_set(e, -ENOTSUP,
                "nobody serves PMIx to this rank, MASTER_ADDR and MASTER_PORT are not set, and it "
                "has %d others to find",
                w->who.size - 1);
        return err_hint(e, "start the job with drover run, mpirun, srun --mpi=pmix or torchrun");
    }
    if (p->chosen)
        return port_of(&p->first, "DROVER_BOOT_PORT", e);
    int rc = port_of(&p->first, "MASTER_PORT", e);
    p->first = p->first + PORTS > 65535 ? p->first - PORTS : p->first + 1;
    p->count = PORTS;
    return rc;
}

/* Of what tells this job from others. */
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

static struct exchange_hello hello_of(const struct way *w)
{
    const struct rank_identity *who = &w->who;
    struct exchange_hello h;
    memset(&h, 0, sizeof h);
    h.magic = EXCHANGE_MAGIC;
    h.token = job_token();
    h.rank = (uint32_t)who->rank;
    h.size = (uint32_t)who->size;
    h.round = w->round;
    h.bytes = (uint32_t)w->said.len;
    if (gethostname(h.node, sizeof h.node - 1) < 0)
        h.node[0] = '\0';
    /* Ranks laid out node by node: then this one's neighbours are known too. */
    if (getenv("LOCAL_WORLD_SIZE") && who->rank - who->local_rank == who->node * who->local_size) {
        h.first = (uint32_t)(who->rank - who->local_rank);
        h.local_size = (uint32_t)who->local_size;
    }
    return h;
}

AUTO_DEFINE(found, struct addrinfo *, freeaddrinfo)

static int look_up(struct addrinfo **out, const char *host, int port, struct err *e)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int rc = getaddrinfo(host, service, &hints, out);
    if (rc != 0)
        return err_set(e, -EHOSTUNREACH, "MASTER_ADDR is '%s': %s", host, gai_strerror(rc));
    return 0;
}

/* ---- rank 0 ------------------------------------------------------------------------------------
 */

static int listen_at(const struct sockaddr *to, socklen_t len, bool reuse)
{
    AUTO(fd) int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int yes = 1;
    if (fd < 0 || (reuse && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0) ||
        bind(fd, to, len) < 0 || listen(fd, SOMAXCONN) < 0)
        return -errno;
    return fd_take(&fd);
}

/* At MASTER_ADDR, or, where that is a name for this machine that it does not have itself, anywhere.
 */
static int listen_port(const struct place *p, int port, struct err *e)
{
    AUTO(found) struct addrinfo *found = NULL;
    int fd = look_up(&found, p->host, port, e);
    if (fd < 0)
        return fd;
    /* A port that another drover holds for its job, bound, would be ours too with SO_REUSEADDR. */
    bool reuse = p->chosen || port == session.port;
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        if ((fd = listen_at(a->ai_addr, a->ai_addrlen, reuse)) >= 0 || fd == -EADDRINUSE)
            break;
    if (fd == -EADDRNOTAVAIL) {
        struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        fd = listen_at((struct sockaddr *)&any, sizeof any, reuse);
    }
    return fd < 0 ? err_set(e, fd, "port %d of %s: %s", port, p->host, strerror(-fd)) : fd;
}

static int listen_somewhere(const struct place *p, struct err *e)
{
    int fd = session.port ? listen_port(p, session.port, e) : -EADDRINUSE;
    for (int i = 0; fd < 0 && i < p->count; i++) {
        fd = listen_port(p, p->first + i, e);
        session.port = fd >= 0 ? p->first + i : 0;
    }
    if (fd < 0)
        err_hint(e, "DROVER_BOOT_PORT=PORT, on all ranks, names a free port of rank 0's node");
    return fd;
}

static int meet_at_0(struct way *w, const struct place *p, int64_t timeout_ms, struct err *e)
{
    AUTO(fd) int listener = listen_somewhere(p, e);
    if (listener < 0)
        return listener;
    struct exchange_hello mine = hello_of(w);
    struct bootstrap_server h = {&mine, &w->said, listener, timeout_ms};
    return bootstrap_server_accept_all(&w->all, &h, e);
}

/* ---- the others --------------------------------------------------------------------------------
 */

/* A connection, or -errno. */
static int connect_to(const struct addrinfo *a, int64_t end_ms)
{
    AUTO(fd) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        int64_t left = end_ms - clock_ms();
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int error = 0;
        socklen_t len = sizeof error;
        if (poll(&p, 1, left > 0 ? (int)left : 0) != 1)
            return -ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
            return error ? -error : -errno;
    }
    return fd_take(&fd);
}

/* Connected to rank 0 of this job, or -errno. */
static int find_0_at(const struct place *p, int port, int64_t end_ms, struct err *e)
{
    AUTO(found) struct addrinfo *found = NULL;
    int rc = look_up(&found, p->host, port, e);
    int64_t soon = clock_ms() + GREETING_MS;
    soon = soon < end_ms ? soon : end_ms;
    for (const struct addrinfo *a = found; rc >= 0 && a; a = a->ai_next) {
        AUTO(fd) int fd = connect_to(a, soon);
        struct exchange_greeting hi;
        rc = fd < 0 ? fd : bootstrap_server_recv(fd, &hi, sizeof hi, soon);
        if (rc == 0 && hi.magic == EXCHANGE_MAGIC && hi.token == job_token())
            return fd_take(&fd);
        rc = 0;
    }
    return rc < 0 ? rc : -ECONNREFUSED;
}

static int find_0(const struct place *p, int64_t timeout_ms, struct err *e)
{
    int64_t end = clock_ms() + timeout_ms;
    struct err why = {0};
    for (int pause = PAUSE_MS;; pause = pause < PAUSE_MAX_MS ? 2 * pause : PAUSE_MAX_MS) {
        for (int i = 0; i < p->count; i++) {
            int fd = find_0_at(p, p->first + i, end, &why);
            if (fd >= 0)
                return fd;
        }
        int64_t left = end - clock_ms();
        if (left <= 0)
            break;
        (void)poll(NULL, 0, (int)(left < pause ? left : pause));
    }
    err_set(e, -ETIMEDOUT, "rank 0 does not answer at %s, port%s %d%s for %lld ms%s%s", p->host,
            p->count > 1 ? "s from" : "", p->first, p->count > 1 ? " on," : ",",
            (long long)timeout_ms, why.text[0] ? ": " : "", why.text);
    return err_hint(e, "see what rank 0 does, and whether this node reaches it; DROVER_BOOT_PORT "
                       "chooses the port");
}

static int take_answer(struct way *w, int fd, int64_t end_ms, struct err *e)
{
    struct exchange_answer a;
    int rc = bootstrap_server_recv(fd, &a, sizeof a, end_ms);
    if (rc < 0)
        return rc;
    size_t most = (size_t)w->who.size * (EXCHANGE_SAID_MAX + sizeof(uint32_t));
    AUTO(free) char *bytes = a.bytes <= most ? calloc(1, (size_t)a.bytes + 1) : NULL;
    if (a.magic != EXCHANGE_MAGIC || !bytes)
        return err_set(e, -EPROTO, "rank 0 gave an answer that makes no sense");
    rc = bootstrap_server_recv(fd, bytes, a.bytes, end_ms + ASK_MS);
    if (rc < 0)
        return rc;
    if (a.code == 0)
        strbuf_add(&w->all, bytes, a.bytes);
    else
        err_set(e, a.code < 0 ? a.code : -EPROTO, "%s", bytes);
    return a.code == 0 ? 0 : err_hint(e, "see what the missing ranks do, and who started these");
}

static int meet_0(struct way *w, const struct place *p, int64_t timeout_ms, struct err *e)
{
    int64_t end = clock_ms() + timeout_ms;
    AUTO(fd) int fd = find_0(p, timeout_ms, e);
    if (fd < 0)
        return fd;
    struct exchange_hello mine = hello_of(w);
    struct err said = {0};
    int rc = bootstrap_server_send(fd, &mine, sizeof mine, end);
    if (rc == 0)
        rc = bootstrap_server_send(fd, strbuf_str(&w->said), w->said.len, end);
    if (rc == 0)
        rc = take_answer(w, fd, end, &said);
    if (rc == -ETIMEDOUT && !said.text[0]) { /* rank 0 knows who is missing */
        (void)shutdown(fd, SHUT_WR);
        rc = take_answer(w, fd, clock_ms() + ASK_MS, &said);
    }
    if (rc < 0 && !said.text[0])
        return err_set(e, rc, "rank 0 at %s %s", p->host,
                       rc == -ETIMEDOUT ? "gave no answer in time" : "has ended or given up");
    if (e && rc < 0)
        *e = said;
    return rc;
}

/* ---- put, fence, get ---------------------------------------------------------------------------
 */

static int tcp_put(void *arg, const char *key, const void *bytes, size_t len, struct err *e)
{
    struct way *w = arg;
    size_t name = strlen(key) + 1;
    uint32_t n = (uint32_t)len;
    if (name > KEY_MAX || w->said.len + name + sizeof n + len > EXCHANGE_SAID_MAX)
        return err_set(e, -EMSGSIZE, "'%s': a rank may put %d bytes in all", key,
                       EXCHANGE_SAID_MAX);
    strbuf_add(&w->said, key, name);
    strbuf_add(&w->said, &n, sizeof n);
    strbuf_add(&w->said, bytes, len);
    return 0;
}

static int tcp_fence(void *arg, int64_t timeout_ms, struct err *e)
{
    struct way *w = arg;
    struct place p = {0};
    int rc = find_place(&p, w, e);
    if (rc < 0)
        return rc;
    w->round = ++session.rounds;
    strbuf_reset(&w->all);
    return w->who.rank == 0 ? meet_at_0(w, &p, timeout_ms, e) : meet_0(w, &p, timeout_ms, e);
}

/* The next piece of what is at *at: its length, then its bytes. NULL: there is none. */
static const char *piece(const char **at, const char *end, uint32_t *len)
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
    const struct way *w = arg;
    const char *at = strbuf_str(&w->all), *end = at + w->all.len, *said = NULL;
    uint32_t bytes = 0;
    for (int r = 0; r <= rank; r++)
        if (!(said = piece(&at, end, &bytes)))
            return err_set(e, -EPROTO, "rank %d has put nothing", rank);
    for (end = said + bytes; said < end;) {
        const char *name = said, *value = NULL;
        said = memchr(name, '\0', (size_t)(end - name));
        if (!said++ || !(value = piece(&said, end, &bytes)))
            break;
        if (strcmp(name, key) != 0)
            continue;
        if (bytes != len)
            break;
        memcpy(out, value, len);
        return 0;
    }
    return err_set(e, -EPROTO, "rank %d put no '%s' of %zu bytes", rank, key, len);
}

static void tcp_free(void *arg)
{
    struct way *w = arg;
    strbuf_free(&w->said);
    strbuf_free(&w->all);
    free(w);
}

void bootstrap_tcp_new(struct bootstrap *x, const struct rank_identity *who)
{
    struct way *w = xzalloc(sizeof *w);
    w->who = *who;
    *x = (struct bootstrap){{w, tcp_put, tcp_fence, tcp_get}, tcp_free};
}
