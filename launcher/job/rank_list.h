/* rank_list - a set of ranks as text: "rank 3", "ranks 0, 2-5 and 7". Pure. */
#pragma once

#include <stdbool.h>

#include "common/strbuf.h"

/* Appends the ranks whose entry in `in` is true. `in` has `n` entries; entry 0 is rank `first`. A
 * long list ends with "and N more". Appends nothing if no entry is true. */
void rank_list_write(struct strbuf *b, const bool *in, int n, int first);
