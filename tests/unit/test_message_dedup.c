#include "hpo/coordinator/message_dedup.h"

#include "tests/unit/test.h"

TEST(a_message_is_taken_once_and_in_its_turn)
{
    AUTO(taken) struct taken *t = taken_new();
    taken_lease(t, 1);
    CHECK_INT(taken_message(t, 1, 2), TAKEN_GAP);
    CHECK_INT(taken_message(t, 1, 1), TAKEN_NEW);
    CHECK_INT(taken_message(t, 1, 1), TAKEN_BEFORE);
    CHECK_INT(taken_message(t, 1, 4), TAKEN_GAP);
    for (int seq = 2; seq <= 4; seq++)
        CHECK_INT(taken_message(t, 1, seq), TAKEN_NEW);
    CHECK_INT(taken_message(t, 1, 3), TAKEN_BEFORE);
}

TEST(leases_count_each_for_itself)
{
    AUTO(taken) struct taken *t = taken_new();
    taken_lease(t, 1);
    CHECK_INT(taken_message(t, 1, 1), TAKEN_NEW);
    taken_lease(t, 1000);
    CHECK_INT(taken_message(t, 1000, 1), TAKEN_NEW);
    CHECK_INT(taken_message(t, 1, 2), TAKEN_NEW);
    CHECK_INT(taken_message(t, 1000, 3), TAKEN_GAP);
}

TEST(after_a_restart_a_lease_goes_on_where_its_worker_does)
{
    AUTO(taken) struct taken *t = taken_new();
    taken_replay(t, 1, 0);
    taken_replay(t, 1, 3); /* 4 and 5 were taken, but gave no record */
    CHECK_INT(taken_message(t, 1, 3), TAKEN_BEFORE);
    CHECK_INT(taken_message(t, 1, 6), TAKEN_NEW);
    CHECK_INT(taken_message(t, 1, 8), TAKEN_GAP);
    CHECK_INT(taken_message(t, 1, 7), TAKEN_NEW);
}

TEST(of_a_lease_that_was_never_given_nothing_is_kept)
{
    AUTO(taken) struct taken *t = taken_new();
    taken_lease(t, 3);
    static const int64_t far[] = {1, 4, 7, 8, 1000000000000, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(far); i++) {
        CHECK_INT(taken_message(t, far[i], 1), TAKEN_BEFORE);
        CHECK_INT(taken_message(t, far[i], 9), TAKEN_BEFORE);
    }
    CHECK_INT(taken_message(t, 3, INT64_MAX), TAKEN_GAP);
    CHECK_INT(taken_message(t, 3, 1), TAKEN_NEW);
}
