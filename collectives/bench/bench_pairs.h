/* bench_pairs - `drover bench --pairs`: every node with every other, round by round, in one job. */
#ifndef DROVER_BENCH_PAIRS_H
#define DROVER_BENCH_PAIRS_H

#include "collectives/bench/bench.h"
#include "collectives/bench/pairs.h"

/* What every rank knows afterwards. Owned. */
struct bench_pairs {
    int n;          /* nodes; ranks, where all are on one */
    int *ranks;     /* that took part, one for each */
    double *rates;  /* GB/s, n * n, by sender and receiver */
    double *lat_us; /* half a round trip */
};

/* Collective. The first rank of each node takes part, or every rank where there is one node. A rate
 * is the median of o->iters messages of o->max_bytes, each answered with a byte; latency that of as
 * many (at least 20) of 8 bytes there and back. Pairs of a round work at the same time, rounds do
 * not. While something is slow (pairs_judge()) all is measured again, 12 times at most, and the
 * best of each pair counts.
 *   -ETIMEDOUT  past o->wait_ms */
int bench_pairs_run(struct bench_pairs *out, const struct bench_opts *o, struct drover *d,
                    struct drover_comm *c, const struct bench_report_device *devices,
                    struct err *e);
void bench_pairs_free(struct bench_pairs *p);

#endif
