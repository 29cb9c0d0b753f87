/* sweep_report_totals - a sweep in numbers: the order of its trials, what they cost, why they
 * failed, which sets of parameters ran more than once, and how much each parameter matters. Pure.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/spec/spec.h"

enum { SWEEP_REPORT_CAUSES_MAX = 50, SWEEP_REPORT_NEWEST = 5 };

struct sweep_report_cause {
    enum trial_state state;
    const char *text; /* of the newest trial; borrowed */
    int trials, newest[SWEEP_REPORT_NEWEST], newest_count;
};

struct sweep_report_node {
    const char *name; /* borrowed */
    int leases, failed;
    double seconds;
};

struct sweep_report_repeat { /* trials that differ only in their seed */
    int first;               /* the first of them */
    int count;
    double mean, deviation; /* of their values; the deviation is that of a sample */
};

struct sweep_report_totals {
    int *order; /* the trials with a value that counts, the best first */
    size_t order_count;
    double seconds[TRIAL_STATES];      /* of leases, by the state of their trial */
    double lost_seconds;               /* of leases that ended before their trial did */
    int64_t begin_ms, end_ms;          /* of the first lease and the last; 0: none */
    struct sweep_report_cause *causes; /* the most frequent first */
    size_t cause_count;
    int other_failures; /* trials whose cause is beyond SWEEP_REPORT_CAUSES_MAX */
    struct sweep_report_node *nodes;
    size_t node_count;
    struct sweep_report_repeat *repeats; /* the best mean first */
    size_t repeat_count;
};

/* Counts a lease that has not ended until `now_ms`, or not at all if this is 0: the coordinator is
 * dead, and the end of its leases is unknown. The caller calls sweep_report_totals_end(). */
void sweep_report_totals(struct sweep_report_totals *out, const struct sweep_columns *c,
                         const struct spec *spec, int64_t now_ms);
void sweep_report_totals_end(struct sweep_report_totals *t);

struct sweep_report_importance { /* of one parameter */
    const char *name;            /* borrowed */
    double share, low, high, first, region;
    const json_t *best; /* [from, to] or [value]; borrowed */
    const char *better; /* "lower", "higher", or NULL; borrowed */
};
/* Reads sweep_reader_importance_ranges(); the most important first. Returns the number of entries;
 * the caller frees *out. */
size_t sweep_report_importance(struct sweep_report_importance **out, const json_t *ranges);
