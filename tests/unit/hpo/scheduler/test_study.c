#include "hpo/scheduler/study.h"

#include <time.h>

#include "common/json.h"
#include "common/rng.h"
#include "common/strbuf.h"
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

static void ask_for(int n)
{
    AUTO(free) char *line = xasprintf("{\"op\":\"ask\",\"n\":%d}", n);
    CHECK_HAS(say(line), "{\"trials\":[{\"id\":");
}

/* ---- the order of things -------------------------------------------------------------------- */

TEST(nothing_can_be_asked_before_an_init)
{
    CHECK_HAS(say("{\"op\":\"ask\"}"), "error: 'ask' before init; try: {\"op\":\"init\"");
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[]}"), "error: 'tell' before init");
    CHECK_HAS(say("{\"op\":\"report\",\"id\":0,\"value\":1}"), "error: 'report' before init");
    CHECK_HAS(say("{\"op\":\"best\"}"), "error: 'best' before init");
    CHECK(!study);
}

TEST(after_an_init_that_failed_another_may_follow_and_after_one_that_did_not_none)
{
    CHECK_HAS(say("{\"op\":\"init\"}"), "error: /space: 'space' must be a list");
    CHECK_HAS(say(INIT(LINE ",\"goal\":\"max\"")), "try: \"goal\":\"maximize\"");
    CHECK(!study);
    CHECK_STR(say(INIT(LINE)), OK);
    CHECK_HAS(say(INIT(LINE)), "error: init was already sent");
    ask_for(1);
}

TEST(what_is_no_request_is_an_error_that_says_what_is)
{
    CHECK_HAS(say("[1]"), "a request must be a mapping, not a list");
    CHECK_HAS(say("null"), "a request must be a mapping, not null");
    CHECK_HAS(say("{}"), "'op' must be a word, not nothing; try: init, ask");
    CHECK_HAS(say("{\"op\":3}"), "'op' must be a word, not an integer");
    CHECK_HAS(say("{\"op\":\"asks\"}"), "unknown op 'asks'; try: \"op\":\"ask\"");
}

TEST(an_unknown_key_is_an_error_with_the_nearest_one)
{
    CHECK_HAS(say(INIT(LINE ",\"sede\":1")), "unknown key 'sede' in init; try: seed");
    CHECK_HAS(say(INIT(LINE ",\"metod\":\"bayes\"")), "unknown key 'metod' in init; try: method");
    CHECK_STR(say(INIT(LINE)), OK);
    CHECK_HAS(say("{\"op\":\"ask\",\"m\":1}"), "unknown key 'm' in ask");
    CHECK_HAS(say("{\"op\":\"tell\",\"result\":[]}"), "unknown key 'result' in tell; try: results");
    CHECK_HAS(say("{\"op\":\"best\",\"n\":1}"), "unknown key 'n' in best");
    ask_for(1);
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"valeu\":1}]}"),
              "unknown key 'valeu' in a result; try: value");
    CHECK_HAS(say("{\"op\":\"report\",\"id\":0,\"vlaue\":1}"),
              "unknown key 'vlaue' in report; try: value");
}

