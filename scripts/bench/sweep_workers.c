/* sweep_workers - N simulated workers of one coordinator, over real ZeroMQ sockets: each says
 * hello, takes a trial, reports once a second for S seconds and waits for each report's
 * acknowledgement, which says that it is in the store. A worker that has ended stays connected
 * until all have ended. A connection is renewed as drover's workers do it (transport_client.h).
 *
 *     sweep_workers ENDPOINT KEYFILE|- N S PROCESSES
 *
 * Prints one line of JSON: p50, p99 and worst of the time from a report to its acknowledgement, in
 * ms, of all reports, of those while workers joined, and of those when all had their trial.
 * scripts/bench/sweep-workers starts it, and the coordinator. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <zmq.h>

#include "common/mem.h"
#include "hpo/transport/curve_keys.h"
#include "hpo/transport/wire.h"

enum {
    BATCH = 64,
    CONNECT_MS = 8000, /* for all to connect */
    RENEW_MIN_US = 60000000,
    RENEW_SPREAD_US = 60000000
};

struct sim {
    void *sock;
    int number;
    int64_t lease, due_us, sent_us; /* due: of the next report; 0: none */
    int said, heard;                /* reports */
    int64_t instance;               /* of the sweep */
    int64_t conn, renew_us;         /* connections so far; when the next is due */
    bool ended;
};

/* Shared by all processes; the samples follow it. */
struct shared {
    atomic_int there, ended;  /* workers that have had a trial; whose last report is stored */
    _Atomic int64_t whole_us; /* when all had; 0: not yet */
};

struct crowd {
    const char *endpoint;
    const struct curve_keys *keys; /* NULL: plain */
    int count, seconds, first;
    struct sim *sims;
    float *took_ms; /* count * seconds; of all processes */
    bool *early;    /* the same size: some workers had no trial yet */
    struct shared *shared;
    int everybody; /* workers of all processes */
    void *zmq;
    int epoll;
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void fail(const char *what)
{
    fprintf(stderr, "sweep_workers: %s: %s\n", what, zmq_strerror(errno));
    exit(1);
}

static void say(struct sim *s, enum wire_kind kind, int64_t seq, json_t *data)
{
    struct wire_msg m = {.kind = kind,
                         .conn = s->conn,
                         .instance = seq ? s->instance : 0,
                         .lease = seq ? s->lease : 0,
                         .seq = seq,
                         .data = data};
    AUTO(strbuf) struct strbuf b = {0};
    struct err e = {0};
    if (wire_encode(&b, &m, &e) < 0) {
        fprintf(stderr, "sweep_workers: %s\n", e.text);
        exit(1);
    }
    wire_msg_clear(&m);
    if (zmq_send(s->sock, b.data, b.len, ZMQ_DONTWAIT) < 0)
        fail("send");
}

static void report(struct crowd *c, struct sim *s, int64_t now)
{
    s->sent_us = now;
    s->due_us = ++s->said < c->seconds ? s->due_us + 1000000 : 0;
    say(s, WIRE_REPORT, s->said, json_pack("{s:i,s:f}", "step", s->said, "loss", 1.0 / s->said));
}

static void acknowledged(struct crowd *c, struct sim *s, int64_t seq, int64_t now)
{
    if (s->ended || seq != s->said)
        return; /* of the end, or one that was late: the next one had been said */
    size_t at = (size_t)(c->first + s->number) * (size_t)c->seconds + (size_t)s->heard++;
    c->took_ms[at] = (float)(now - s->sent_us) / 1e3f;
    int64_t whole_us = c->shared->whole_us;
    c->early[at] = !whole_us || s->sent_us < whole_us;
    if (s->said < c->seconds)
        return;
    s->ended = true;
    atomic_fetch_add(&c->shared->ended, 1);
    say(s, WIRE_LEAVING, 0, NULL); /* the trials that are left are for those who come */
    say(s, WIRE_DONE, s->said + 1,
        json_pack("{s:i,s:i,s:b,s:f}", "status", 0, "signal", 0, "oom", 0, "seconds", 1.0));
}

static void take(struct crowd *c, struct sim *s, const struct wire_msg *m)
{
    int64_t now = now_us();
    if (m->kind == WIRE_REQUIREMENTS)
        s->instance = m->instance;
    if (m->kind == WIRE_ACK) {
        acknowledged(c, s, m->seq, now);
    } else if (m->kind == WIRE_RUN && s->lease == 0) {
        s->lease = m->lease;
        s->due_us = now + 1000000 + (int64_t)(1e6 * (s->number % 997) / 997); /* spread */
        if (atomic_fetch_add(&c->shared->there, 1) + 1 == c->everybody)
            c->shared->whole_us = now;
    }
}

/* Reads all there is: a send may have swallowed the descriptor's signal. */
static void hear(struct crowd *c, struct sim *s)
{
    for (;;) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        int n = zmq_msg_recv(&frame, s->sock, ZMQ_DONTWAIT);
        struct wire_msg m;
        struct err e = {0};
        if (n >= 0 && wire_decode(&m, zmq_msg_data(&frame), (size_t)n, &e) == 0) {
            take(c, s, &m);
            wire_msg_clear(&m);
        }
        zmq_msg_close(&frame);
        if (n < 0)
            return;
    }
}

