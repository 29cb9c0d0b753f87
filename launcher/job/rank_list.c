#include "launcher/job/rank_list.h"

enum { RUNS_MAX = 16 };

/* Returns the first index from `from` on whose entry is false: the end of the run of ranks that
 * begins at `from`. */
static int run_end(const bool *in, int n, int from)
{
    while (from < n && in[from])
        from++;
    return from;
}

static int next_run(const bool *in, int n, int from)
{
    while (from < n && !in[from])
        from++;
    return from;
}

static int count(const bool *in, int n)
{
    int all = 0;
    for (int i = 0; i < n; i++)
        all += in[i];
    return all;
}

void rank_list_write(struct strbuf *b, const bool *in, int n, int first)
{
    int all = count(in, n), named = 0;
    for (int from = next_run(in, n, 0), runs = 0; from < n; runs++) {
        int end = run_end(in, n, from);
        const char *separator = runs == 0                   ? (all > 1 ? "ranks " : "rank ")
                                : named + end - from == all ? " and "
                                                            : ", ";
        if (runs == RUNS_MAX) {
            strbuf_printf(b, " and %d more", all - named);
            return;
        }
        strbuf_printf(b, "%s%d", separator, first + from);
        if (end > from + 1)
            strbuf_printf(b, "-%d", first + end - 1);
        named += end - from;
        from = next_run(in, n, end);
    }
}
