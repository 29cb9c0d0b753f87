/* exchange_absent - which ranks did not come, for people: "node c03: ranks 4-7; node c04: rank 9".
 * Pure. */
#ifndef DROVER_BOOTSTRAP_MISSING_H
#define DROVER_BOOTSTRAP_MISSING_H

#include <stdbool.h>

#include "common/strbuf.h"

enum { EXCHANGE_NODE_BYTES = 64 };

struct exchange_seat {
    bool here;
    char node[EXCHANGE_NODE_BYTES]; /* "": not known */
};

/* Appends the ranks of `n` that are not here, by node, and says how many there are. A long list is
 * cut. */
int exchange_absent(struct strbuf *b, const struct exchange_seat *seats, int n);

#endif
