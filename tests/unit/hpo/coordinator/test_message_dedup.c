#include "hpo/coordinator/message_dedup.h"

#include "tests/unit/test.h"

TEST(a_message_is_accepted_once_and_in_order)
{
    struct message_dedup dedup = {0}, *t = &dedup;
    message_dedup_lease(t, 1);
    CHECK_INT(message_dedup_check(t, 1, 2), MESSAGE_DEDUP_GAP);
    CHECK_INT(message_dedup_check(t, 1, 1), MESSAGE_DEDUP_NEW);
    CHECK_INT(message_dedup_check(t, 1, 1), MESSAGE_DEDUP_DUPLICATE);
    CHECK_INT(message_dedup_check(t, 1, 4), MESSAGE_DEDUP_GAP);
    for (int seq = 2; seq <= 4; seq++)
        CHECK_INT(message_dedup_check(t, 1, seq), MESSAGE_DEDUP_NEW);
    CHECK_INT(message_dedup_check(t, 1, 3), MESSAGE_DEDUP_DUPLICATE);
    message_dedup_clear(t);
}

TEST(each_lease_has_its_own_numbers)
{
    struct message_dedup dedup = {0}, *t = &dedup;
    message_dedup_lease(t, 1);
    CHECK_INT(message_dedup_check(t, 1, 1), MESSAGE_DEDUP_NEW);
    message_dedup_lease(t, 1000);
    CHECK_INT(message_dedup_check(t, 1000, 1), MESSAGE_DEDUP_NEW);
    CHECK_INT(message_dedup_check(t, 1, 2), MESSAGE_DEDUP_NEW);
    CHECK_INT(message_dedup_check(t, 1000, 3), MESSAGE_DEDUP_GAP);
    message_dedup_clear(t);
}

TEST(after_a_restart_a_lease_may_begin_with_a_gap)
{
    struct message_dedup dedup = {0}, *t = &dedup;
    message_dedup_replay(t, 1, 0);
    message_dedup_replay(t, 1, 3); /* 4 and 5 were accepted, but made no record */
    CHECK_INT(message_dedup_check(t, 1, 3), MESSAGE_DEDUP_DUPLICATE);
    CHECK_INT(message_dedup_check(t, 1, 6), MESSAGE_DEDUP_NEW);
    CHECK_INT(message_dedup_check(t, 1, 8), MESSAGE_DEDUP_GAP);
    CHECK_INT(message_dedup_check(t, 1, 7), MESSAGE_DEDUP_NEW);
    message_dedup_clear(t);
}

TEST(nothing_is_stored_for_an_unknown_lease)
{
    struct message_dedup dedup = {0}, *t = &dedup;
    message_dedup_lease(t, 3);
    static const int64_t far[] = {1, 4, 7, 8, 1000000000000, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(far); i++) {
        CHECK_INT(message_dedup_check(t, far[i], 1), MESSAGE_DEDUP_DUPLICATE);
        CHECK_INT(message_dedup_check(t, far[i], 9), MESSAGE_DEDUP_DUPLICATE);
    }
    CHECK_INT(message_dedup_check(t, 3, INT64_MAX), MESSAGE_DEDUP_GAP);
    CHECK_INT(message_dedup_check(t, 3, 1), MESSAGE_DEDUP_NEW);
    message_dedup_clear(t);
}
