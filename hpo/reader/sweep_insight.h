/* sweep_insight - what a sweep says, in sentences: the best value, the last gain, what decides,
 * what failed and where, and where the time went. Pure. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "hpo/reader/sweep_columns.h"

/* Returns the trials with a value that counts, the best first. The caller frees the list. */
int *sweep_insight_order(const struct sweep_columns *c, size_t *count);

/* Returns why no trial satisfies the outcome constraints, which the caller frees: a clause that
 * names a metric that none has reported. NULL: one does, or none has a value. */
char *sweep_insight_infeasible(const struct sweep_columns *c);

/* Returns true if two texts of failures differ only in their numbers. */
bool sweep_insight_same_cause(const char *a, const char *b);

/* Returns a strv of sentences in plain English, the most important first, which the caller frees;
 * NULL: no trial has ended. A sentence that the trials do not support is left out. Names and causes
 * are the user's: a sentence may have control characters. `importance`: as
 * sweep_reader_importance_ranges() returns it. `now_ms`: the end of
 * leases that run; 0: they do not count. */
char **sweep_insight(const struct sweep_columns *c, const json_t *importance, int64_t now_ms);
