#include "collectives/bootstrap/bootstrap_missing.h"

#include <string.h>

enum { RUNS_MAX = 16 }; /* "4-7" is one */

static bool is_one(const struct bootstrap_rank_location *seats, int rank, const char *node)
{
    return !seats[rank].here && strcmp(seats[rank].node, node) == 0;
}

static int count_of(const struct bootstrap_rank_location *seats, int n, const char *node)
{
    int count = 0;
    for (int r = 0; r < n; r++)
        count += is_one(seats, r, node);
    return count;
}

/* The ranks of one node; says how many were named. */
static int write_node(struct strbuf *b, const struct bootstrap_rank_location *seats, int n,
                      int first, int *runs)
{
    const char *node = seats[first].node;
    int named = 0;
    if (*node)
        strbuf_printf(b, "node %s: ", node);
    strbuf_puts(b, count_of(seats, n, node) > 1 ? "ranks " : "rank ");
    for (int r = first; r < n && *runs < RUNS_MAX; r++) {
        if (!is_one(seats, r, node))
            continue;
        int end = r;
        while (end + 1 < n && is_one(seats, end + 1, node))
            end++;
        strbuf_printf(b, end > r ? "%s%d-%d" : "%s%d", named ? ", " : "", r, end);
        named += end - r + 1;
        r = end;
        ++*runs;
    }
    return named;
}

int bootstrap_missing(struct strbuf *b, const struct bootstrap_rank_location *seats, int n)
{
    int all = 0, named = 0, runs = 0;
    for (int r = 0; r < n; r++) {
        if (seats[r].here)
            continue;
        all++;
        bool told = false;
        for (int k = 0; k < r && !told; k++)
            told = is_one(seats, k, seats[r].node);
        if (told || runs == RUNS_MAX)
            continue;
        strbuf_puts(b, named ? "; " : "");
        named += write_node(b, seats, n, r, &runs);
    }
    if (named < all)
        strbuf_printf(b, " and %d more", all - named);
    return all;
}