TEST(each_key_of_init_is_checked)
{
    static const char *const bad[][2] = {
        {"\"goal\":\"smallest\"", "'goal' must be minimize or maximize, not smallest"},
        {"\"goal\":1", "'goal' must be minimize or maximize, not an integer"},
        {"\"seed\":-1", "'seed' must be an integer of 0 or more"},
        {"\"seed\":1.5", "'seed' must be an integer of 0 or more"},
        {"\"budget\":0", "'budget' must be from 1"},
        {"\"batch\":\"8\"", "'batch' must be an integer, not a string"},
        {"\"repeats\":0", "'repeats' must be from 1"},
        {"\"method\":\"baies\"", "unknown method 'baies'; try: \"method\":\"bayes\""},
        {"\"method\":null", "unknown method 'null'"},
        {"\"method\":\"grid\"", "method grid has no points for a parameter of type float"},
        {"\"metrics\":[]", "'metrics' must be a list of 1 to 8 objectives"},
        {"\"metrics\":{\"name\":\"a\"}", "'metrics' must be a list of 1 to 8 objectives"},
        {"\"metrics\":[{\"goal\":\"minimize\"}]", "/metrics/0: the objective's 'name' is missing"},
        {"\"metrics\":[{\"name\":\"a\"},{\"name\":\"a\"}]", "the objective 'a' is given twice"},
        {"\"metrics\":[{\"nam\":\"a\"}]", "unknown key 'nam' in an objective; try: name"},
        {"\"metrics\":[{\"name\":\"a\"}],\"goal\":\"minimize\"", "'goal' belongs into each"},
        {"\"early_terminate\":{\"type\":\"medain\"}", "try: \"type\":\"median\""},
        {"\"early_terminate\":3", "'early_terminate' must be"},
        {"\"constraints\":[\"x <\"]", "/constraints/0"},
        {"\"constraints\":[\"x < y\"]", "'y'"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(free) char *line = xasprintf("{\"op\":\"init\"%s,%s}", LINE, bad[i][0]);
        const char *got = say(line);
        CHECK(!study);
        if (strncmp(got, "error: ", 7) != 0 || !strstr(got, bad[i][1]))
            FAIL("%s: '%s', expected '%s'", bad[i][0], got, bad[i][1]);
    }
    static const char *const spaces[] = {"[]", "{}", "3", "null", "[3]", "{\"x\":3}"};
    for (size_t i = 0; i < COUNT_OF(spaces); i++) {
        AUTO(free) char *line = xasprintf("{\"op\":\"init\",\"space\":%s}", spaces[i]);
        CHECK_HAS(say(line), "error: ");
        CHECK(!study);
    }
}

/* ---- ask and tell --------------------------------------------------------------------------- */

TEST(trials_are_numbered_from_0_and_have_parameters_of_the_space)
{
    CHECK_STR(say(INIT(LINE)), OK);
    AUTO(json) json_t *first = parse(say("{\"op\":\"ask\",\"n\":3}"));
    const json_t *list = json_object_get(first, "trials");
    CHECK_INT(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *t = json_array_get(list, i), *p = json_object_get(t, "params");
        double x = json_number_value(json_object_get(p, "x"));
        const char *a = json_string_value(json_object_get(p, "a"));
        CHECK_INT(json_integer_value(json_object_get(t, "id")), i);
        CHECK(x >= 0 && x <= 1 && a && (*a == 'p' || *a == 'q'));
    }
    CHECK_HAS(say("{\"op\":\"ask\"}"), "{\"trials\":[{\"id\":3,"); /* n is 1 */
    CHECK_HAS(say("{\"op\":\"ask\",\"n\":0}"), "'n' must be from 1");
    CHECK_HAS(say("{\"op\":\"ask\",\"n\":1.0}"), "'n' must be an integer");
    CHECK_HAS(say("{\"op\":\"ask\",\"n\":100001}"), "'n' must be from 1");
}

TEST(a_trial_is_told_once)
{
    CHECK_STR(say(INIT(LINE)), OK);
    ask_for(3);
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":1,\"value\":2}]}"), OK);
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":1,\"value\":3}]}"),
              "error: /results/0/id: trial 1 has already ended (done)");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":2,\"value\":3},{\"id\":2,\"value\":3}]}"),
              "error: /results/1/id: trial 2 has two results");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":2,\"state\":\"oom\"}]}"), OK);
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":2,\"value\":1}]}"), "already ended (oom)");
}

