/* bench_pairs - measures the rate and the latency between every two nodes (`drover bench
 * --pairs`). */
#pragma once

#include "collectives/bench/analysis/pairs.h"
#include "collectives/bench/bench.h"

/* The result, the same on every rank. The arrays are owned. */
struct bench_pairs {
    int all, rounds;    /* if bisected: number of nodes, and rounds that it took; else 0 */
    double usual;       /* … and the median rate of all pairs, GB/s */
    int n, rails;       /* number of nodes; with one node, of ranks. See pairs_rails() */
    int *ranks;         /* rails * n: the rank that measured, per rail and node */
    double *rates;      /* rails * n * n, by rail, sender and receiver, GB/s */
    double *latency_us; /* the same, half a round trip */
};

/* Measures all pairs, one rail after the other. Collective.
 * A rate is the median of o->iters messages of o->max_bytes, each answered with one byte. The
 * latency is the median of as many messages (at least 20) of 8 bytes there and back. The pairs of a
 * round work at the same time. While a node or link is slow (pairs_judge()), all pairs are measured
 * again, at most 12 times, and the best result of each pair counts. With o->bisect_from nodes or
 * more, pairs_bisect looks for suspects first, with at most 3 messages per pair and round; the
 * result then has the suspects and two other nodes, and n is 0 if there is no suspect. The caller
 * must call bench_pairs_free() in every case.
 *   -ETIMEDOUT  a message took longer than o->wait_ms */
int bench_pairs_run(struct bench_pairs *out, const struct bench_opts *o, struct drover *d,
                    struct drover_comm *c, const struct bench_report_device *devices,
                    struct err *e);
void bench_pairs_free(struct bench_pairs *p);

/* Returns the default size of a message, for which the bandwidth matters and not the latency: at
 * 50 GB/s, 64 MiB take 1.3 ms on a GPU, whose latency is some 20 us. At most max_bytes. */
uint64_t bench_pairs_bytes(const struct drover_comm *c, uint64_t max_bytes);
