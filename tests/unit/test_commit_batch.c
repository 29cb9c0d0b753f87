#include "hpo/coordinator/commit_batch.h"

#include "common/json.h"
#include "tests/unit/test.h"

static const char *kinds(const struct turn *t)
{
    static char text[64];
    size_t n = 0;
    const struct turn_todo *d;
    for (; (d = turn_todo_at(t, n)); n++)
        text[n] = d->kind == WIRE_RUN    ? 'r'
                  : d->kind == WIRE_STOP ? 's'
                  : d->kind == WIRE_KILL ? 'k'
                  : d->kind == WIRE_WHO  ? 'w'
                                         : 'a';
    text[n] = 0;
    return text;
}

static void act(struct turn *t, enum sched_action_kind kind, int64_t lease, json_t *params)
{
    turn_act(t, &(struct sched_action){
                    .kind = kind, .worker = "w", .trial = 7, .lease = lease, .params = params});
}

TEST(a_lease_is_acknowledged_once_in_a_turn_with_its_highest_number)
{
    AUTO(turn) struct turn *t = turn_new();
    turn_ack(t, "w", 5, 2);
    turn_ack(t, "v", 3, 9);
    turn_ack(t, "w", 5, 4);
    turn_ack(t, "w", 5, 3);
    CHECK_STR(kinds(t), "aa");
    CHECK_STR(turn_todo_at(t, 0)->worker, "w");
    CHECK_INT(turn_todo_at(t, 0)->seq, 4);
    CHECK_INT(turn_todo_at(t, 1)->lease, 3);
    turn_clear(t);
    turn_ack(t, "w", 5, 1);
    CHECK_INT(turn_todo_at(t, 0)->seq, 1);
}

TEST(two_workers_that_speak_of_one_lease_are_both_answered)
{
    AUTO(turn) struct turn *t = turn_new();
    turn_ack(t, "w", 1, 1);
    turn_ack(t, "v", 1, 2);
    CHECK_STR(kinds(t), "aa");
    CHECK_STR(turn_todo_at(t, 0)->worker, "w");
    CHECK_INT(turn_todo_at(t, 0)->seq, 1);
    CHECK_STR(turn_todo_at(t, 1)->worker, "v");
}

TEST(nobody_is_told_the_same_twice_in_a_turn)
{
    AUTO(turn) struct turn *t = turn_new();
    for (int i = 0; i < 1000; i++) {
        act(t, SCHED_ACT_STOP, 1, NULL);
        act(t, SCHED_ACT_KILL, 1, NULL);
        turn_who(t, "w");
        turn_who(t, "v");
    }
    CHECK_STR(kinds(t), "skww");
    turn_clear(t);
    turn_who(t, "v");
    CHECK_STR(kinds(t), "w");
}

TEST(many_effects_are_each_found_again)
{
    AUTO(turn) struct turn *t = turn_new();
    for (int64_t round = 1; round <= 3; round++)
        for (int64_t lease = 1; lease <= 5000; lease++)
            turn_ack(t, lease % 2 ? "w" : "v", lease, round * lease);
    for (int64_t lease = 1; lease <= 5000; lease++)
        CHECK_INT(turn_todo_at(t, (size_t)lease - 1)->seq, 3 * lease);
    CHECK(turn_todo_at(t, 5000) == NULL);
}

TEST(a_lease_of_any_number_can_be_answered_without_memory_for_it)
{
    AUTO(turn) struct turn *t = turn_new();
    turn_ack(t, "w", INT64_MAX, 1);
    CHECK_STR(kinds(t), "a");
}

TEST(acknowledgements_can_wait_and_nothing_else)
{
    AUTO(turn) struct turn *t = turn_new();
    AUTO(json) json_t *params = json_pack("{s:i}", "x", 1);
    CHECK(turn_can_wait(t));
    turn_ack(t, "w", 1, 1);
    CHECK(turn_can_wait(t));
    act(t, SCHED_ACT_STOP, 1, NULL);
    CHECK(!turn_can_wait(t));
    turn_clear(t);
    CHECK(turn_can_wait(t));
    act(t, SCHED_ACT_RUN, 2, params);
    CHECK(!turn_can_wait(t));
    CHECK_STR(kinds(t), "r");
    CHECK(json_equal(turn_todo_at(t, 0)->params, params));
    CHECK_INT(turn_todo_at(t, 0)->trial, 7);
}

TEST(a_turn_keeps_its_records_in_order_until_it_is_over)
{
    AUTO(turn) struct turn *t = turn_new();
    for (int i = 0; i < 40; i++)
        turn_fact(t, &(struct sched_record){.kind = SCHED_REC_REPORT, .trial = i});
    for (int i = 0; i < 40; i++)
        CHECK_INT(turn_fact_at(t, (size_t)i)->trial, i);
    CHECK(turn_fact_at(t, 40) == NULL);
    turn_clear(t);
    CHECK(turn_fact_at(t, 0) == NULL);
}
