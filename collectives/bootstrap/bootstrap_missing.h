/* bootstrap_missing - which ranks did not come, for people: "node c03: ranks 4-7; node c04: rank
 * 9". Pure. */
#ifndef DROVER_BOOTSTRAP_MISSING_H
#define DROVER_BOOTSTRAP_MISSING_H

#include <stdbool.h>

#include "common/strbuf.h"

enum { BOOTSTRAP_NODE_BYTES = 64 };

struct bootstrap_rank_location {
    bool here;
    char node[BOOTSTRAP_NODE_BYTES]; /* "": not known */
};

/* Appends the ranks of `n` that are not here, by node, and says how many there are. A long list is
 * cut. */
int bootstrap_missing(struct strbuf *b, const struct bootstrap_rank_location *seats, int n);

#endif
