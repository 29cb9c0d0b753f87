#include "collectives/comm/collective.h"

#include <errno.h>
#include <stdint.h>

#include "collectives/comm/comm_internal.h"
#include "tests/unit/test.h"

/* Written out by hand from drover.h and nccl-tests, so that a wrong row is noticed. */
static const struct {
    const char *name;
    bool reduces, has_root, in_place, counts;
    int in, out;  /* elements of rank 0 of 4 for a count of 1, the root; -1: varying */
    double busbw; /* of 4 ranks; 0: not measured */
} facts[] = {
    {"all_reduce", true, false, true, true, 1, 1, 1.5},
    {"broadcast", false, true, true, true, 1, 1, 1},
    {"reduce", true, true, true, true, 1, 1, 1},
    {"all_gather", false, false, true, true, 1, 4, 0.75},
    {"reduce_scatter", true, false, true, true, 4, 1, 0.75},
    {"alltoall", false, false, true, true, 4, 4, 0.75},
    {"gather", false, true, true, true, 1, 4, 0.75},
    {"scatter", false, true, true, true, 4, 1, 0.75},
    {"alltoallv", false, false, false, false, -1, -1, 0.75},
    {"sendrecv", false, false, false, true, 1, 1, 1},
    {"barrier", false, false, false, false, 0, 0, 0},
    {"send", false, false, false, true, 1, 0, 0},
    {"recv", false, false, false, true, 0, 1, 0},
};

static int elements(enum collective_extent extent)
{
    return extent == COLLECTIVE_NO_BUFFER ? 0
           : extent == COLLECTIVE_WHOLE   ? 1
           : extent == COLLECTIVE_PARTS   ? 4
                                          : -1;
}

TEST(each_row_has_the_facts_of_drover_h_and_nccl_tests)
{
    CHECK_INT(COUNT_OF(facts), COLLECTIVES);
    for (int i = 0; i < COLLECTIVES; i++) {
        enum collective c = (enum collective)i;
        const struct collective_row *row = collective_row(c);
        CHECK_STR(collective_name(c), facts[i].name);
        CHECK_INT(collective_reduces(c), facts[i].reduces);
        CHECK_INT(collective_has_root(c), facts[i].has_root);
        CHECK_INT(collective_counts(c), facts[i].counts);
        CHECK_INT(collective_in_place(c), facts[i].in_place);
        CHECK_INT(elements(row->in), facts[i].in);
        CHECK_INT(elements(row->out), facts[i].out);
        CHECK_INT(row->busbw_factor != NULL, facts[i].busbw > 0);
        if (row->busbw_factor)
            CHECK_NEAR(row->busbw_factor(4), facts[i].busbw, 1e-15);
    }
}

TEST(a_collective_is_found_by_both_of_its_names)
{
    for (int i = 0; i < COLLECTIVES; i++)
        CHECK_INT(collective_find(facts[i].name), i);
    CHECK_INT(collective_find("all_to_all"), COLLECTIVE_ALL_TO_ALL);
    CHECK_INT(collective_find("all_to_all_v"), COLLECTIVE_ALL_TO_ALL_V);
    CHECK_INT(collective_find("allreduce"), -EINVAL);
}

TEST(only_the_root_has_the_buffer_that_the_others_lack)
{
    CHECK(collective_reads(COLLECTIVE_BROADCAST, 2, 2) &&
          !collective_reads(COLLECTIVE_BROADCAST, 1, 2));
    CHECK(collective_reads(COLLECTIVE_SCATTER, 2, 2) &&
          !collective_reads(COLLECTIVE_SCATTER, 1, 2));
    CHECK(collective_writes(COLLECTIVE_REDUCE, 2, 2) &&
          !collective_writes(COLLECTIVE_REDUCE, 1, 2));
    CHECK(collective_writes(COLLECTIVE_GATHER, 2, 2) &&
          !collective_writes(COLLECTIVE_GATHER, 1, 2));
    CHECK(collective_reads(COLLECTIVE_GATHER, 1, 2) && collective_writes(COLLECTIVE_SCATTER, 1, 2));
    CHECK(!collective_writes(COLLECTIVE_SEND, 1, 1) && !collective_reads(COLLECTIVE_RECV, 1, 1));
}

TEST(blocks_come_from_the_root_each_rank_or_the_rank_before)
{
    CHECK_INT(collective_source_rank(COLLECTIVE_GATHER, 3, 1, 3, 5), 1);
    CHECK_INT(collective_source_rank(COLLECTIVE_SCATTER, 1, 0, 3, 5), 3);
    CHECK_INT(collective_source_rank(COLLECTIVE_SENDRECV, 0, 0, 3, 5), 4);
}
