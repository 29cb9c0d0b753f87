/* test_section_watch - what is known of a rank's sections, and which ranks exceed a limit. */
#include "launcher/watch/section_watch.h"

#include "tests/unit/kit_states.h"

#define S(state) SECTION_WATCH_##state
#define EV(event) SECTION_WATCH_EV_##event

static const struct states *const table = &section_watch_states;

TEST(every_state_is_reached_and_only_the_last_has_no_way_out)
{
    states_check_graph(table, SECTION_WATCH_STATES, SECTION_WATCH_EVENTS, SET(S(ENDED)));
}

TEST(sections_begin_anywhere_and_the_end_of_the_last_one_leads_outside)
{
    LEAD(table, SET(S(UNWATCHED)) | SET(S(OUTSIDE)) | SET(S(INSIDE)), S(INSIDE), EV(BEGIN));
    LEAD(table, SET(S(INSIDE)), S(INSIDE), EV(END));
    LEAD(table, SET(S(INSIDE)), S(OUTSIDE), EV(END_LAST));
    CHECK_INT(states_with(table, EV(END)) | states_with(table, EV(END_LAST)), SET(S(INSIDE)));
}

TEST(a_heartbeat_leaves_no_section_and_makes_an_unknown_rank_watched)
{
    LEAD(table, SET(S(UNWATCHED)) | SET(S(OUTSIDE)), S(OUTSIDE), EV(HEARTBEAT));
    LEAD(table, SET(S(INSIDE)), S(INSIDE), EV(HEARTBEAT));
}

TEST(a_connection_begins_outside_of_sections_and_its_end_ends_the_watch)
{
    LEAD(table, SET(S(UNWATCHED)) | SET(S(OUTSIDE)) | SET(S(INSIDE)), S(OUTSIDE), EV(CONNECT));
    LEAD(table, SET(S(OUTSIDE)) | SET(S(INSIDE)), S(UNWATCHED), EV(DISCONNECT));
    LEAD(table, SET(S(UNWATCHED)), S(OUTSIDE), EV(START));
}

TEST(a_rank_ends_from_every_state_and_once)
{
    LEAD(table, SET(S(ENDED)) - 1, S(ENDED), EV(EXIT));
    CHECK_INT(states_after(table, S(ENDED)), 0);
}

enum { RANKS = 3, STEP_MS = 100 };

static struct section_overrun found;
static bool over[RANKS];
static int64_t checked_ms;

static struct section_watch *new_watch(void)
{
    struct section_limits l = {.other_ms[SECTION_LIMITS_OUTSIDE] = 5000,
                               .other_ms[SECTION_LIMITS_HEARTBEAT] = 2000,
                               .other_ms[SECTION_LIMITS_FIRST_HEARTBEAT] = 9000};
    section_limits_set(&l, "step", 1000);
    section_limits_set(&l, "setup", 3000);
    struct section_watch *w = section_watch_new(RANKS, &l);
    section_limits_free(&l);
    checked_ms = 0;
    return w;
}

/* Checks until `to_ms`. Returns the time at which an overrun was found, or 0. */
static int64_t pass(struct section_watch *w, int64_t to_ms)
{
    while (checked_ms < to_ms) {
        checked_ms += STEP_MS;
        if (section_watch_check(w, &found, over, checked_ms))
            return checked_ms;
    }
    return 0;
}

TEST(a_section_that_takes_too_long_is_found_with_its_rank)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_watch_begin(w, 0, "eval", 0); /* without a limit */
    section_watch_begin(w, 1, "setup", 0);
    CHECK_INT(pass(w, 2000), 0);
    section_watch_end(w, 1, "setup", 2000);
    section_watch_begin(w, 1, "step", 2000);
    CHECK_INT(pass(w, 9000), 3000);
    CHECK_INT(found.kind, SECTION_LIMITS_SECTION);
    CHECK_INT(found.rank, 1);
    CHECK_STR(found.section, "step");
    CHECK_INT(found.ms, 1000);
    CHECK_INT(found.limit_ms, 1000);
    CHECK(!over[0] && over[1] && !over[2]);
    AUTO(strbuf) struct strbuf b = {0};
    section_watch_overrun_write(&b, &found, false);
    CHECK_STR(strbuf_str(&b), "has been in section 'step' for 1.0 s, longer than 1 s");
}

