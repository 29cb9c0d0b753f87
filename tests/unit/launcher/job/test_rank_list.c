/* rank_list: single ranks, runs of ranks, and lists that are too long. */
#include "launcher/job/rank_list.h"

#include "common/mem.h"
#include "tests/unit/test.h"

/* Writes the list of the ranks marked with 'x'. */
static char *list_of(const char *marks, int first)
{
    AUTO(strbuf) struct strbuf b = {0};
    bool in[64] = {false};
    for (int i = 0; marks[i]; i++)
        in[i] = marks[i] == 'x';
    rank_list_write(&b, in, (int)strlen(marks), first);
    return b.len ? strbuf_take(&b) : xstrdup("");
}

TEST(runs_of_ranks_are_joined)
{
    static const struct {
        const char *marks, *text;
        int first;
    } rows[] = {
        {"....", "", 0},
        {"x", "rank 0", 0},
        {"..x.", "rank 2", 0},
        {"xx", "ranks 0-1", 0},
        {"x.x", "ranks 0 and 2", 0},
        {"x.xxxxxx", "ranks 0 and 2-7", 0},
        {"x.xx.x", "ranks 0, 2-3 and 5", 0},
        {"x.xx.x", "ranks 8, 10-11 and 13", 8},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(free) char *text = list_of(rows[i].marks, rows[i].first);
        CHECK_STR(text, rows[i].text);
    }
}

TEST(a_long_list_ends_with_a_number)
{
    AUTO(free) char *all = list_of("x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x", 0);
    CHECK_HAS(all, ", 28 and 30");
    AUTO(free) char *more = list_of("x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.xx", 0);
    CHECK_HAS(more, ", 28, 30 and 3 more");
}