TEST(a_tell_with_one_bad_result_tells_nothing)
{
    static const char *const bad[][2] = {
        {"{\"id\":7,\"value\":1}", "there is no trial 7"},
        {"{\"id\":-1,\"value\":1}", "'id' must be from 0"},
        {"{\"id\":\"1\",\"value\":1}", "'id' must be an integer, not a string"},
        {"{\"id\":1}", "'value' is missing; try: \"value\":…, or \"state\":\"failed\""},
        {"{\"id\":1,\"value\":null}", "'value' must be a number, not null"},
        {"{\"id\":1,\"value\":true}", "'value' must be a number, not a boolean"},
        {"{\"id\":1,\"value\":\"NaN\"}", "'value' must be a number, not a string"},
        {"{\"id\":1,\"value\":1,\"step\":-1}", "'step' must not be negative"},
        {"{\"id\":1,\"value\":1,\"step\":\"3\"}", "'step' must be a number, not a string"},
        {"{\"id\":1,\"state\":\"faild\"}", "unknown state 'faild'; try: \"state\":\"failed\""},
        {"{\"id\":1,\"state\":\"running\"}", "unknown state 'running'"},
        {"{\"id\":1,\"state\":2}", "unknown state 'an integer'"},
        {"{\"id\":1,\"state\":\"pruned\"}", "'value' is missing"},
        {"{\"id\":1,\"state\":\"pruned\",\"value\":1}", "'step' is missing"},
        {"{\"value\":1}", "a result has either 'id' or 'params'"},
        {"{\"id\":1,\"params\":{\"x\":0,\"a\":\"p\"},\"value\":1}", "either 'id' or 'params'"},
        {"{\"params\":{\"x\":0},\"value\":1}", "'a' is missing"},
        {"{\"params\":{\"x\":0,\"a\":\"r\"},\"value\":1}", "'a' cannot be \"r\""},
        {"{\"params\":{\"x\":2,\"a\":\"p\"},\"value\":1}", "'x' cannot be 2"},
        {"{\"params\":{\"x\":0,\"a\":\"p\",\"b\":1},\"value\":1}", "unknown key 'b'"},
        {"{\"params\":[],\"value\":1}", "must be a mapping, not a list"},
        {"3", "a result must be a mapping, not an integer"},
        {"{\"id\":0,\"value\":1}", "trial 0 has two results"},
    };
    CHECK_STR(say(INIT(LINE)), OK);
    ask_for(2);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(free)
        char *line = xasprintf("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":1},"
                               "{\"params\":{\"x\":0.5,\"a\":\"p\"},\"value\":-3},%s]}",
                               bad[i][0]);
        const char *got = say(line);
        if (strncmp(got, "error: /results/2", 17) != 0 || !strstr(got, bad[i][1]))
            FAIL("%s: '%s', expected '%s'", bad[i][0], got, bad[i][1]);
        CHECK_STR(say("{\"op\":\"best\"}"), "{\"best\":null}");
    }
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":{}}"), "'results' must be a list, not a mapping");
    CHECK_HAS(say("{\"op\":\"tell\"}"), "'results' must be a list, not nothing");
    CHECK_HAS(say("{\"op\":\"ask\"}"), "{\"id\":2,"); /* none of them used up a number */
}

TEST(a_value_that_is_not_finite_makes_a_failed_trial)
{
    CHECK_STR(say(INIT(LINE)), OK);
    ask_for(4);
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":\"nan\"},{\"id\":1,\"value\":"
                  "\"-inf\"},{\"id\":2,\"state\":\"pruned\",\"value\":\"inf\",\"step\":3},"
                  "{\"params\":{\"x\":0,\"a\":\"p\"},\"value\":\"nan\"}]}"),
              "{\"ok\":true,\"ids\":[4]}");
    for (int id = 0; id < 5; id++) {
        AUTO(free)
        char *line = xasprintf("{\"op\":\"tell\",\"results\":[{\"id\":%d,\"value\":1}]}", id);
        if (id != 3)
            CHECK_HAS(say(line), "has already ended (failed)");
    }
    CHECK_STR(say("{\"op\":\"best\"}"), "{\"best\":null}");
    /* The value of a failed trial does not count. */
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":3,\"state\":\"failed\",\"value\":0}]}"),
              OK);
    CHECK_STR(say("{\"op\":\"best\"}"), "{\"best\":null}");
}

TEST(results_without_an_id_get_ids_back_and_are_not_suggested_again)
{
    CHECK_STR(say(INIT(FOUR)), OK);
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"params\":{\"k\":2},\"value\":5},"
                  "{\"params\":{\"k\":3},\"state\":\"failed\"}]}"),
              "{\"ok\":true,\"ids\":[0,1]}");
    AUTO(json) json_t *r = parse(say("{\"op\":\"ask\",\"n\":9}"));
    CHECK(json_is_true(json_object_get(r, "exhausted")));
    json_int_t sum = 0;
    CHECK_INT(json_array_size(json_object_get(r, "trials")), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *t = json_array_get(json_object_get(r, "trials"), i);
        CHECK_INT(json_integer_value(json_object_get(t, "id")), 2 + i);
        sum += json_integer_value(json_object_get(json_object_get(t, "params"), "k"));
    }
    CHECK_INT(sum, 1 + 4);
    CHECK_STR(say("{\"op\":\"best\"}"), "{\"best\":{\"id\":0,\"params\":{\"k\":2},\"value\":5.0}}");
}