TEST(all_ranks_in_the_same_section_are_named_and_the_first_one_counts)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_watch_begin(w, 2, "step", 10);
    section_watch_begin(w, 0, "step", 30);
    section_watch_begin(w, 1, "step", 900);
    CHECK_INT(pass(w, 9000), 1100);
    CHECK_INT(found.rank, 2);
    CHECK(over[0] && !over[1] && over[2]);
    AUTO(strbuf) struct strbuf b = {0};
    section_watch_overrun_write(&b, &found, true);
    CHECK_STR(strbuf_str(&b), "have been in section 'step' for 1.1 s, longer than 1 s");
}

TEST(sections_may_be_nested_and_overlap)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_watch_begin(w, 0, "setup", 0);
    section_watch_begin(w, 0, "step", 500);
    section_watch_end(w, 0, "unknown", 600);
    section_watch_end(w, 0, "step", 600);
    section_watch_begin(w, 0, "eval", 700);
    CHECK_INT(pass(w, 2900), 0);
    section_watch_end(w, 0, "setup", 2900);
    section_watch_end(w, 0, NULL, 3000); /* all */
    CHECK_INT(pass(w, 20000), 8000);
    CHECK_INT(found.kind, SECTION_LIMITS_OUTSIDE);
    AUTO(strbuf) struct strbuf b = {0};
    section_watch_overrun_write(&b, &found, false);
    CHECK_STR(strbuf_str(&b), "has been in no section for 5.0 s, longer than 5 s");
}

TEST(heartbeats_have_limits_from_the_start_on_and_between_each_other)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_watch_limits(w, 0)->other_ms[SECTION_LIMITS_OUTSIDE] = 0;
    section_watch_limits(w, 1)->other_ms[SECTION_LIMITS_OUTSIDE] = 0;
    section_watch_apply(w, 0, EV(START), 0);
    section_watch_apply(w, 1, EV(START), 0);
    CHECK_INT(pass(w, 8000), 0);
    section_watch_apply(w, 0, EV(HEARTBEAT), 8000);
    CHECK_INT(pass(w, 20000), 9000);
    CHECK_INT(found.kind, SECTION_LIMITS_FIRST_HEARTBEAT);
    CHECK_INT(found.rank, 1);
    section_watch_apply(w, 1, EV(EXIT), 9000);
    CHECK_INT(pass(w, 20000), 10000);
    CHECK_INT(found.kind, SECTION_LIMITS_HEARTBEAT);
    CHECK_INT(found.rank, 0);
    AUTO(strbuf) struct strbuf b = {0};
    section_watch_overrun_write(&b, &found, false);
    CHECK_STR(strbuf_str(&b), "has sent no heartbeat for 2.0 s, longer than 2 s");
}

TEST(a_rank_that_has_not_started_has_ended_or_has_disconnected_has_no_limits)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_watch_begin(w, 0, "step", 0);
    section_watch_apply(w, 0, EV(EXIT), 100);
    section_watch_begin(w, 1, "step", 0);
    section_watch_apply(w, 1, EV(DISCONNECT), 100);
    CHECK_INT(pass(w, 20000), 0);
    section_watch_begin(w, 0, "step", 20000); /* too late: it has ended */
    section_watch_apply(w, 1, EV(CONNECT), 20000);
    CHECK_INT(pass(w, 40000), 25000);
    CHECK_INT(found.rank, 1);
    CHECK_INT(found.kind, SECTION_LIMITS_OUTSIDE);
}

TEST(a_section_that_begins_again_has_its_whole_time)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    for (int64_t ms = 0; ms < 5000; ms += 500) {
        section_watch_begin(w, 0, "step", ms);
        CHECK_INT(pass(w, ms + 500), 0);
    }
}

