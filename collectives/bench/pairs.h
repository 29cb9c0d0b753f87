/* pairs - every node with every other: who meets whom in which round, and which link or node is
 * slower than the rest. */
#ifndef DROVER_PAIRS_H
#define DROVER_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "common/strbuf.h"

/* The circle method: one stays, the others move on by one seat each round, so that all pairs of n
 * meet once in n - 1 rounds (n of them where n is odd: then one sits out in each). */
int pairs_rounds(int n);
/* Whom `i` meets; -1: nobody. */
int pairs_partner(int n, int round, int i);

/* What is slow. Both arrays are owned. */
struct pairs_slow {
    int *nodes, node_count;
    int (*links)[2], link_count; /* between nodes that are not slow */
    bool uneven;  /* the slowest pair has less than half of the fastest's rate, whatever is slow */
    double usual; /* what the other pairs have, in the unit of the rates; 0: n < 2 */
};

/* rates[i * n + j] is what i sends to j with, of any unit; what counts for a pair is the slower
 * way.
 *
 * A node is slow when more than half of its pairs are, a pair when it is below m - max(5 s, f m): m
 * is the median of the pairs that it is held against, s their spread by the median distance from it
 * (1.4826 MAD, so that up to half of them may be wrong), f = 0.1 + 0.5 / their number, for a few
 * pairs may lie near each other by chance; and in any case when it is below m / 2. Nodes are judged
 * first, the slowest one against the pairs of all others, then the next. With two nodes there is
 * nothing to hold their pair against.
 */
void pairs_judge(struct pairs_slow *out, const double *rates, int n);
/* Whether both name the same nodes and links. */
bool pairs_same(const struct pairs_slow *a, const struct pairs_slow *b);
void pairs_slow_free(struct pairs_slow *s);

/* What is drawn. `names` are the nodes'. */
struct pairs_map {
    const double *rates;      /* GB/s, n * n */
    const double *latency_us; /* n * n; 0: not measured */
    const char *const *names;
    int n;
    bool color; /* shades are colours and blocks of a terminal's; else digits alone */
};

/* A map of the rates, of half a round trip's time, and a sentence for each thing that is slow. */
void pairs_show(struct strbuf *out, const struct pairs_map *m, const struct pairs_slow *s);

#endif
