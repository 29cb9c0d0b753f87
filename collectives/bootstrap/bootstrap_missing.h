/* bootstrap_missing - lists the ranks that did not connect: "node c03: ranks 4-7". */
#pragma once

#include <stdbool.h>

#include "common/strbuf.h"

enum { BOOTSTRAP_NODE_BYTES = 64 };

struct bootstrap_rank_location {
    bool connected;
    char node[BOOTSTRAP_NODE_BYTES]; /* "": unknown */
};

/* Appends the ranks 0 … n-1 that are not connected, grouped by node, and returns their number. A
 * long list is cut. */
int bootstrap_missing(struct strbuf *b, const struct bootstrap_rank_location *locations, int n);
