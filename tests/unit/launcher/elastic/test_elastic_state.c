/* elastic_state: every row of the table, and nothing else. */
#include "launcher/elastic/elastic_state.h"

#include <stdbool.h>

#include "common/mem.h"
#include "tests/unit/test.h"

#define S(state) ELASTIC_##state
#define EV(event) ELASTIC_EV_##event

static const struct {
    enum elastic_state from;
    enum elastic_event ev;
    enum elastic_state to;
} rows[] = {
    {S(WAITING), EV(ASSIGNED), S(RUNNING)},
    {S(WAITING), EV(STOP_FAILED), S(WAITING)},
    {S(WAITING), EV(STOP_JOINED), S(WAITING)},
    {S(WAITING), EV(STOP_JOINED_LAST), S(WAITING)},
    {S(WAITING), EV(JOIN), S(WAITING)},
    {S(WAITING), EV(LOST), S(LOST)},
    {S(RUNNING), EV(STOP_FAILED), S(STOPPING)},
    {S(RUNNING), EV(STOP_JOINED), S(STOPPING)},
    {S(RUNNING), EV(STOP_JOINED_LAST), S(STOPPING)},
    {S(RUNNING), EV(LOST), S(LOST)},
    {S(RUNNING), EV(RANKS_SUCCEEDED), S(SUCCEEDED)},
    {S(RUNNING), EV(RANKS_FAILED), S(FAILED)},
    {S(RUNNING), EV(RANKS_FAILED_LAST), S(FAILED_LEAVING)},
    {S(SUCCEEDED), EV(STOP_FAILED), S(WAITING)},
    {S(SUCCEEDED), EV(STOP_JOINED), S(WAITING)},
    {S(SUCCEEDED), EV(STOP_JOINED_LAST), S(SUCCEEDED)},
    {S(SUCCEEDED), EV(JOB_DONE), S(LOST)},
    {S(SUCCEEDED), EV(LOST), S(LOST)},
    {S(FAILED), EV(STOP_FAILED), S(WAITING)},
    {S(FAILED), EV(STOP_JOINED), S(WAITING)},
    {S(FAILED), EV(STOP_JOINED_LAST), S(WAITING)},
    {S(FAILED), EV(JOIN), S(WAITING)},
    {S(FAILED), EV(LOST), S(LOST)},
    {S(FAILED_LEAVING), EV(STOP_FAILED), S(WAITING)},
    {S(FAILED_LEAVING), EV(STOP_JOINED), S(WAITING)},
    {S(FAILED_LEAVING), EV(STOP_JOINED_LAST), S(WAITING)},
    {S(FAILED_LEAVING), EV(LOST), S(LOST)},
    {S(STOPPING), EV(STOP_FAILED), S(STOPPING)},
    {S(STOPPING), EV(STOP_JOINED), S(STOPPING)},
    {S(STOPPING), EV(STOP_JOINED_LAST), S(STOPPING)},
    {S(STOPPING), EV(LOST), S(LOST)},
    {S(STOPPING), EV(RANKS_SUCCEEDED), S(WAITING)},
    {S(STOPPING), EV(RANKS_FAILED), S(WAITING)},
    {S(STOPPING), EV(RANKS_FAILED_LAST), S(WAITING)},
    {S(LOST), EV(RANKS_SUCCEEDED), S(LOST)},
    {S(LOST), EV(RANKS_FAILED), S(LOST)},
    {S(LOST), EV(RANKS_FAILED_LAST), S(LOST)},
};

static int expected(enum elastic_state from, enum elastic_event ev)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].from == from && rows[i].ev == ev)
            return (int)rows[i].to;
    return -1;
}

TEST(the_table_has_these_rows_and_no_others)
{
    for (int s = 0; s < ELASTIC_STATES; s++)
        for (int ev = 0; ev < ELASTIC_EVENTS; ev++) {
            int next = states_next(&elastic_states, (enum elastic_state)s, (enum elastic_event)ev);
            int want = expected((enum elastic_state)s, (enum elastic_event)ev);
            if (next != want)
                FAIL("%s, event %d: %d instead of %d",
                     states_name(&elastic_states, (enum elastic_state)s), ev, next, want);
        }
}

TEST(every_state_is_reached_and_only_the_last_has_no_way_out)
{
    bool reached[ELASTIC_STATES] = {[ELASTIC_WAITING] = true};
    bool left[ELASTIC_STATES] = {false};
    for (int turn = 0; turn < ELASTIC_STATES; turn++)
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            if (reached[rows[i].from])
                reached[rows[i].to] = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        left[rows[i].from] |= rows[i].to != rows[i].from;
    for (int s = 0; s < ELASTIC_STATES; s++) {
        CHECK(reached[s]);
        CHECK_INT(left[s], s != ELASTIC_LOST);
    }
}

/* What may come at any time from a faulty server is dropped, not acted on. */
TEST(assignments_and_the_end_of_the_job_have_a_meaning_in_one_state_each)
{
    for (int s = 0; s < ELASTIC_STATES; s++) {
        CHECK_INT(states_next(&elastic_states, (enum elastic_state)s, ELASTIC_EV_ASSIGNED) >= 0,
                  s == ELASTIC_WAITING);
        CHECK_INT(states_next(&elastic_states, (enum elastic_state)s, ELASTIC_EV_JOB_DONE) >= 0,
                  s == ELASTIC_SUCCEEDED);
    }
}

/* Quirk: a server that stops an attempt for a new node confirms a failure by it, too. */
TEST(any_stop_confirms_a_failure)
{
    CHECK_INT(states_next(&elastic_states, ELASTIC_FAILED, ELASTIC_EV_STOP_JOINED),
              ELASTIC_WAITING);
    CHECK_INT(states_next(&elastic_states, ELASTIC_FAILED_LEAVING, ELASTIC_EV_STOP_JOINED),
              ELASTIC_WAITING);
}

TEST(every_state_has_a_name)
{
    for (int s = 0; s < ELASTIC_STATES; s++)
        CHECK(*states_name(&elastic_states, (enum elastic_state)s));
    CHECK_STR(states_name(&elastic_states, ELASTIC_FAILED_LEAVING), "FAILED_LEAVING");
}
