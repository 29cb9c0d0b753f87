#include "hpo/trial/stop_reason.h"

#include "tests/unit/test.h"

/* Stores and programs have these words: none of them may ever change. */
static const char *const stored[STOP_REASON_COUNT] = {
    [STOP_REASON_TIMEOUT] = "timeout",
    [STOP_REASON_DRAIN] = "drain",
    [STOP_REASON_STOP] = "stop",
    [STOP_REASON_PAUSE] = "pause",
    [STOP_REASON_PREEMPTED] = "preempted",
    [STOP_REASON_LOST] = "lost",
    [STOP_REASON_FAILED] = "failed",
    [STOP_REASON_NODE] = "node",
    [STOP_REASON_SWEEP_STOPPED] = "it was stopped (drover sweep resume goes on)",
    [STOP_REASON_TARGET_REACHED] = "the metric's target is reached",
    [STOP_REASON_GAVE_UP] = "gave up: the first trials all failed (drover: {give_up_after: …})",
    [STOP_REASON_RUN_CAP] = "run_cap is reached",
    [STOP_REASON_EXHAUSTED] = "every point of the space is tried",
    [STOP_REASON_DRAINED] = "drained",
    [STOP_REASON_NO_WORKER] = "no worker",
};

TEST(every_reason_has_the_word_that_stores_have_and_a_sentence)
{
    for (int r = STOP_REASON_EARLY + 1; r < STOP_REASON_COUNT; r++) {
        CHECK_STR(stop_reason_word((enum stop_reason)r), stored[r]);
        CHECK(stop_reason_text((enum stop_reason)r));
        CHECK_INT(stop_reason_parse(stored[r]), r);
    }
}

TEST(another_word_is_the_name_of_an_early_stopper)
{
    CHECK_INT(stop_reason_parse("median"), STOP_REASON_EARLY);
    CHECK_INT(stop_reason_parse("a stopper of tomorrow"), STOP_REASON_EARLY);
    CHECK_INT(stop_reason_parse(NULL), STOP_REASON_NONE);
    CHECK(!stop_reason_word(STOP_REASON_NONE) && !stop_reason_word(STOP_REASON_EARLY));
}
