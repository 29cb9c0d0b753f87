/* pairs - schedule of all pairs of nodes in rounds, and detection of slow links and nodes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "common/strbuf.h"

/* Returns the number of rounds for n nodes. By the circle method, one node stays, and the others
 * move by one position per round, so that each pair meets once in n - 1 rounds. If n is odd, there
 * are n rounds, and one node pauses in each round. */
int pairs_rounds(int n);
/* Returns the partner of node `i` in a round, or -1 if the node pauses. */
int pairs_partner(int n, int round, int i);

/* Chooses the ranks that measure: ranks[k * *n + i] is the k-th rank of the i-th node, for k below
 * the returned number of rails. A rail is the ranks of the same number on each node, and thus GPUs
 * and network cards at the same place; each node is in each rail, so that a node with more ranks
 * than another one has ranks that do not measure. With one node there is one rail: all ranks.
 * hosts[r] is the host name of rank r; ranks[] has room for `size`. */
int pairs_rails(int *ranks, int *n, const char *const *hosts, int size);

/* The slow nodes and links. Both arrays are owned. */
struct pairs_slow {
    int *nodes, node_count;
    int (*links)[2], link_count; /* between nodes that are not slow */
    bool uneven;  /* the slowest pair has less than half the rate of the fastest one */
    double usual; /* median rate of the pairs of nodes that are not slow; 0 if n < 2 */
};

/* Finds slow nodes and links. rates[i * n + j] is the rate from i to j, in any unit; the slower
 * direction counts for a pair.
 *
 * A node is slow if more than half of its pairs are slow. A pair is slow if its rate is below m -
 * max(5 s, f m). Here m is the median rate of the N pairs with which it is compared. s is their
 * spread, 1.4826 times the median distance from m, so that up to half of them may be outliers. f is
 * 0.1 + 0.5 / N, since few pairs may have close rates by chance. A rate below m / 2 is always slow.
 * Nodes are judged before links: first the slowest node is compared with the pairs of all others,
 * then the next. A single pair cannot be compared. Free *out with pairs_slow_free(). */
void pairs_judge(struct pairs_slow *out, const double *rates, int n);
/* Returns true if both have the same slow nodes and links. */
bool pairs_same(const struct pairs_slow *a, const struct pairs_slow *b);
void pairs_slow_free(struct pairs_slow *s);

/* A map to print. */
struct pairs_map {
    const double *rates;      /* GB/s, n * n */
    const double *latency_us; /* n * n; 0: not measured */
    const char *const *names; /* of the nodes */
    int n;
    bool color; /* colour the cells by rate, for a terminal */
};

/* Appends a map of the rates, one of the latencies, and a line per slow node or link. */
void pairs_show(struct strbuf *out, const struct pairs_map *m, const struct pairs_slow *s);