TEST(multiples_of_q_as_people_write_them_are_those_of_the_space)
{
    static const char *const methods[] = {"random", "sobol", "bayes"};
    for (size_t m = 0; m < COUNT_OF(methods); m++) {
        AUTO(study) struct study *s = NULL;
        AUTO(free)
        char *init = xasprintf("{\"op\":\"init\",\"method\":\"%s\",\"space\":{\"x\":"
                               "{\"distribution\":\"q_uniform\",\"min\":0,\"max\":1,\"q\":0.1}}}",
                               methods[m]);
        CHECK_STR(say_to(&s, init), OK);
        for (int k = 0; k <= 10; k++) {
            AUTO(free)
            char *tell = xasprintf("{\"op\":\"tell\",\"results\":[{\"params\":{\"x\":%.1f},"
                                   "\"value\":%d}]}",
                                   0.1 * k, k);
            CHECK_HAS(say_to(&s, tell), "\"ok\":true");
        }
        CHECK_STR(say_to(&s, "{\"op\":\"ask\"}"), "{\"trials\":[],\"exhausted\":true}");
    }
}

TEST(a_space_of_one_point_gives_one_trial)
{
    CHECK_STR(say(INIT(",\"space\":[{\"name\":\"k\",\"type\":\"int\",\"low\":3,\"high\":3}]")), OK);
    CHECK_STR(say("{\"op\":\"ask\",\"n\":2}"),
              "{\"trials\":[{\"id\":0,\"params\":{\"k\":3}}],\"exhausted\":true}");
    CHECK_STR(say("{\"op\":\"ask\"}"), "{\"trials\":[],\"exhausted\":true}");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":1}]}"), OK);
    CHECK_STR(say("{\"op\":\"ask\"}"), "{\"trials\":[],\"exhausted\":true}");
}

TEST(repeats_give_each_point_so_many_times)
{
    CHECK_STR(say(INIT(FOUR ",\"repeats\":3")), OK);
    AUTO(json) json_t *r = parse(say("{\"op\":\"ask\",\"n\":20}"));
    int seen[5] = {0};
    size_t n = json_array_size(json_object_get(r, "trials"));
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(json_object_get(r, "trials"), i);
        seen[json_integer_value(json_object_get(json_object_get(t, "params"), "k"))]++;
    }
    CHECK_INT(n, 12);
    for (int k = 1; k <= 4; k++)
        CHECK_INT(seen[k], 3);
}

TEST(the_best_is_the_smallest_or_the_largest_value_of_what_did_not_fail)
{
    static const char *const told =
        "{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":2},{\"id\":1,\"value\":-1.5},"
        "{\"id\":2,\"value\":7},{\"id\":3,\"state\":\"failed\",\"value\":-9}]}";
    CHECK_STR(say(INIT(FOUR)), OK);
    CHECK_STR(say("{\"op\":\"best\"}"), "{\"best\":null}");
    ask_for(4);
    CHECK_STR(say(told), OK);
    CHECK_HAS(say("{\"op\":\"best\"}"), "{\"best\":{\"id\":1,");
    CHECK_HAS(say("{\"op\":\"best\"}"), ",\"value\":-1.5}}");
    struct study *other = NULL;
    CHECK_STR(say_to(&other, INIT(FOUR ",\"goal\":\"maximize\"")), OK);
    say_to(&other, "{\"op\":\"ask\",\"n\":4}");
    CHECK_STR(say_to(&other, told), OK);
    CHECK_HAS(say_to(&other, "{\"op\":\"best\"}"), "{\"best\":{\"id\":2,");
    study_free(other);
}

TEST(the_value_told_counts_and_not_a_better_one_reported_before)
{
    CHECK_STR(say(INIT(FOUR)), OK);
    ask_for(2);
    say("{\"op\":\"report\",\"id\":0,\"step\":1,\"value\":0.1}");
    say("{\"op\":\"report\",\"id\":0,\"step\":2,\"value\":0.5}");
    CHECK_STR(
        say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":0.6},{\"id\":1,\"value\":0.3}]}"),
        OK);
    CHECK_HAS(say("{\"op\":\"best\"}"), "{\"best\":{\"id\":1,");
}

/* ---- several objectives --------------------------------------------------------------------- */

#define TWO ",\"metrics\":[{\"name\":\"loss\"},{\"name\":\"acc\",\"goal\":\"maximize\"}]"

