#include "common/states.h"

#include "common/log.h"
#include "tests/unit/test.h"

enum door_state { DOOR_SHUT, DOOR_OPEN, DOOR_LOCKED };
enum door_event { DOOR_EV_PUSH, DOOR_EV_PULL, DOOR_EV_LOCK, DOOR_EV_PAINT };

#define ROW(...) STATES_ROW(DOOR, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(SHUT, PUSH, OPEN),
    ROW(SHUT, PAINT, SHUT),
    ROW(SHUT, LOCK, LOCKED),
    ROW(OPEN, PULL, SHUT),
};
static const struct states table = STATES_TABLE(rows);

static char logged[200];

static void keep_line(void *arg, const char *line)
{
    snprintf(logged, sizeof logged, "%s", line);
}

TEST(an_event_leads_to_the_state_of_its_row)
{
    CHECK_INT(states_next(&table, DOOR_SHUT, DOOR_EV_PUSH), DOOR_OPEN);
    CHECK_INT(states_next(&table, DOOR_SHUT, DOOR_EV_LOCK), DOOR_LOCKED);
    CHECK_INT(states_next(&table, DOOR_OPEN, DOOR_EV_PULL), DOOR_SHUT);
}

TEST(an_event_without_a_row_has_no_meaning)
{
    CHECK_INT(states_next(&table, DOOR_OPEN, DOOR_EV_LOCK), -1);
    CHECK_INT(states_next(&table, DOOR_LOCKED, DOOR_EV_PUSH), -1);
    CHECK_INT(states_step(&table, DOOR_LOCKED, DOOR_EV_PUSH, "door %d", 1), -1);
}

TEST(names_are_those_of_the_table)
{
    CHECK_STR(states_name(&table, DOOR_SHUT), "SHUT");
    CHECK_STR(states_name(&table, DOOR_LOCKED), "LOCKED"); /* only the target of a row */
    CHECK_STR(states_event_name(&table, DOOR_EV_PAINT), "PAINT");
    CHECK_STR(states_name(&table, 7), "?");
    CHECK_STR(states_event_name(&table, 7), "?");
}

TEST(the_log_has_transitions_and_dropped_events_and_no_row_that_stays)
{
    log_set_level(LOG_DEBUG);
    log_set_sink(keep_line, NULL);
    CHECK_INT(states_step(&table, DOOR_SHUT, DOOR_EV_PUSH, "door %d", 3), DOOR_OPEN);
    CHECK(strstr(logged, "door 3: PUSH in SHUT: OPEN") != NULL);
    CHECK_INT(states_step(&table, DOOR_OPEN, DOOR_EV_PAINT, "door %d", 3), -1);
    CHECK(strstr(logged, "door 3: PAINT in OPEN: dropped") != NULL);
    logged[0] = '\0';
    CHECK_INT(states_step(&table, DOOR_SHUT, DOOR_EV_PAINT, "door %d", 3), DOOR_SHUT);
    CHECK_STR(logged, "");
    log_set_sink(NULL, NULL);
}
