/* test_study_outcomes - outcome constraints of a study, and what an ask says about the search. */
#include "hpo/scheduler/study.h"

#include "common/json.h"
#include "tests/unit/test.h"

/* Each test is a process with one search, unless it creates another. */
static struct study *study;
static char **replies; /* strv: not freed before the process ends */

static const char *keep(char *reply)
{
    strv_push(&replies, reply);
    return reply;
}

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    struct err e = {0};
    if (json_parse(&v, text, strlen(text), &e) < 0)
        FAIL("%s: %s", text, e.text);
    return v;
}

/* The reply as text; an error as "error: text; try: hint". */
static const char *say_to(struct study **s, const char *request)
{
    AUTO(json) json_t *r = parse(request);
    struct err e = {0};
    AUTO(json) json_t *reply = study_answer(s, r, &e);
    if (reply)
        return keep(json_line(reply));
    CHECK(e.text[0]);
    return keep(xasprintf("error: %s%s%s", e.text, e.hint[0] ? "; try: " : "", e.hint));
}

static const char *say(const char *request)
{
    return say_to(&study, request);
}

#define OK "{\"ok\":true}"
#define INIT(more) "{\"op\":\"init\",\"method\":\"random\",\"seed\":1" more "}"
#define LINE                                                                \
    ",\"space\":[{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1}," \
    "{\"name\":\"a\",\"type\":\"cat\",\"choices\":[\"p\",\"q\"]}]"
#define FOUR ",\"space\":[{\"name\":\"k\",\"type\":\"int\",\"low\":1,\"high\":4}]"

#define TWO ",\"metrics\":[{\"name\":\"loss\"},{\"name\":\"acc\",\"goal\":\"maximize\"}]"

static void ask_for(int n)
{
    AUTO(free) char *line = xasprintf("{\"op\":\"ask\",\"n\":%d}", n);
    CHECK_HAS(say(line), "{\"trials\":[{\"id\":");
}

#define MS ",\"outcome_constraints\":[{\"metric\":\"ms\",\"max\":50}]"

TEST(the_best_is_a_trial_that_satisfies_the_outcome_constraints)
{
    CHECK_STR(say(INIT(FOUR MS)), OK);
    ask_for(4);
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":1,\"values\":{\"ms\":80}},"
                  "{\"id\":1,\"value\":2},{\"id\":2,\"value\":0,\"values\":{\"ms\":\"nan\"}}]}"),
              OK);
    CHECK_STR(say("{\"op\":\"best\"}"), "{\"best\":null}"); /* none is known to be feasible */
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":3,\"value\":3,\"values\":{\"ms\":50}}]}"),
              OK);
    CHECK_HAS(say("{\"op\":\"best\"}"), "{\"best\":{\"id\":3,");
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"params\":{\"k\":1},\"value\":3,\"values\":{"
                  "\"mss\":1}}]}"),
              "unknown key 'mss' in values; try: ms");
}

TEST(a_value_that_was_reported_is_kept_if_only_a_constraint_is_told)
{
    CHECK_STR(say(INIT(FOUR MS)), OK);
    ask_for(1);
    say("{\"op\":\"report\",\"id\":0,\"step\":1,\"value\":0.25}");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"values\":{\"ms\":5}}]}"), OK);
    CHECK_HAS(say("{\"op\":\"best\"}"), "\"value\":0.25}}");
}

TEST(with_named_objectives_the_constraints_are_among_the_values)
{
    CHECK_STR(say(INIT(FOUR TWO MS)), OK);
    ask_for(3);
    CHECK_STR(
        say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"values\":{\"loss\":1,\"acc\":5,\"ms\":60}},"
            "{\"id\":1,\"values\":{\"loss\":2,\"acc\":4,\"ms\":40}},"
            "{\"id\":2,\"values\":{\"loss\":3,\"acc\":3,\"ms\":40}}]}"),
        OK);
    CHECK_HAS(say("{\"op\":\"best\"}"), "{\"pareto\":[{\"id\":1,");
    CHECK(!strstr(say("{\"op\":\"best\"}"), "\"id\":2"));
    CHECK(!strstr(say("{\"op\":\"best\"}"), "\"id\":0"));
}

TEST(without_constraints_a_result_has_no_further_values_and_bad_ones_are_refused)
{
    struct study *other = NULL;
    CHECK_HAS(say_to(&other, INIT(FOUR ",\"outcome_constraints\":[{\"metric\":\"ms\"}]")),
              "error: /outcome_constraints/0: the outcome constraint of 'ms' has neither");
    CHECK_STR(say(INIT(FOUR)), OK);
    ask_for(1);
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":1,\"values\":{\"ms\":1}}]}"),
              "unknown key 'values' in a result");
}

TEST(an_ask_says_that_the_search_explores)
{
    CHECK_STR(say("{\"op\":\"init\",\"seed\":1" LINE "}"), OK);
    for (int i = 0; i < 10; i++) {
        const char *reply = say("{\"op\":\"ask\"}");
        CHECK(!strstr(reply, "\"note\"") == (i < 8));
        AUTO(free)
        char *tell = xasprintf("{\"op\":\"tell\",\"results\":[{\"id\":%d,\"value\":7}]}", i);
        CHECK_STR(say(tell), OK);
    }
    CHECK_HAS(say("{\"op\":\"ask\"}"), "\"note\":\"the first 10 values are equal: exploring\"");
}
