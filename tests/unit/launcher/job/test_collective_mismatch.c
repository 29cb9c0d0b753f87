#include "launcher/job/collective_mismatch.h"

#include "common/mem.h"
#include "tests/unit/test.h"

enum { RANKS_MAX = 8 };

static struct collective_position at[RANKS_MAX];
static struct collective_mismatch_rank ranks[RANKS_MAX];
static bool odd[RANKS_MAX];
static char odd_text[RANKS_MAX + 1];

/* Rank i has completed `done` calls of comm and is in `what` (NULL: in none). */
static void put(int i, const char *comm, int size, uint64_t done, const char *what)
{
    struct collective_position *a = &at[i];
    *a = (struct collective_position){.size = size, .waits_ms = what ? 3200 : 0};
    snprintf(a->comm, sizeof a->comm, "%s", comm);
    for (uint64_t k = done > 3 ? done - 2 : 1; k <= done; k++)
        a->calls[a->count++] = (struct collective_mismatch_call){k, "barrier", 5000, true};
    if (what) {
        struct collective_mismatch_call *c = &a->calls[a->count++];
        *c = (struct collective_mismatch_call){strncmp(what, "recv", 4) ? done + 1 : 0, "", 3200,
                                               false};
        snprintf(c->what, sizeof c->what, "%s", what);
    }
    ranks[i] = (struct collective_mismatch_rank){i, i < 2 ? "c01" : "c02", false, a};
}

static char *text_of(int n)
{
    AUTO(strbuf) struct strbuf b = {0};
    memset(odd, 0, sizeof odd);
    collective_mismatch_write(&b, odd, ranks, n);
    for (int i = 0; i < n; i++)
        odd_text[i] = odd[i] ? 'x' : '.';
    odd_text[n] = '\0';
    return strbuf_take(&b);
}

TEST(a_rank_that_has_not_made_the_call_is_named_with_its_node_and_its_last_call)
{
    for (int i = 0; i < 4; i++)
        put(i, "world", 4, 56, i == 3 ? NULL : "all_reduce of 4 float, sum");
    AUTO(free) char *text = text_of(4);
    CHECK_STR(text,
              "  collectives of 'world', 4 ranks, call 57: made by 3\n"
              "    ranks 0-2: all_reduce of 4 float, sum, for 3.2 s\n"
              "    rank 3 on node c02: has not made it; its last call was barrier, done 5.0 s ago"
              "   <- missing\n");
    CHECK_STR(odd_text, "...x");
}

TEST(a_rank_that_makes_another_call_is_named_with_it)
{
    for (int i = 0; i < 4; i++)
        put(i, "world", 4, 56,
            i == 1 ? "all_reduce of 5 float, sum" : "all_reduce of 4 float, sum");
    AUTO(free) char *text = text_of(4);
    CHECK_HAS(text,
              "call 57: made by 4\n    ranks 0 and 2-3: all_reduce of 4 float, sum, for 3.2 s\n"
              "    rank 1 on node c01: all_reduce of 5 float, sum   <- different call\n");
    CHECK_STR(odd_text, ".x..");
}

TEST(a_rank_whose_other_call_was_done_at_once_is_still_named)
{
    for (int i = 0; i < 4; i++)
        put(i, "world", 4, i == 2 ? 57 : 56, "all_reduce of 4 float, sum");
    AUTO(free) char *text = text_of(4); /* rank 2 made a barrier as call 57 and continues */
    CHECK_HAS(text, "rank 2 on node c02: barrier   <- different call");
    CHECK_STR(odd_text, "..x.");
}

TEST(a_rank_that_makes_another_call_is_named_while_one_is_still_in_the_call_before)
{
    for (int i = 0; i < 4; i++)
        put(i, "world", 4, 56,
            i == 2 ? "all_reduce of 5 float, sum" : "all_reduce of 4 float, sum");
    put(0, "world", 4, 55, "barrier"); /* as all ranks made it */
    AUTO(free) char *text = text_of(4);
    CHECK_HAS(text, "call 57: made by 3\n    ranks 1 and 3: all_reduce of 4 float, sum, for 3.2 s\n"
                    "    rank 2 on node c02: all_reduce of 5 float, sum   <- different call\n");
    CHECK_STR(odd_text, "..x.");
}