TEST(with_metrics_a_result_has_a_value_of_each)
{
    CHECK_STR(say(INIT(FOUR TWO)), OK);
    ask_for(3);
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":1}]}"), "unknown key 'value'");
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"values\":{\"loss\":1}}]}"),
              "error: /results/0/values: 'acc' is missing");
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"values\":{\"loss\":1,\"ac\":2}}]}"),
              "unknown key 'ac' in values; try: acc");
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"values\":3}]}"),
              "values must be a mapping, not an integer");
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":0}]}"), "'values' is missing");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"values\":{\"loss\":1,\"acc\":2}},"
                  "{\"id\":1,\"values\":{\"loss\":1,\"acc\":\"nan\"}}]}"),
              OK);
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":1,\"state\":\"failed\"}]}"), "(failed)");
}

TEST(the_best_of_several_objectives_are_those_that_no_other_beats)
{
    CHECK_STR(say("{\"op\":\"init\",\"method\":\"grid\"" FOUR TWO "}"), OK);
    CHECK_STR(say("{\"op\":\"best\"}"), "{\"pareto\":[]}");
    ask_for(4);
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"values\":{\"loss\":1,\"acc\":5}},"
                  "{\"id\":1,\"values\":{\"loss\":2,\"acc\":9}},"
                  "{\"id\":2,\"values\":{\"loss\":2,\"acc\":4}},{\"id\":3,\"state\":\"failed\"}]}"),
              OK);
    CHECK_STR(say("{\"op\":\"best\"}"),
              "{\"pareto\":[{\"id\":0,\"params\":{\"k\":1},\"values\":{\"loss\":1.0,\"acc\":5.0}},"
              "{\"id\":1,\"params\":{\"k\":2},\"values\":{\"loss\":2.0,\"acc\":9.0}}]}");
}

/* ---- reports -------------------------------------------------------------------------------- */

TEST(a_report_needs_a_running_trial_and_a_number)
{
    CHECK_STR(say(INIT(FOUR)), OK);
    ask_for(2);
    CHECK_STR(say("{\"op\":\"report\",\"id\":0,\"step\":9,\"value\":0.7}"), "{\"action\":\"go\"}");
    CHECK_STR(say("{\"op\":\"report\",\"id\":0,\"step\":4,\"value\":0.9}"), "{\"action\":\"go\"}");
    CHECK_STR(say("{\"op\":\"report\",\"id\":0,\"value\":\"nan\"}"), "{\"action\":\"go\"}");
    CHECK_HAS(say("{\"op\":\"report\",\"id\":2,\"value\":1}"), "error: /id: there is no trial 2");
    CHECK_HAS(say("{\"op\":\"report\",\"value\":1}"), "'id' is missing");
    CHECK_HAS(say("{\"op\":\"report\",\"id\":1}"), "'value' is missing");
    CHECK_HAS(say("{\"op\":\"report\",\"id\":1,\"value\":\"x\"}"), "'value' must be a number");
    CHECK_HAS(say("{\"op\":\"report\",\"id\":1,\"step\":-2,\"value\":1}"), "'step' must not be");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":1,\"value\":1}]}"), OK);
    CHECK_HAS(say("{\"op\":\"report\",\"id\":1,\"value\":1}"), "trial 1 has already ended (done)");
}

TEST(what_was_reported_last_is_the_value_of_an_end_that_says_none)
{
    CHECK_STR(say(INIT(FOUR)), OK);
    ask_for(3);
    say("{\"op\":\"report\",\"id\":0,\"value\":0.7}");
    say("{\"op\":\"report\",\"id\":0,\"value\":0.4}");
    say("{\"op\":\"report\",\"id\":1,\"value\":0.2}");
    say("{\"op\":\"report\",\"id\":1,\"value\":\"nan\"}");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0},{\"id\":1}]}"), OK);
    CHECK_HAS(say("{\"op\":\"best\"}"), "{\"best\":{\"id\":0,");
    CHECK_HAS(say("{\"op\":\"best\"}"), "\"value\":0.4}}");
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":1}]}"), "(failed)");
}

TEST(an_end_before_the_last_report_is_an_error)
{
    CHECK_STR(say(INIT(FOUR)), OK);
    ask_for(1);
    say("{\"op\":\"report\",\"id\":0,\"step\":1000,\"value\":0.7}");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":0.1,\"step\":999}]}"),
              "error: /results/0: trial 0 has reported step 1000 and cannot end at step 999");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":0,\"value\":0.1,\"step\":1000}]}"), OK);
    CHECK_HAS(say("{\"op\":\"best\"}"), "\"value\":0.1}}");
}

