/* fact_changes - what differs between a bad run and a good one, most suspicious first. Pure.
 *
 * A fact is suspicious if it has seldom changed in earlier runs, if its value is new, and if it
 * relates to the cause: by its name, or since the cause names it or its value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/json.h"

/* An earlier run that ended well. */
struct fact_history {
    json_t *facts;     /* run_facts_of() */
    bool same_program; /* else only its environment, node and versions are compared */
};

struct fact_question {
    json_t *good, *bad;                 /* run_facts_of() */
    const struct fact_history *earlier; /* the oldest first, up to the good one */
    size_t earlier_count;
    const char *cause; /* one sentence: what happened to the bad run … */
    const char *text;  /* … and all that was said about it */
};

/* Returns [{"fact", "good", "bad", "score", "why"}, …] (new reference). A run that does not have
 * the fact has null. */
json_t *fact_changes_find(const struct fact_question *q);
