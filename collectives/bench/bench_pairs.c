#include "collectives/bench/bench_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/analysis/busbw.h"
#include "collectives/bench/analysis/pairs_bisect.h"
#include "collectives/bench/analysis/stats.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/wait_line.h"
#include "launcher/client/client_internal.h"

enum { PING_BYTES = 8, PINGS_MIN = 20, SWEEPS_SAME = 5, SWEEPS_MAX = 12 };
enum { BISECT_MESSAGES = 3, BISECT_OTHERS = 2 };
static const double BISECT_SLOW = 0.75; /* share of the usual rate */
enum { CPU_BYTES = 4 << 20, GPU_BYTES = 64 << 20 };

struct prober {
    const struct bench_opts *o;
    struct drover *d;
    struct drover_comm *comm;
    int rank;
    bool quick; /* a round of bisection: few messages, no latency, no barrier between pairs */
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
    int rc = !m->quick ? time_messages(m, m->first, PING_BYTES, PING_BYTES, pings, &seconds) : 0;
    *latency_us = seconds / 2 * 1e6;
    for (int direction = 0; direction < 2 && rc == 0; direction++) {
        bool sends = m->first == (direction == 0);
        rc = time_messages(
            m, sends, bytes, 1,
            m->quick && m->o->iters > BISECT_MESSAGES ? BISECT_MESSAGES : m->o->iters, &seconds);
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
        if (!m->quick && m->rank == 0 && wait_line_due(&m->wait, clock_ms()))
            wait_line_say(&m->wait, clock_ms(), "measurement %d of at most %d, round %d of %d",
                          m->sweep, SWEEPS_MAX, round + 1, pairs_rounds(n));
        int other = me < 0 ? -1 : pairs_partner(n, round, me);
        if (other >= 0) {
            m->peer = ranks[other];
            m->first = me < other;
            rc = measure_pair(m, pings, &mine[other], &mine[n + other]);
        }
        if (rc == 0 && !m->quick)
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

/* ---- many nodes ----------------------------------------------------------------------------- */

/* Rounds of one rail. */
struct survey {
    const int *ranks;
    int n, *group; /* of each node, in this round */
    bool *slow;    /* of each group: the answer */
    double usual;  /* GB/s, from the first round, which has all pairs */
};

/* Measures the pairs inside each group once, all groups at the same time. all[2 n r + k] is the
 * rate from rank r to node k. */
static int measure_groups(struct prober *m, const struct survey *s, double *all)
{
    int me = -1, mates = 0, rc = 0, n = s->n;
    AUTO(free) int *mate = xcalloc((size_t)n, sizeof *mate);
    AUTO(free) int *ranks = xcalloc((size_t)n, sizeof *ranks);
    AUTO(free) double *found = xcalloc(2 * (size_t)n, sizeof *found);
    AUTO(free) double *mine = xcalloc(2 * (size_t)n, sizeof *mine);
    for (int i = 0; i < n; i++)
        me = s->ranks[i] == m->rank ? i : me;
    for (int i = 0; me >= 0 && s->group[me] >= 0 && i < n; i++)
        if (s->group[i] == s->group[me]) {
            ranks[mates] = s->ranks[i];
            mate[mates++] = i;
        }
    rc = run_rounds(m, ranks, mates, found);
    for (int i = 0; i < mates; i++)
        mine[mate[i]] = found[i];
    return rc < 0 ? rc
                  : comm_gather(m->comm, mine, 2 * (size_t)n * sizeof *mine, all, m->o->wait_ms);
}

static double slower_way(const struct survey *s, const double *all, int i, int k)
{
    size_t n = (size_t)s->n;
    return fmin(all[2 * n * (size_t)s->ranks[i] + (size_t)k],
                all[2 * n * (size_t)s->ranks[k] + (size_t)i]);
}

/* Returns the usual rate: the median of the nodes' medians, which few slow nodes do not change. */
static double usual_rate(const struct survey *s, const double *all)
{
    AUTO(free) double *medians = xcalloc((size_t)s->n, sizeof *medians);
    AUTO(free) double *rates = xcalloc((size_t)s->n, sizeof *rates);
    for (int i = 0; i < s->n; i++) {
        size_t count = 0;
        for (int k = 0; k < s->n; k++)
            if (k != i)
                rates[count++] = slower_way(s, all, i, k);
        medians[i] = stats_median(rates, count);
    }
    return stats_median(medians, (size_t)s->n);
}

static void judge_groups(struct survey *s, const double *all)
{
    s->usual = s->usual > 0 ? s->usual : usual_rate(s, all);
    for (int i = 0; i < s->n; i++)
        for (int k = i + 1; k < s->n; k++)
            if (s->group[i] >= 0 && s->group[i] == s->group[k])
                s->slow[s->group[i]] |= slower_way(s, all, i, k) < BISECT_SLOW * s->usual;
}

/* Keeps the suspects of all rails and a few others, as `p` says. */
static void keep_suspects(struct bench_pairs *p, const bool *suspects, int n)
{
    int kept = 0, others = 0, rails = p->rails;
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= suspects[i];
    for (int i = 0; i < n && any; i++) {
        if (!suspects[i] && others++ >= BISECT_OTHERS)
            continue;
        for (int k = 0; k < rails; k++)
            p->ranks[k * n + kept] = p->ranks[k * n + i];
        kept++;
    }
    for (int k = 1; k < rails; k++) /* each rail has kept what it had in front */
        memmove(p->ranks + k * kept, p->ranks + k * n, (size_t)kept * sizeof *p->ranks);
    p->n = kept;
}

/* Returns the number of rounds. Adds the suspects of a rail. */
static int survey_rail(struct prober *m, struct survey *s, int size, bool *suspects)
{
    AUTO(pairs_bisect) struct pairs_bisect *b = pairs_bisect_new(s->n);
    AUTO(free) double *all = xcalloc(2 * (size_t)s->n * (size_t)size, sizeof *all);
    int groups, rounds = 0;
    while ((groups = pairs_bisect_round(b, s->group)) > 0) {
        memset(s->slow, 0, (size_t)groups * sizeof *s->slow);
        int rc = measure_groups(m, s, all);
        if (rc < 0)
            return rc;
        judge_groups(s, all);
        pairs_bisect_answer(b, s->slow);
        rounds++;
    }
    for (int i = 0; i < s->n; i++)
        suspects[i] |= pairs_bisect_suspects(b, i);
    return rounds;
}

static int find_suspects(struct prober *m, struct bench_pairs *p, int size)
{
    int n = p->n, rc = 0;
    AUTO(free) bool *suspects = xcalloc((size_t)n, sizeof *suspects);
    AUTO(free) int *group = xcalloc((size_t)n, sizeof *group);
    AUTO(free) bool *slow = xcalloc(2 * (size_t)n + 2, sizeof *slow);
    m->quick = true;
    p->all = n;
    for (int rail = 0; rail < p->rails && rc >= 0; rail++) {
        struct survey s = {.ranks = p->ranks + rail * n, .n = n, .group = group, .slow = slow};
        rc = survey_rail(m, &s, size, suspects);
        p->rounds = rc > p->rounds ? rc : p->rounds;
        p->usual = s.usual;
    }
    keep_suspects(p, suspects, n);
    m->quick = false;
    return rc < 0 ? rc : 0;
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
    rc = m->o->bisect_from && p->n >= m->o->bisect_from ? find_suspects(m, p, size) : 0;
    size_t results = (size_t)p->rails * (size_t)p->n * (size_t)p->n;
    p->rates = xcalloc(results + 1, sizeof *p->rates);
    p->latency_us = xcalloc(results + 1, sizeof *p->latency_us);
    if (rc == 0 && p->n)
        rc = measure_until_clear(m, p, size);
    if (rc < 0) {
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
