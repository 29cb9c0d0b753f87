#include "launcher/job/rank_list.h"

enum { RUNS_MAX = 16 };

void rank_list_write(struct strbuf *b, const bool *in, int n, int first)
{
    int all = 0, named = 0, runs = 0;
    for (int i = 0; i < n; i++)
        all += in[i];
    for (int from = 0, end; from < n; from = end + 1) {
        for (end = from; end < n && in[end];)
            end++;
        if (end == from)
            continue;
        if (runs == RUNS_MAX) {
            strbuf_printf(b, " and %d more", all - named);
            return;
        }
        const char *separator = runs++ == 0                 ? (all > 1 ? "ranks " : "rank ")
                                : named + end - from == all ? " and "
                                                            : ", ";
        strbuf_printf(b, "%s%d", separator, first + from);
        if (end > from + 1)
            strbuf_printf(b, "-%d", first + end - 1);
        named += end - from;
    }
}
