#include "collectives/bench/bench_pairs.h"

#include <math.h>
#include <stdlib.h>

#include "collectives/bench/analysis/busbw.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/wait_line.h"
#include "launcher/client/client_internal.h"

enum { PING_BYTES = 8, PINGS_MIN = 20, SWEEPS_SAME = 5, SWEEPS_MAX = 12 };
enum { CPU_BYTES = 4 << 20, GPU_BYTES = 64 << 20 };

struct prober {
    const struct bench_opts *o;
    struct drover *d;
    struct drover_comm *comm;
    int rank;
    int peer;
    bool first; /* this rank sends first */
    void *out, *in;
    double *times; /* seconds, one per message */
    int sweep;     /* number of this measurement of all pairs, from 1 */
    struct wait_line wait;
};

/* Exchanges one message and its answer. `sends` is true on the side that sends the message. */
static int exchange(struct prober *m, bool sends, size_t bytes, size_t answer)
{
    int rc = sends ? drover_send(m->comm, m->out, bytes, DROVER_UINT8, m->peer)
                   : drover_recv(m->comm, m->in, bytes, DROVER_UINT8, m->peer);
    if (rc == 0)
        rc = sends ? drover_recv(m->comm, m->in, answer, DROVER_UINT8, m->peer)
                   : drover_send(m->comm, m->out, answer, DROVER_UINT8, m->peer);
    return rc < 0 ? rc : drover_wait(m->comm, m->o->wait_ms);
}

