/* test_import_trials - the sweep file that describes trials of another tool. */
#include "hpo/exchange/import_trials.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "hpo/store/stored_sweep.h"
#include "tests/unit/test.h"

/* The sweep file for these parameter sets, as `parameters` only. It must be one that drover
 * reads. */
static char *describe(const char *sets, const char *known)
{
    struct import_trials t = {.trials = json_array(), .parameters = json_loads(known, 0, NULL)};
    AUTO(json) json_t *list = json_loads(sets, 0, NULL);
    AUTO(free) char *text = NULL;
    AUTO(spec) struct spec *spec = NULL;
    struct err e = {0};
    size_t i;
    json_t *set;
    json_array_foreach (list, i, set)
        json_array_append_new(t.trials, json_pack("{s:O}", "params", set));
    CHECK_INT(import_trials_add_metric(&t, "loss", true, &e), 0);
    if (import_trials_file(&text, &t, "x", &e) < 0 || stored_sweep_spec(&spec, text, "x", &e) < 0)
        FAIL("%s", e.text);
    CHECK(spec->metrics[0].maximize && spec->value_last && spec->run_cap == (int)i);
    import_trials_clear(&t);
    return xstrdup(strstr(text, "parameters:\n") + strlen("parameters:\n"));
}

static void check(const char *sets, const char *known, const char *want)
{
    AUTO(free) char *found = describe(sets, known);
    CHECK_STR(found, want);
}

TEST(the_values_of_a_parameter_say_what_it_is)
{
    check("[{\"a\":1},{\"a\":5},{\"a\":3}]", "{}",
          "  \"a\": {\"distribution\":\"int_uniform\",\"min\":1,\"max\":5}\n");
    check("[{\"a\":1},{\"a\":1000}]", "{}",
          "  \"a\": {\"distribution\":\"int_log_uniform\",\"min\":1,\"max\":1000}\n");
    check("[{\"a\":-0.5},{\"a\":1}]", "{}",
          "  \"a\": {\"distribution\":\"uniform\",\"min\":-0.5,\"max\":1.0}\n");
    check("[{\"a\":0.001},{\"a\":0.2}]", "{}",
          "  \"a\": {\"distribution\":\"log_uniform_values\",\"min\":0.001,\"max\":0.2}\n");
    check("[{\"a\":\"x\"},{\"a\":2},{\"a\":\"x\"}]", "{}", "  \"a\": {\"values\":[\"x\",2]}\n");
    check("[{\"a\":2.5},{\"a\":2.5}]", "{}", "  \"a\": {\"value\":2.5}\n");
    check("[{\"a\":true},{\"b\":1}]", "{}", "  \"a\": {\"value\":true}\n  \"b\": {\"value\":1}\n");
}

TEST(what_the_other_tool_says_counts_more)
{
    check("[{\"a\":1},{\"a\":2}]", "{\"a\":{\"distribution\":\"uniform\",\"min\":0.0,\"max\":9.0}}",
          "  \"a\": {\"distribution\":\"uniform\",\"min\":0.0,\"max\":9.0}\n");
}

TEST(groups_stay_groups)
{
    check(
        "[{\"opt\":{\"lr\":1}},{\"opt\":{\"lr\":4,\"name\":\"sgd\"}}]", "{}",
        "  \"opt\": {\"parameters\":{\"lr\":{\"distribution\":\"int_uniform\",\"min\":1,\"max\":4},"
        "\"name\":{\"value\":\"sgd\"}}}\n");
}

TEST(nothing_to_import_is_an_error)
{
    struct import_trials t = {.trials = json_array()};
    struct err e = {0};
    char *text = NULL;
    CHECK_INT(import_trials_file(&text, &t, "x", &e), -ENODATA);
    CHECK_HAS(e.text, "no trial that has ended");
    json_array_append_new(t.trials, json_pack("{s:{}}", "params"));
    CHECK_INT(import_trials_file(&text, &t, "x", &e), -ENODATA);
    CHECK_HAS(e.text, "no metric");
    CHECK_INT(import_trials_add_metric(&t, "loss", false, &e), 0);
    CHECK_INT(import_trials_add_metric(&t, "loss", false, &e), -EINVAL);
    CHECK_INT(import_trials_file(&text, &t, "x", &e), -ENODATA);
    CHECK_HAS(e.text, "no parameter");
    import_trials_clear(&t);
}