/* Opens its next connection (wire.h). */
static void hello(struct sim *s)
{
    json_t *running = json_array();
    if (s->lease && !s->ended)
        json_array_append_new(running, json_integer(s->lease));
    s->conn++;
    s->renew_us = now_us() + RENEW_MIN_US + rand() % RENEW_SPREAD_US;
    say(s, WIRE_HELLO, 0,
        json_pack("{s:s,s:i,s:o,s:i,s:i,s:i}", "node", "sim", "slots", s->ended ? 0 : 1, "running",
                  running, "cpus", 1, "gpus", 0, "ping_ms", 5000));
}

/* Only while nothing that it said waits for its acknowledgement. */
static void renew(struct crowd *c, struct sim *s)
{
    if (zmq_disconnect(s->sock, c->endpoint) < 0 || zmq_connect(s->sock, c->endpoint) < 0)
        fail(c->endpoint);
    hello(s);
}

static void join(struct crowd *c, struct sim *s)
{
    char id[32];
    int fd = -1, n = snprintf(id, sizeof id, "sim-%d", c->first + s->number), none = 0;
    size_t len = sizeof fd;
    s->sock = zmq_socket(c->zmq, ZMQ_DEALER);
    if (!s->sock || zmq_setsockopt(s->sock, ZMQ_ROUTING_ID, id, (size_t)n) < 0 ||
        zmq_setsockopt(s->sock, ZMQ_LINGER, &none, sizeof none) < 0)
        fail("socket");
    const struct curve_keys *k = c->keys;
    if (k && (zmq_setsockopt(s->sock, ZMQ_CURVE_SERVERKEY, k->other, CURVE_KEYS_BYTES) < 0 ||
              zmq_setsockopt(s->sock, ZMQ_CURVE_PUBLICKEY, k->own, CURVE_KEYS_BYTES) < 0 ||
              zmq_setsockopt(s->sock, ZMQ_CURVE_SECRETKEY, k->secret, CURVE_KEYS_BYTES) < 0))
        fail("keys");
    if (zmq_connect(s->sock, c->endpoint) < 0 || zmq_getsockopt(s->sock, ZMQ_FD, &fd, &len) < 0)
        fail(c->endpoint);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
        fail("epoll");
    hello(s);
}

/* One process: joins at an even pace, then reports when it is due, until those of all processes
 * have ended: thousands of connections that close at once hold the coordinator up. */
