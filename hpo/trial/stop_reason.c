#include "hpo/trial/stop_reason.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *word, *text; /* text NULL: the same as the word */
} rows[STOP_REASON_COUNT] = {
    [STOP_REASON_TIMEOUT] = {"timeout", "it ran longer than its timeout"},
    [STOP_REASON_DRAIN] = {"drain", "the coordinator ends"},
    [STOP_REASON_STOP] = {"stop", "the user stopped it"},
    [STOP_REASON_PAUSE] = {"pause", "the user paused the sweep"},
    [STOP_REASON_PREEMPTED] = {"preempted", "it was preempted"},
    [STOP_REASON_LOST] = {"lost", "its worker was lost"},
    [STOP_REASON_FAILED] = {"failed", "it failed"},
    [STOP_REASON_NODE] = {"node", "its node could not run it"},
    /* These words were sentences in version 1. They must not change, since stores contain them. */
    [STOP_REASON_SWEEP_STOPPED] = {"it was stopped (drover sweep resume goes on)",
                                   "it was stopped (drover sweep resume continues it)"},
    [STOP_REASON_TARGET_REACHED] = {"the metric's target is reached", NULL},
    [STOP_REASON_GAVE_UP] = {"gave up: the first trials all failed (drover: {give_up_after: …})",
                             NULL},
    [STOP_REASON_RUN_CAP] = {"run_cap is reached", NULL},
    [STOP_REASON_EXHAUSTED] = {"every point of the space is tried", NULL},
    [STOP_REASON_DRAINED] = {"drained", NULL},
    [STOP_REASON_NO_WORKER] = {"no worker", "no worker is left that can start a trial"},
};

const char *stop_reason_word(enum stop_reason r)
{
    return rows[r].word;
}

const char *stop_reason_text(enum stop_reason r)
{
    return rows[r].text ? rows[r].text : rows[r].word;
}

enum stop_reason stop_reason_parse(const char *word)
{
    if (!word)
        return STOP_REASON_NONE;
    for (int r = 0; r < STOP_REASON_COUNT; r++)
        if (rows[r].word && strcmp(rows[r].word, word) == 0)
            return (enum stop_reason)r;
    return STOP_REASON_EARLY;
}
