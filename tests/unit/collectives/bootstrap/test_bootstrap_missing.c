#include "collectives/bootstrap/bootstrap_missing.h"

#include "tests/unit/test.h"

static const char *text_of(struct strbuf *b, const char *here, const char *const *nodes)
{
    struct bootstrap_rank_location seats[64] = {0};
    int n = (int)strlen(here);
    for (int r = 0; r < n; r++) {
        seats[r].connected = here[r] == 'x';
        if (nodes)
            snprintf(seats[r].node, sizeof seats[r].node, "%s", nodes[r]);
    }
    strbuf_reset(b);
    bootstrap_missing(b, seats, n);
    return strbuf_str(b);
}

TEST(missing_ranks_are_named_by_node_and_in_runs)
{
    const char *const nodes[] = {"c01", "c01", "c02", "c02", "c03", "c03", "c03", "c04", "c04"};
    struct strbuf b = {0};
    CHECK_STR(text_of(&b, "xx..xxx.x", nodes), "node c02: ranks 2-3; node c04: rank 7");
    CHECK_STR(text_of(&b, "xxxx.x.xx", nodes), "node c03: ranks 4, 6");
    CHECK_STR(text_of(&b, "xxxxxxxxx", nodes), "");
    strbuf_free(&b);
}

TEST(ranks_of_a_node_that_are_laid_out_in_turn_stand_together)
{
    const char *const nodes[] = {"a", "b", "a", "b", "a", "b"};
    struct strbuf b = {0};
    CHECK_STR(text_of(&b, "x..xx.", nodes), "node b: ranks 1, 5; node a: rank 2");
    strbuf_free(&b);
}

TEST(where_the_node_is_not_known_the_ranks_are_named)
{
    struct strbuf b = {0};
    CHECK_STR(text_of(&b, "x..x.", NULL), "ranks 1-2, 4");
    strbuf_free(&b);
}

TEST(a_long_list_is_cut)
{
    struct strbuf b = {0};
    CHECK_HAS(text_of(&b, "x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.", NULL), ", 31 and 4 more");
    strbuf_free(&b);
}
