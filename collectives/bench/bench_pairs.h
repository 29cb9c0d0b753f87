/* bench_pairs - measures the rate and the latency between every two nodes (`drover bench
 * --pairs`). */
#ifndef DROVER_BENCH_PAIRS_H
#define DROVER_BENCH_PAIRS_H

#include "collectives/bench/analysis/pairs.h"
#include "collectives/bench/bench.h"

/* The result, the same on every rank. The arrays are owned. */
struct bench_pairs {
    int n;              /* number of nodes; with one node, of ranks */
    int *ranks;         /* by node: the rank that measured */
    double *rates;      /* n * n, by sender and receiver, GB/s */
    double *latency_us; /* n * n, half a round trip */
};

/* Measures all pairs. Collective. The first rank of each node measures; with one node, every rank.
 * A rate is the median of o->iters messages of o->max_bytes, each answered with one byte. The
 * latency is the median of as many messages (at least 20) of 8 bytes there and back. The pairs of a
 * round work at the same time. While a node or link is slow (pairs_judge()), all pairs are measured
 * again, at most 12 times, and the best result of each pair counts. The caller must call
 * bench_pairs_free() in every case.
 *   -ETIMEDOUT  a message took longer than o->wait_ms */
int bench_pairs_run(struct bench_pairs *out, const struct bench_opts *o, struct drover *d,
                    struct drover_comm *c, const struct bench_report_device *devices,
                    struct err *e);
void bench_pairs_free(struct bench_pairs *p);

#endif