/* Creates five trials that are done, each with the reports 1, 1, 1. */
static void five_done(void)
{
    ask_for(5);
    for (int id = 0; id < 5; id++) {
        for (int step = 0; step < 3; step++) {
            AUTO(free)
            char *line =
                xasprintf("{\"op\":\"report\",\"id\":%d,\"step\":%d,\"value\":1}", id, step);
            CHECK_STR(say(line), "{\"action\":\"go\"}");
        }
        AUTO(free) char *line = xasprintf("{\"op\":\"tell\",\"results\":[{\"id\":%d}]}", id);
        CHECK_STR(say(line), OK);
    }
}

TEST(a_trial_that_was_told_to_stop_is_told_once_with_its_state)
{
    CHECK_STR(say(INIT(LINE ",\"early_terminate\":{\"type\":\"median\",\"min_iter\":2}")), OK);
    five_done();
    ask_for(2);
    CHECK_STR(say("{\"op\":\"report\",\"id\":5,\"value\":2}"), "{\"action\":\"go\"}");
    CHECK_STR(say("{\"op\":\"report\",\"id\":5,\"value\":2}"), "{\"action\":\"stop\"}");
    /* The trial may not have read the answer, which stays the same. */
    CHECK_STR(say("{\"op\":\"report\",\"id\":5,\"value\":3}"), "{\"action\":\"stop\"}");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":5,\"state\":\"pruned\"}]}"), OK);
    CHECK_HAS(say("{\"op\":\"tell\",\"results\":[{\"id\":5,\"state\":\"pruned\"}]}"), "(pruned)");
    say("{\"op\":\"report\",\"id\":6,\"value\":2}");
    CHECK_STR(say("{\"op\":\"report\",\"id\":6,\"value\":2}"), "{\"action\":\"stop\"}");
    CHECK_STR(say("{\"op\":\"tell\",\"results\":[{\"id\":6,\"value\":0.5}]}"),
              OK); /* it was done */
    CHECK_HAS(say("{\"op\":\"best\"}"), "{\"best\":{\"id\":6,");
}

TEST(a_paused_trial_goes_on_when_an_ask_says_so_and_can_end_at_any_time)
{
    CHECK_STR(say(INIT(LINE ",\"early_terminate\":{\"type\":\"curve\",\"min_iter\":2,\"eta\":2,"
                            "\"keep\":0.5,\"max_iter\":16}")),
              OK);
    ask_for(5);
    int paused = -1;
    for (int id = 0; id < 5 && paused < 0; id++) { /* each worse than the trials before it */
        for (int step = 1; step <= 2; step++) {
            AUTO(free)
            char *line = xasprintf("{\"op\":\"report\",\"id\":%d,\"step\":%d,\"value\":%d}", id,
                                   step, id + 1);
            if (strstr(say(line), "pause"))
                paused = id;
        }
    }
    CHECK(paused >= 0);
    AUTO(free)
    char *report = xasprintf("{\"op\":\"report\",\"id\":%d,\"step\":3,\"value\":1}", paused);
    AUTO(free) char *resume = xasprintf("\"resume\":%d}", paused);
    CHECK_HAS(say(report), "is paused; try: continue it after an ask");
    const char *reply = "";
    for (int id = 5; id < 40 && !strstr(reply, "resume");
         id++) { /* from here on trials are worse */
        reply = say("{\"op\":\"ask\"}");
        for (int step = 1; step <= 2 && !strstr(reply, "resume"); step++) {
            const char *line = keep(xasprintf(
                "{\"op\":\"report\",\"id\":%d,\"step\":%d,\"value\":%d}", id, step, 100 + id));
            CHECK_HAS(say(line), "action");
        }
    }
    CHECK_HAS(reply, "{\"trials\":[],\"resume\":"); /* it counts instead of the trial that would
                                                       have been started */
    CHECK_HAS(reply, resume);
    CHECK_HAS(say(report), "{\"action\":");
    AUTO(free) char *end = xasprintf("{\"op\":\"tell\",\"results\":[{\"id\":%d}]}", paused);
    CHECK_STR(say(end), OK);
    CHECK_HAS(say(end), "has already ended (done)");
}

/* ---- every method --------------------------------------------------------------------------- */

