/* run_session_state: every row of the table, and nothing else. */
#include "launcher/run/run_session_state.h"

#include <stdbool.h>

#include "common/mem.h"
#include "tests/unit/test.h"

#define S(state) RUN_SESSION_##state
#define EV(event) RUN_SESSION_EV_##event

static const struct {
    enum run_session_state from;
    enum run_session_event ev;
    enum run_session_state to;
} rows[] = {
    {S(STARTING), EV(STARTED), S(RUNNING)},
    {S(STARTING), EV(NOT_STARTED), S(DONE)},
    {S(STARTING), EV(RENDEZVOUS), S(WAITING_PEERS)},
    {S(RUNNING), EV(SIGNAL), S(STOPPING)},
    {S(RUNNING), EV(STOP), S(STOPPING)},
    {S(RUNNING), EV(OUTPUT_CLOSED), S(STOPPING)},
    {S(RUNNING), EV(PEERS_STOP), S(STOPPING)},
    {S(RUNNING), EV(SUSPEND), S(RUNNING)},
    {S(RUNNING), EV(FORWARD), S(RUNNING)},
    {S(RUNNING), EV(ENDED_RESTART), S(BACKOFF)},
    {S(RUNNING), EV(ENDED_PEERS), S(WAITING_PEERS)},
    {S(RUNNING), EV(ENDED_LAST), S(FLUSHING)},
    {S(STOPPING), EV(SIGNAL), S(STOPPING)},
    {S(STOPPING), EV(SIGNAL_AGAIN), S(STOPPING)},
    {S(STOPPING), EV(STOP), S(STOPPING)},
    {S(STOPPING), EV(OUTPUT_CLOSED), S(STOPPING)},
    {S(STOPPING), EV(SUSPEND), S(STOPPING)},
    {S(STOPPING), EV(FORWARD), S(STOPPING)},
    {S(STOPPING), EV(ENDED_RESTART), S(BACKOFF)},
    {S(STOPPING), EV(ENDED_PEERS), S(WAITING_PEERS)},
    {S(STOPPING), EV(ENDED_LAST), S(FLUSHING)},
    {S(BACKOFF), EV(STARTED), S(RUNNING)},
    {S(BACKOFF), EV(NOT_STARTED), S(DONE)},
    {S(BACKOFF), EV(RENDEZVOUS), S(WAITING_PEERS)},
    {S(BACKOFF), EV(SIGNAL), S(DONE)},
    {S(BACKOFF), EV(SIGNAL_AGAIN), S(DONE)},
    {S(BACKOFF), EV(STOP), S(DONE)},
    {S(BACKOFF), EV(OUTPUT_CLOSED), S(BACKOFF)},
    {S(BACKOFF), EV(RENDEZVOUS_OVER), S(FLUSHING)},
    {S(WAITING_PEERS), EV(STARTED), S(RUNNING)},
    {S(WAITING_PEERS), EV(NOT_STARTED), S(DONE)},
    {S(WAITING_PEERS), EV(SIGNAL), S(DONE)},
    {S(WAITING_PEERS), EV(SIGNAL_AGAIN), S(DONE)},
    {S(WAITING_PEERS), EV(STOP), S(DONE)},
    {S(WAITING_PEERS), EV(OUTPUT_CLOSED), S(WAITING_PEERS)},
    {S(WAITING_PEERS), EV(PEERS_RESTART), S(BACKOFF)},
    {S(WAITING_PEERS), EV(PEERS_LAST), S(FLUSHING)},
    {S(WAITING_PEERS), EV(RENDEZVOUS_OVER), S(FLUSHING)},
    {S(FLUSHING), EV(FLUSHED), S(DONE)},
    {S(FLUSHING), EV(OUTPUT_CLOSED), S(DONE)},
    {S(FLUSHING), EV(SIGNAL), S(DONE)},
    {S(FLUSHING), EV(SIGNAL_AGAIN), S(DONE)},
};

static int expected(enum run_session_state from, enum run_session_event ev)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].from == from && rows[i].ev == ev)
            return (int)rows[i].to;
    return -1;
}

TEST(the_table_has_these_rows_and_no_others)
{
    for (int s = 0; s < RUN_SESSION_STATES; s++)
        for (int ev = 0; ev < RUN_SESSION_EVENTS; ev++) {
            int next = states_next(&run_session_states, (enum run_session_state)s,
                                   (enum run_session_event)ev);
            int want = expected((enum run_session_state)s, (enum run_session_event)ev);
            if (next != want)
                FAIL("%s, event %d: %d instead of %d",
                     states_name(&run_session_states, (enum run_session_state)s), ev, next, want);
        }
}

TEST(every_state_is_reached_and_only_the_last_has_no_way_out)
{
    bool reached[RUN_SESSION_STATES] = {[RUN_SESSION_STARTING] = true};
    bool left[RUN_SESSION_STATES] = {false};
    for (int turn = 0; turn < RUN_SESSION_STATES; turn++)
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            if (reached[rows[i].from])
                reached[rows[i].to] = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        left[rows[i].from] |= rows[i].to != rows[i].from;
    for (int s = 0; s < RUN_SESSION_STATES; s++) {
        CHECK(reached[s]);
        CHECK_INT(left[s], s != RUN_SESSION_DONE);
    }
}

TEST(every_event_has_a_row)
{
    for (int ev = 0; ev < RUN_SESSION_EVENTS; ev++) {
        int n = 0;
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            n += (int)rows[i].ev == ev;
        CHECK(n > 0);
    }
}

/* A quirk that a later decision may change. */
TEST(closed_output_does_not_prevent_the_next_attempt)
{
    CHECK_INT(states_next(&run_session_states, RUN_SESSION_BACKOFF, RUN_SESSION_EV_OUTPUT_CLOSED),
              RUN_SESSION_BACKOFF);
    CHECK_INT(states_next(&run_session_states, RUN_SESSION_BACKOFF, RUN_SESSION_EV_STARTED),
              RUN_SESSION_RUNNING);
}

/* The restart timer is not stopped when the rendezvous ends: its event is dropped. */
TEST(a_restart_that_is_due_after_the_rendezvous_ended_is_dropped)
{
    CHECK_INT(states_next(&run_session_states, RUN_SESSION_FLUSHING, RUN_SESSION_EV_RENDEZVOUS),
              -1);
}

TEST(every_state_has_a_name)
{
    for (int s = 0; s < RUN_SESSION_STATES; s++)
        CHECK(*states_name(&run_session_states, (enum run_session_state)s));
    CHECK_STR(states_name(&run_session_states, RUN_SESSION_WAITING_PEERS), "WAITING_PEERS");
}
