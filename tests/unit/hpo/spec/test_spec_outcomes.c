#include "hpo/spec/spec_outcomes.h"

#include <math.h>

#include "common/json.h"
#include "tests/unit/test.h"

/* The value as it is read and written again, or the message and its hint. */
static char *read_value(const char *value)
{
    AUTO(free) char *text = xasprintf("{\"outcome_constraints\":%s}", value);
    AUTO(json) json_t *all = json_loads(text, 0, NULL);
    struct config_node n = config_node_of_json(all);
    struct outcomes o = {0};
    struct err e = {0};
    CHECK(all);
    int rc = spec_outcomes_read(&o, &n, &e);
    AUTO(json) json_t *again = rc < 0 ? NULL : spec_outcomes_json(&o);
    outcome_clear(&o);
    return rc < 0  ? xasprintf("%s; %s", e.text, e.hint)
           : again ? json_line(again)
                   : xstrdup("none");
}

TEST(bounds_are_read_and_written)
{
    AUTO(free)
    char *both =
        read_value("[{\"metric\":\"ms\",\"max\":50},{\"metric\":\"acc\",\"min\":0.5,\"max\":1}]");
    AUTO(free) char *none = read_value("[]");
    CHECK_STR(both,
              "[{\"metric\":\"ms\",\"max\":50.0},{\"metric\":\"acc\",\"min\":0.5,\"max\":1.0}]");
    CHECK_STR(none, "none");
}

TEST(what_is_wrong_is_named_with_its_place)
{
    static const struct {
        const char *value, *said;
    } rows[] = {
        {"{\"metric\":\"ms\"}", "'outcome_constraints' must be a list, not a mapping"},
        {"[5]", "an outcome constraint must be a mapping"},
        {"[{\"max\":5}]", "the outcome constraint's 'metric' is missing"},
        {"[{\"metric\":\"ms\"}]", "the outcome constraint of 'ms' has neither 'min' nor 'max'; "
                                  "{\"metric\":\"ms\",\"max\":50}"},
        {"[{\"metric\":\"ms\",\"min\":5,\"max\":4}]", "'min' must not be above 'max'"},
        {"[{\"metric\":\"ms\",\"maximum\":4}]", "unknown key 'maximum'"},
        {"[{\"metric\":\"ms\",\"max\":\"4\"}]", "'max' must be a number"},
        {"[{\"metric\":\"ms\",\"max\":4},{\"metric\":\"ms\",\"min\":1}]",
         "the metric 'ms' has two outcome constraints"},
        {"[1,1,1,1,1,1,1,1,1]", "more than 8 outcome constraints"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO(free) char *said = read_value(rows[i].value);
        CHECK_HAS(said, rows[i].said);
    }
}
