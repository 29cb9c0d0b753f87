#include "collectives/bootstrap/bootstrap_missing.h"

#include <string.h>

enum { RUNS_MAX = 16 }; /* limit on the runs of ranks that are listed; "4-7" is one run */

static bool is_missing_on(const struct bootstrap_rank_location *locations, int rank,
                          const char *node)
{
    return !locations[rank].connected && strcmp(locations[rank].node, node) == 0;
}

static int count_missing(const struct bootstrap_rank_location *locations, int n, const char *node)
{
    int count = 0;
    for (int r = 0; r < n; r++)
        count += is_missing_on(locations, r, node);
    return count;
}

/* Appends the missing ranks of the node of rank `first`, up to RUNS_MAX runs. Returns the number of
 * ranks appended. */
static int write_node(struct strbuf *b, const struct bootstrap_rank_location *locations, int n,
                      int first, int *runs)
{
    const char *node = locations[first].node;
    int named = 0;
    if (*node)
        strbuf_printf(b, "node %s: ", node);
    strbuf_puts(b, count_missing(locations, n, node) > 1 ? "ranks " : "rank ");
    for (int r = first; r < n && *runs < RUNS_MAX; r++) {
        if (!is_missing_on(locations, r, node))
            continue;
        int end = r;
        while (end + 1 < n && is_missing_on(locations, end + 1, node))
            end++;
        strbuf_printf(b, end > r ? "%s%d-%d" : "%s%d", named ? ", " : "", r, end);
        named += end - r + 1;
        r = end;
        ++*runs;
    }
    return named;
}

int bootstrap_missing(struct strbuf *b, const struct bootstrap_rank_location *locations, int n)
{
    int all = 0, named = 0, runs = 0;
    for (int r = 0; r < n; r++) {
        if (locations[r].connected)
            continue;
        all++;
        bool named_before = false;
        for (int k = 0; k < r && !named_before; k++)
            named_before = is_missing_on(locations, k, locations[r].node);
        if (named_before || runs == RUNS_MAX)
            continue;
        strbuf_puts(b, named ? "; " : "");
        named += write_node(b, locations, n, r, &runs);
    }
    if (named < all)
        strbuf_printf(b, " and %d more", all - named);
    return all;
}