/* Sets *seconds to the median of `n` exchanges; one exchange before them is not timed. */
static int time_messages(struct prober *m, bool sends, size_t bytes, size_t answer, int n,
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

/* Measures the latency, then the rate in both directions. The sender of a direction times it. */
static int measure_pair(struct prober *m, int pings, double *rate, double *latency_us)
{
    size_t bytes = (size_t)m->o->max_bytes;
    double seconds = 0;
    int rc = time_messages(m, m->first, PING_BYTES, PING_BYTES, pings, &seconds);
    *latency_us = seconds / 2 * 1e6;
    for (int direction = 0; direction < 2 && rc == 0; direction++) {
        bool sends = m->first == (direction == 0);
        rc = time_messages(m, sends, bytes, 1, m->o->iters, &seconds);
        if (sends)
            *rate = busbw_rate(bytes, seconds);
    }
    return rc;
}

/* Measures the pairs of the ranks `ranks`, which mine[] gets the rates and latencies of. */
static int run_rounds(struct prober *m, const int *ranks, int n, double *mine)
{
    int pings = m->o->iters > PINGS_MIN ? m->o->iters : PINGS_MIN, me = -1, rc = 0;
    AUTO(free) double *times = xcalloc((size_t)pings, sizeof *times);
    m->times = times;
    for (int i = 0; i < n; i++)
        me = ranks[i] == m->rank ? i : me;
    for (int round = 0; round < pairs_rounds(n) && rc == 0; round++) {
        if (m->rank == 0 && wait_line_due(&m->wait, clock_ms()))
            wait_line_say(&m->wait, clock_ms(), "measurement %d of at most %d, round %d of %d",
                          m->sweep, SWEEPS_MAX, round + 1, pairs_rounds(n));
        int other = me < 0 ? -1 : pairs_partner(n, round, me);
        if (other >= 0) {
            m->peer = ranks[other];
            m->first = me < other;
            rc = measure_pair(m, pings, &mine[other], &mine[n + other]);
        }
        if (rc == 0)
            rc = drover_barrier(m->comm, m->o->wait_ms);
    }
    return rc;
}

/* Measures all pairs of a rail once; keeps earlier results that were better. */
static int measure_rail(struct prober *m, struct bench_pairs *p, int rail, int size)
{
    size_t n = (size_t)p->n, begin = (size_t)rail * n * n;
    const int *ranks = p->ranks + (size_t)rail * n;
    AUTO(free)
    double *mine = xcalloc(2 * n, sizeof *mine), *all = xcalloc(2 * n * (size_t)size, sizeof *all);
    int rc = run_rounds(m, ranks, p->n, mine);
    if (rc == 0)
        rc = comm_gather(m->comm, mine, 2 * n * sizeof *mine, all, m->o->wait_ms);
    for (size_t i = 0; i < n * n && rc == 0; i++) {
        const double *sender = all + 2 * n * (size_t)ranks[i / n];
        double rate = sender[i % n], us = sender[n + i % n], *least = &p->latency_us[begin + i];
        p->rates[begin + i] = fmax(p->rates[begin + i], rate);
        *least = *least > 0 ? fmin(*least, us) : us;
    }
    return rc;
}

/* Measures all rails once. Sets *slow if something is slow; adds to *same if it was slow in `last`,
 * one entry per rail, too. */
static int measure_all(struct prober *m, struct bench_pairs *p, int size, struct pairs_slow *last,
                       bool *slow, int *same)
{
    int rc = 0;
    bool alike = true;
    *slow = false;
    for (int k = 0; k < p->rails && rc == 0; k++) {
        struct pairs_slow s;
        rc = measure_rail(m, p, k, size);
        pairs_judge(&s, p->rates + (size_t)k * (size_t)p->n * (size_t)p->n, p->n);
        *slow |= s.node_count + s.link_count > 0 || s.uneven;
        alike &= pairs_same(&s, &last[k]);
        pairs_slow_free(&last[k]);
        last[k] = s;
    }
    *same = alike ? *same + 1 : 1;
    return rc;
}

/* Measures all pairs again until nothing is slow, or until the same pairs were slow SWEEPS_SAME
 * times in a row. This is needed since other load may slow down one pair, or most pairs, which
 * hides a slow pair. Every rank has the same rates, so all ranks stop at the same time. */
static int measure_until_clear(struct prober *m, struct bench_pairs *p, int size)
{
    AUTO(free) struct pairs_slow *last = xcalloc((size_t)p->rails, sizeof *last);
    bool slow = true;
    int rc = 0, same = 0;
    for (int i = 0; i < SWEEPS_MAX && slow && same < SWEEPS_SAME && rc == 0; i++) {
        m->sweep = i + 1;
        rc = measure_all(m, p, size, last, &slow, &same);
    }
    for (int k = 0; k < p->rails; k++)
        pairs_slow_free(&last[k]);
    return rc;
}

static int run(struct prober *m, struct bench_pairs *p, int size, struct err *e)
{
    const struct backend *b = comm_backend(m->comm);
    struct backend_comm *inner = comm_inner(m->comm);
    size_t bytes = m->o->max_bytes > PING_BYTES ? m->o->max_bytes : PING_BYTES;
    int rc = b->mem_alloc(inner, bytes, BACKEND_BUFFERS, &m->out, e);
    if (rc == 0)
        rc = b->mem_alloc(inner, bytes, BACKEND_BUFFERS, &m->in, e);
    if (rc < 0)
        return rc;
    if ((rc = measure_until_clear(m, p, size)) < 0) {
        *e = *client_err(m->d);
        return rc; /* the buffers are not freed, since an aborted call may still write to them */
    }
    b->mem_free(inner, m->out);
    b->mem_free(inner, m->in);
    return 0;
}

int bench_pairs_run(struct bench_pairs *out, const struct bench_opts *o, struct drover *d,
                    struct drover_comm *c, const struct bench_report_device *devices, struct err *e)
{
    int size = drover_size(d);
    struct prober m = {.o = o, .d = d, .comm = c, .rank = drover_rank(d)};
    wait_line_begin(&m.wait, clock_ms());
    AUTO(free) const char **hosts = xcalloc((size_t)size, sizeof *hosts);
    for (int r = 0; r < size; r++)
        hosts[r] = devices[r].host;
    *out = (struct bench_pairs){.ranks = xcalloc((size_t)size, sizeof *out->ranks)};
    out->rails = pairs_rails(out->ranks, &out->n, hosts, size);
    size_t results = (size_t)out->rails * (size_t)out->n * (size_t)out->n;
    out->rates = xcalloc(results, sizeof *out->rates);
    out->latency_us = xcalloc(results, sizeof *out->latency_us);
    return run(&m, out, size, e);
}

uint64_t bench_pairs_bytes(const struct drover_comm *c, uint64_t max_bytes)
{
    bool gpu = comm_backend(c)->caps(comm_inner(c)) & BACKEND_DEVICE_MEMORY;
    uint64_t bytes = gpu ? GPU_BYTES : CPU_BYTES;
    return bytes < max_bytes ? bytes : max_bytes;
}

void bench_pairs_free(struct bench_pairs *p)
{
    free(p->ranks);
    free(p->rates);
    free(p->latency_us);
}
