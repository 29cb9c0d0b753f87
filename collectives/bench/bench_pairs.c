#include "collectives/bench/bench_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/busbw.h"
#include "common/clock.h"
#include "common/mem.h"
#include "launcher/client/client_internal.h"

enum { PING_BYTES = 8, PINGS_MIN = 20, SWEEPS_SAME = 5, SWEEPS_MAX = 12 };

struct meeting {
    const struct bench_opts *o;
    struct drover *d;
    struct drover_comm *comm;
    int rank; /* this one's */
    int peer;
    bool first; /* it sends first */
    void *out, *in;
    double *times; /* room for as many as there are messages */
};

/* A message and its answer, on either side. */
static int exchange(struct meeting *m, bool sends, size_t bytes, size_t answer)
{
    int rc = sends ? drover_send(m->comm, m->out, bytes, DROVER_UINT8, m->peer)
                   : drover_recv(m->comm, m->in, bytes, DROVER_UINT8, m->peer);
    if (rc == 0)
        rc = sends ? drover_recv(m->comm, m->in, answer, DROVER_UINT8, m->peer)
                   : drover_send(m->comm, m->out, answer, DROVER_UINT8, m->peer);
    return rc < 0 ? rc : drover_wait(m->comm, m->o->wait_ms);
}

/* The median of `n` of them, in seconds; one before that sets things up. */
static int time_messages(struct meeting *m, bool sends, size_t bytes, size_t answer, int n,
                         double *seconds)
{
    int rc = exchange(m, sends, bytes, answer);
    for (int i = 0; i < n && rc == 0; i++) {
        double begin = clock_s();
        rc = exchange(m, sends, bytes, answer);
        m->times[i] = clock_s() - begin;
    }
    if (rc == 0)
        *seconds = stats_median(m->times, (size_t)n);
    return rc;
}

/* There, back, and the latency; what this rank sends is timed here. */
static int meet(struct meeting *m, int pings, double *rate, double *lat_us)
{
    size_t bytes = (size_t)m->o->max_bytes;
    double seconds = 0;
    int rc = time_messages(m, m->first, PING_BYTES, PING_BYTES, pings, &seconds);
    *lat_us = seconds / 2 * 1e6;
    for (int way = 0; way < 2 && rc == 0; way++) {
        bool sends = m->first == (way == 0);
        rc = time_messages(m, sends, bytes, 1, m->o->iters, &seconds);
        if (sends)
            *rate = busbw_rate(bytes, seconds);
    }
    return rc;
}

/* The ranks that take part: one of each host, or all where there is one. */
static int choose(int *ranks, const struct bench_report_device *devices, int size)
{
    int n = 0;
    for (int r = 0; r < size; r++) {
        bool seen = false;
        for (int k = 0; k < n; k++)
            seen |= strcmp(devices[ranks[k]].host, devices[r].host) == 0;
        if (!seen)
            ranks[n++] = r;
    }
    for (int r = 0; n == 1 && r < size; r++)
        ranks[r] = r;
    return n == 1 ? size : n;
}

static int rounds(struct meeting *m, const struct bench_pairs *p, double *mine)
{
    int pings = m->o->iters > PINGS_MIN ? m->o->iters : PINGS_MIN, me = -1, rc = 0;
    AUTO(free) double *times = xcalloc((size_t)pings, sizeof *times);
    m->times = times;
    for (int i = 0; i < p->n; i++)
        me = p->ranks[i] == m->rank ? i : me;
    for (int round = 0; round < pairs_rounds(p->n) && rc == 0; round++) {
        int other = me < 0 ? -1 : pairs_partner(p->n, round, me);
        if (other >= 0) {
            m->peer = p->ranks[other];
            m->first = me < other;
            rc = meet(m, pings, &mine[other], &mine[p->n + other]);
        }
        if (rc == 0)
            rc = drover_barrier(m->comm, m->o->wait_ms);
    }
    return rc;
}

/* One sweep; what was measured before stays where it was better. */
static int sweep(struct meeting *m, struct bench_pairs *p, int size)
{
    size_t n = (size_t)p->n;
    AUTO(free)
    double *mine = xcalloc(2 * n, sizeof *mine), *all = xcalloc(2 * n * (size_t)size, sizeof *all);
    int rc = rounds(m, p, mine);
    if (rc == 0)
        rc = comm_gather(m->comm, mine, 2 * n * sizeof *mine, all, m->o->wait_ms);
    for (size_t i = 0; i < n * n && rc == 0; i++) {
        const double *of = all + 2 * n * (size_t)p->ranks[i / n];
        double rate = of[i % n], us = of[n + i % n];
        p->rates[i] = fmax(p->rates[i], rate);
        p->lat_us[i] = p->lat_us[i] > 0 ? fmin(p->lat_us[i], us) : us;
    }
    return rc;
}

/* Something else may have been in the way of a pair that looks slow, or of so many that a slow one
 * does not stand out: all get further chances, until nothing is slow or the same has been said
 * SWEEPS_SAME times in a row. Every rank sees the same rates, and so goes on or ends as the others
 * do. */
static int sweeps(struct meeting *m, struct bench_pairs *p, int size)
{
    struct pairs_slow last = {0};
    bool slow = true;
    int rc = 0, same = 0;
    for (int i = 0; i < SWEEPS_MAX && slow && same < SWEEPS_SAME && rc == 0; i++) {
        rc = sweep(m, p, size);
        struct pairs_slow s;
        pairs_judge(&s, p->rates, p->n);
        slow = s.node_count + s.link_count > 0 || s.uneven;
        same = pairs_same(&s, &last) ? same + 1 : 1;
        pairs_slow_free(&last);
        last = s;
    }
    pairs_slow_free(&last);
    return rc;
}

static int run(struct meeting *m, struct bench_pairs *p, int size, struct err *e)
{
    const struct backend *b = comm_backend(m->comm);
    struct backend_comm *inner = comm_inner(m->comm);
    size_t bytes = m->o->max_bytes > PING_BYTES ? m->o->max_bytes : PING_BYTES;
    int rc = b->mem_alloc(inner, bytes, BACKEND_BUFFERS, &m->out, e);
    if (rc == 0)
        rc = b->mem_alloc(inner, bytes, BACKEND_BUFFERS, &m->in, e);
    if (rc < 0)
        return rc;
    if ((rc = sweeps(m, p, size)) < 0) {
        *e = *client_err(m->d);
        return rc; /* the buffers stay: what was given up may still write to them */
    }
    b->mem_free(inner, m->out);
    b->mem_free(inner, m->in);
    return 0;
}

int bench_pairs_run(struct bench_pairs *out, const struct bench_opts *o, struct drover *d,
                    struct drover_comm *c, const struct bench_report_device *devices, struct err *e)
{
    int size = drover_size(d);
    struct meeting m = {.o = o, .d = d, .comm = c, .rank = drover_rank(d)};
    *out = (struct bench_pairs){.ranks = xcalloc((size_t)size, sizeof *out->ranks)};
    out->n = choose(out->ranks, devices, size);
    out->rates = xcalloc((size_t)out->n * (size_t)out->n, sizeof *out->rates);
    out->lat_us = xcalloc((size_t)out->n * (size_t)out->n, sizeof *out->lat_us);
    return run(&m, out, size, e);
}

void bench_pairs_free(struct bench_pairs *p)
{
    free(p->ranks);
    free(p->rates);
    free(p->lat_us);
}