TEST(where_all_make_the_same_calls_who_is_behind_is_not_odd)
{
    for (int i = 0; i < 4; i++)
        put(i, "world", 4, 56, "all_reduce of 4 float, sum");
    put(0, "world", 4, 55, "barrier");
    AUTO(free) char *text = text_of(4);
    CHECK_HAS(text, "call 56: made by 4\n");
    CHECK_STR(odd_text, "....");
}

TEST(who_is_missing_is_named_before_calls_that_differ_later)
{
    for (int i = 0; i < 4; i++)
        put(i, "world", 4, 56, "all_reduce of 4 float, sum");
    put(0, "world", 4, 55, NULL);
    put(1, "world", 4, 56, "all_reduce of 5 float, sum");
    AUTO(free) char *text = text_of(4);
    CHECK_HAS(text, "call 56: made by 3\n");
    CHECK_HAS(text, "rank 0 on node c01: has not made it; its last call was barrier");
    CHECK_STR(odd_text, "x...");
}

TEST(a_root_that_runs_ahead_is_not_odd)
{
    for (int i = 0; i < 4; i++)
        put(i, "world", 4, i == 0 ? 90 : 56, i == 3 ? NULL : "broadcast of 4 float, root 0");
    AUTO(free) char *text = text_of(4);
    CHECK_HAS(text, "call 57: made by 2\n    ranks 1-2: broadcast");
    CHECK_STR(odd_text, "...x");
}

TEST(a_rank_that_is_elsewhere_is_told_so)
{
    put(0, "world", 4, 9, "barrier");
    put(1, "world", 4, 9, "barrier");
    put(2, "world/split 1.0", 2, 3, "gather of 1 int8, root 0");
    put(3, "world", 4, 9, "recv of 1 float, rank 0");
    AUTO(free) char *text = text_of(4);
    CHECK_HAS(text, "rank 2 on node c02: has not made it, but is in call 4 of 'world/split 1.0', "
                    "gather of 1 int8, root 0   <- missing\n");
    CHECK_HAS(text, "rank 3 on node c02: has not made it, but is in recv of 1 float, rank 0   <- "
                    "missing\n");
    CHECK_HAS(text, "collectives of 'world/split 1.0', 2 ranks, call 4: made by 1\n");
    CHECK_STR(odd_text, "..xx");
}

TEST(ranks_that_have_ended_or_have_no_communicator_are_missing_too)
{
    put(0, "world", 3, 2, "barrier");
    put(1, "world", 3, 2, NULL);
    put(2, "", 0, 0, NULL);
    ranks[1].exited = true;
    AUTO(free) char *text = text_of(3);
    CHECK_HAS(text, "rank 1 on node c01: has exited without making it; its last call was barrier");
    CHECK_HAS(text, "rank 2 on node c02: has not made it; it has made no call yet");
    CHECK_STR(odd_text, ".xx");
}

TEST(ranks_that_exited_are_named_with_those_that_wait_for_them)
{
    for (int i = 0; i < 8; i++)
        put(i, "world", 8, 2, i == 1 ? NULL : "all_reduce of 4 float, sum");
    ranks[1].exited = true;
    AUTO(free) char *text = text_of(8);
    CHECK_HAS(text, "    rank 1 exited with status 0 while ranks 0 and 2-7 wait in all_reduce\n");
    ranks[1].exited = false;
    AUTO(free) char *missing = text_of(8);
    CHECK(!strstr(missing, "exited with status 0"));
}

TEST(where_nobody_waits_there_is_nothing_to_say)
{
    for (int i = 0; i < 4; i++)
        put(i, i < 2 ? "world" : "", 2, 5, NULL);
    AUTO(free) char *text = text_of(4);
    CHECK_STR(text, "");
    CHECK_STR(odd_text, "....");
}