static int run(struct crowd *c)
{
    srand((unsigned)c->first + 1);
    c->sims = xcalloc((size_t)c->count, sizeof *c->sims);
    c->zmq = zmq_ctx_new();
    c->epoll = epoll_create1(0);
    zmq_ctx_set(c->zmq, ZMQ_MAX_SOCKETS, c->count + 16);
    int64_t began = now_us();
    int joined = 0;
    while (c->shared->ended < c->everybody) {
        struct epoll_event ready[BATCH];
        int n = epoll_wait(c->epoll, ready, BATCH, 1);
        for (int i = 0; i < n; i++)
            hear(c, ready[i].data.ptr);
        int64_t now = now_us();
        for (; joined < c->count && (now - began) / 1000 * c->count >= (int64_t)joined * CONNECT_MS;
             joined++) {
            c->sims[joined].number = joined;
            join(c, &c->sims[joined]);
            hear(c, &c->sims[joined]); /* the socket signals new messages only after it was found
                                          empty */
        }
        for (int i = 0; i < joined; i++) {
            struct sim *s = &c->sims[i];
            if (s->due_us && s->said && s->heard == s->said && now >= s->renew_us)
                renew(c, s);
            if (!s->due_us || s->due_us > now)
                continue;
            report(c, s, now_us());
            hear(c, s);
        }
    }
    int64_t until = now_us() + 500000; /* for the last words to leave */
    while (now_us() < until)
        epoll_wait(c->epoll, (struct epoll_event[1]){0}, 1, 50);
    return 0;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

enum which { ALL, EARLY, LATER };

/* Prints the percentiles of the selected samples as members of a JSON object. */
static void print(const char *name, const float *took, const bool *early, enum which which,
                  size_t n)
{
    AUTO(free) float *some = xcalloc(n + 1, sizeof *some);
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (took[i] > 0 && (which == ALL || early[i] == (which == EARLY)))
            some[m++] = took[i];
    qsort(some, m, sizeof *some, by_size);
    printf(", \"%s\": {\"count\": %zu, \"p50_ms\": %.2f, \"p99_ms\": %.2f, \"worst_ms\": %.2f}",
           name, m, some[m / 2], some[m * 99 / 100], m ? some[m - 1] : 0);
}

static void print_all(const float *took, const bool *early, size_t n)
{
    size_t late = 0;
    for (size_t i = 0; i < n; i++)
        late += took[i] == 0; /* not acknowledged within its second */
    printf("{\"reports\": %zu, \"late\": %zu", n, late);
    print("all", took, early, ALL, n);
    print("joining", took, early, EARLY, n);
    print("there", took, early, LATER, n);
    puts("}");
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("sweep_workers ENDPOINT KEYFILE|- N S PROCESSES\n", stderr);
        return 2;
    }
    struct curve_keys keys;
    AUTO(free) char *endpoint = NULL;
    struct err e = {0};
    bool plain = strcmp(argv[2], "-") == 0;
    if (!plain && curve_keys_read(&keys, &endpoint, argv[2], &e) < 0) {
        fprintf(stderr, "sweep_workers: %s\n", e.text);
        return 2;
    }
    int n = atoi(argv[3]), seconds = atoi(argv[4]), processes = atoi(argv[5]);
    size_t cells = (size_t)n * (size_t)seconds;
    struct shared *shared = mmap(NULL, sizeof *shared + cells * (sizeof(float) + sizeof(bool)),
                                 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("memory");
    float *took = (float *)(shared + 1);
    bool *early = (bool *)(took + cells);
    for (int p = 0; p < processes; p++) {
        int first = n / processes * p, count = p + 1 < processes ? n / processes : n - first;
        struct crowd c = {.endpoint = argv[1],
                          .keys = plain ? NULL : &keys,
                          .count = count,
                          .seconds = seconds,
                          .first = first,
                          .took_ms = took,
                          .early = early,
                          .shared = shared,
                          .everybody = n};
        pid_t pid = fork();
        if (pid == 0)
            _exit(run(&c));
        if (pid < 0)
            fail("fork");
    }
    int status = 0, bad = 0;
    while (wait(&status) > 0)
        bad |= status;
    print_all(took, early, cells);
    return bad != 0;
}
