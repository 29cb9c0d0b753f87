#include "hpo/reader/sweep_status.h"

#include "common/mem.h"
#include "tests/unit/test.h"

static const struct {
    struct sweep_status_facts facts;
    const char *text;
} cases[] = {
    {{.coordinated = true}, "running"},
    {{.coordinated = true, .left = "it was killed"}, "running"},
    {{.coordinated = true, .done = true, .ended = "over"}, "running"}, /* it waits for workers */
    {{.coordinated = true, .paused = true}, "paused"},
    {{.paused = true, .left = "it was killed"}, "paused"},
    {{.coordinated = true, .stopped = true}, "stopped: the user stopped it"},
    {{.stopped = true, .done = true, .ended = "over"}, "stopped: the user stopped it"},
    {{.done = true, .ended = "over", .left = ""}, "finished: over"},
    {{.done = true, .paused = true, .ended = "over"}, "finished: over"},
    {{.done = true, .ended = ""}, "finished"}, /* stores of old versions */
    {{.done = true}, "finished"},
    {{.ended = "", .left = "it was killed"}, "stopped: it was killed"},
    {{.ended = "over", .left = "it was killed"}, "stopped: it was killed"},
    {{.ended = "", .left = ""}, "stopped: no coordinator runs"}, /* reopened by a command */
    {{.left = NULL}, "stopped: no coordinator runs"},
    {{.left = "two\nlines"}, "stopped: two\\nlines"},
};

TEST(a_state_has_its_reason_as_the_second_half)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        struct sweep_status s = sweep_status_of(&cases[i].facts);
        sweep_status_text(&b, &s);
        CHECK_STR(strbuf_str(&b), cases[i].text);
    }
}