TEST(limits_of_one_rank_do_not_change_those_of_others)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_limits_set(section_watch_limits(w, 0), "step", 0);
    section_limits_set(section_watch_limits(w, 1), "step", 500);
    for (int i = 0; i < RANKS; i++)
        section_watch_begin(w, i, "step", 0);
    CHECK_INT(pass(w, 9000), 500);
    CHECK_INT(found.rank, 1);
    section_watch_end(w, 1, "step", 500);
    CHECK_INT(pass(w, 9000), 1000);
    CHECK_INT(found.rank, 2);
}

TEST(a_pause_of_the_machine_does_not_count)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_watch_begin(w, 0, "step", 0);
    CHECK_INT(pass(w, 500), 0);
    CHECK(!section_watch_check(w, &found, over, 60000));
    CHECK(!section_watch_check(w, &found, over, 60400));
    CHECK(section_watch_check(w, &found, over, 60500));
    CHECK_INT(found.ms, 1000);
}

TEST(a_section_that_begins_before_the_start_is_known_counts)
{
    AUTO(section_watch) struct section_watch *w = new_watch();
    section_watch_begin(w, 0, "step", 0);
    section_watch_apply(w, 0, EV(START), 1);
    CHECK_INT(pass(w, 900), 0);
    CHECK(pass(w, 1200) > 0 && found.kind == SECTION_LIMITS_SECTION && over[0]);
}

TEST(the_longest_times_are_those_of_all_ranks_between_their_events)
{
    struct section_limits none = {0};
    AUTO(section_watch) struct section_watch *w = section_watch_new(2, &none);
    const struct section_limits *l = section_watch_longest(w);
    for (int r = 0; r < 2; r++)
        section_watch_apply(w, r, SECTION_WATCH_EV_START, 1000);
    section_watch_begin(w, 0, "setup", 1500); /* 500 ms in no section */
    section_watch_begin(w, 0, "load", 1600);
    section_watch_end(w, 0, "load", 1900);
    section_watch_end(w, 0, "setup", 2500);
    section_watch_begin(w, 1, "setup", 1100);
    section_watch_end(w, 1, NULL, 1300);
    CHECK_INT(section_limits_of(l, "setup"), 1000);
    CHECK_INT(section_limits_of(l, "load"), 300);
    CHECK_INT(l->other_ms[SECTION_LIMITS_OUTSIDE], 500);
    section_watch_begin(w, 0, "step", 2600);
    section_watch_apply(w, 0, SECTION_WATCH_EV_EXIT, 90000); /* a section that did not end */
    CHECK_INT(section_limits_of(l, "step"), 0);
    CHECK_INT(l->other_ms[SECTION_LIMITS_OUTSIDE], 500);
    section_watch_apply(w, 1, SECTION_WATCH_EV_EXIT, 2000); /* 700 ms since its last section */
    CHECK_INT(l->other_ms[SECTION_LIMITS_OUTSIDE], 700);
    CHECK_INT(l->other_ms[SECTION_LIMITS_HEARTBEAT], 0);
}

TEST(a_rank_without_sections_was_not_out_of_one_and_its_heartbeats_are_measured)
{
    struct section_limits none = {0};
    AUTO(section_watch) struct section_watch *w = section_watch_new(1, &none);
    const struct section_limits *l = section_watch_longest(w);
    section_watch_apply(w, 0, SECTION_WATCH_EV_START, 0);
    section_watch_apply(w, 0, SECTION_WATCH_EV_HEARTBEAT, 3000);
    section_watch_apply(w, 0, SECTION_WATCH_EV_HEARTBEAT, 3100);
    section_watch_apply(w, 0, SECTION_WATCH_EV_EXIT, 3900);
    CHECK_INT(l->other_ms[SECTION_LIMITS_FIRST_HEARTBEAT], 3000);
    CHECK_INT(l->other_ms[SECTION_LIMITS_HEARTBEAT], 800);
    CHECK_INT(l->other_ms[SECTION_LIMITS_OUTSIDE], 0);
}
