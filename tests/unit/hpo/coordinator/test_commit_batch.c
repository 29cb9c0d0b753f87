#include "hpo/coordinator/commit_batch.h"

#include "common/json.h"
#include "tests/unit/test.h"

static const char *kinds(const struct commit_batch *t)
{
    static char text[64];
    size_t n = 0;
    for (; n < t->effect_count; n++)
        text[n] = t->effects[n].kind == WIRE_RUN         ? 'r'
                  : t->effects[n].kind == WIRE_STOP      ? 's'
                  : t->effects[n].kind == WIRE_KILL      ? 'k'
                  : t->effects[n].kind == WIRE_RECONNECT ? 'w'
                                                         : 'a';
    text[n] = 0;
    return text;
}

static void act(struct commit_batch *t, enum scheduler_action_kind kind, int64_t lease,
                json_t *params)
{
    commit_batch_add_action(
        t, &(struct scheduler_action){
               .kind = kind, .worker = "w", .trial = 7, .lease = lease, .params = params});
}

TEST(a_lease_is_acknowledged_once_per_batch_with_its_highest_number)
{
    struct commit_batch batch = {0}, *t = &batch;
    commit_batch_ack(t, "w", 5, 2);
    commit_batch_ack(t, "v", 3, 9);
    commit_batch_ack(t, "w", 5, 4);
    commit_batch_ack(t, "w", 5, 3);
    CHECK_STR(kinds(t), "aa");
    CHECK_STR(t->effects[0].worker, "w");
    CHECK_INT(t->effects[0].seq, 4);
    CHECK_INT(t->effects[1].lease, 3);
    commit_batch_clear(t);
    commit_batch_ack(t, "w", 5, 1);
    CHECK_INT(t->effects[0].seq, 1);
    commit_batch_free(t);
}

TEST(two_workers_that_report_for_one_lease_are_both_acknowledged)
{
    struct commit_batch batch = {0}, *t = &batch;
    commit_batch_ack(t, "w", 1, 1);
    commit_batch_ack(t, "v", 1, 2);
    CHECK_STR(kinds(t), "aa");
    CHECK_STR(t->effects[0].worker, "w");
    CHECK_INT(t->effects[0].seq, 1);
    CHECK_STR(t->effects[1].worker, "v");
    commit_batch_free(t);
}

TEST(a_recipient_gets_each_message_once_per_batch)
{
    struct commit_batch batch = {0}, *t = &batch;
    for (int i = 0; i < 1000; i++) {
        act(t, SCHEDULER_ACT_STOP, 1, NULL);
        act(t, SCHEDULER_ACT_KILL, 1, NULL);
        commit_batch_request_reconnect(t, "w");
        commit_batch_request_reconnect(t, "v");
    }
    CHECK_STR(kinds(t), "skww");
    commit_batch_clear(t);
    commit_batch_request_reconnect(t, "v");
    CHECK_STR(kinds(t), "w");
    commit_batch_free(t);
}

TEST(each_of_many_effects_is_found_again)
{
    struct commit_batch batch = {0}, *t = &batch;
    for (int64_t round = 1; round <= 3; round++)
        for (int64_t lease = 1; lease <= 5000; lease++)
            commit_batch_ack(t, lease % 2 ? "w" : "v", lease, round * lease);
    for (int64_t lease = 1; lease <= 5000; lease++)
        CHECK_INT(t->effects[lease - 1].seq, 3 * lease);
    CHECK_INT(t->effect_count, 5000);
    commit_batch_free(t);
}

TEST(a_lease_of_any_number_is_acknowledged_without_memory_per_number)
{
    struct commit_batch batch = {0}, *t = &batch;
    commit_batch_ack(t, "w", INT64_MAX, 1);
    CHECK_STR(kinds(t), "a");
    commit_batch_free(t);
}

TEST(acknowledgements_can_wait_and_nothing_else)
{
    struct commit_batch batch = {0}, *t = &batch;
    AUTO(json) json_t *params = json_pack("{s:i}", "x", 1);
    CHECK(t->effect_count == t->ack_count);
    commit_batch_ack(t, "w", 1, 1);
    CHECK(t->effect_count == t->ack_count);
    act(t, SCHEDULER_ACT_STOP, 1, NULL);
    CHECK(t->effect_count > t->ack_count);
    commit_batch_clear(t);
    CHECK(t->effect_count == t->ack_count);
    act(t, SCHEDULER_ACT_RUN, 2, params);
    CHECK(t->effect_count > t->ack_count);
    CHECK_STR(kinds(t), "r");
    CHECK(json_equal(t->effects[0].params, params));
    CHECK_INT(t->effects[0].trial, 7);
    commit_batch_free(t);
}

TEST(a_batch_keeps_its_records_in_order_until_it_is_cleared)
{
    struct commit_batch batch = {0}, *t = &batch;
    for (int i = 0; i < 40; i++)
        commit_batch_record(t,
                            &(struct scheduler_record){.kind = SCHEDULER_REC_REPORT, .trial = i});
    for (int i = 0; i < 40; i++)
        CHECK_INT(t->records[i].trial, i);
    CHECK_INT(t->record_count, 40);
    commit_batch_clear(t);
    CHECK_INT(t->record_count, 0);
    commit_batch_free(t);
}