static const char *const methods[] = {"grid", "random", "sobol", "bayes"};

/* 4 x 3 x 2 points. */
#define MIXED                                                             \
    ",\"space\":[{\"name\":\"k\",\"type\":\"int\",\"low\":1,\"high\":4}," \
    "{\"name\":\"a\",\"type\":\"cat\",\"choices\":[\"relu\",3,true]},"    \
    "{\"name\":\"b\",\"type\":\"cat\",\"choices\":[\"x\",\"y\"]}]"

TEST(eight_askers_find_each_of_24_points_once_with_every_method)
{
    for (size_t m = 0; m < COUNT_OF(methods); m++) {
        struct study *s = NULL;
        AUTO(free)
        char *init = xasprintf("{\"op\":\"init\",\"method\":\"%s\"" MIXED "}", methods[m]);
        CHECK_STR(say_to(&s, init), OK);
        AUTO(json) json_t *seen = json_object();
        for (int round = 0; round < 3; round++)
            for (int asker = 0; asker < 8; asker++) {
                AUTO(json) json_t *r = parse(say_to(&s, "{\"op\":\"ask\"}"));
                const json_t *t = json_array_get(json_object_get(r, "trials"), 0);
                CHECK(t && !json_object_get(r, "exhausted"));
                AUTO(free) char *key = json_line(json_object_get(t, "params"));
                if (json_object_get(seen, key))
                    FAIL("%s gives %s twice", methods[m], key);
                json_object_set_new(seen, key, json_null());
            }
        CHECK_STR(say_to(&s, "{\"op\":\"ask\",\"n\":8}"), "{\"trials\":[],\"exhausted\":true}");
        study_free(s);
    }
}

/* Sends asks and tells; returns the replies as one text. */
static char *session(const char *method, int seed)
{
    struct study *s = NULL;
    struct rng r;
    rng_seed(&r, 5, 0);
    AUTO(free)
    char *init = xasprintf("{\"op\":\"init\",\"method\":\"%s\",\"seed\":%d%s}", method, seed,
                           strcmp(method, "grid") == 0 ? MIXED : LINE);
    AUTO(strbuf) struct strbuf all = {0};
    strbuf_puts(&all, say_to(&s, init));
    for (int i = 0; i < 8; i++) {
        strbuf_puts(&all, say_to(&s, "{\"op\":\"ask\",\"n\":2}"));
        AUTO(free)
        char *tell = xasprintf("{\"op\":\"tell\",\"results\":[{\"id\":%d,\"value\":%.17g}%s]}",
                               2 * i, rng_unit(&r),
                               i % 3 ? "" : ",{\"params\":{\"x\":0.25,\"a\":\"p\"},\"value\":1}");
        strbuf_puts(&all, say_to(&s, tell));
    }
    study_free(s);
    return strbuf_take(&all);
}

TEST(the_same_requests_get_the_same_replies_and_another_seed_others)
{
    for (size_t m = 0; m < COUNT_OF(methods); m++) {
        AUTO(free) char *one = session(methods[m], 1), *again = session(methods[m], 1);
        AUTO(free) char *other = session(methods[m], 2);
        CHECK_STR(again, one);
        CHECK((strcmp(other, one) == 0) == (strcmp(methods[m], "grid") == 0));
    }
}

/* ---- size ----------------------------------------------------------------------------------- */

TEST(a_hundred_thousand_results_are_told_in_time_that_grows_with_their_number)
{
    enum { N = 100000, MARKS = 4 };
    double took[MARKS];
    CHECK_STR(say(INIT(LINE)), OK);
    AUTO(json) json_t *params = parse("{\"x\":0.5,\"a\":\"p\"}");
    for (int mark = 0; mark < MARKS; mark++) {
        clock_t t0 = clock();
        for (int i = 0; i < N / MARKS; i++) {
            struct err e = {0};
            AUTO(json)
            json_t *r = json_pack("{s:s, s:[{s:O, s:f}]}", "op", "tell", "results", "params",
                                  params, "value", (double)i);
            AUTO(json) json_t *reply = study_answer(&study, r, &e);
            CHECK(reply);
        }
        took[mark] = (double)(clock() - t0) / CLOCKS_PER_SEC;
    }
    /* With quadratic cost the last quarter would take seven times as long as the first. */
    CHECK_TIME(took[MARKS - 1] <= 3 * took[0] + 0.2);
    ask_for(1);
}
