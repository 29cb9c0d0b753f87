/* baseline_series - how fast a program runs, from the times of rank 0's reports.
 *
 * Pure. Two reports with rising steps are an interval; a report without a step counts as the next
 * one. If the program reports its throughput (tokens_per_s, samples_per_s …), the speed is the mean
 * of these values over time, else it is the number of steps per second. Its memory is bounded: a
 * long series has more reports per interval. */
#pragma once

#include "launcher/jobs/baseline.h"

struct baseline_series;
struct baseline_series *baseline_series_new(void);
void baseline_series_free(struct baseline_series *s);
AUTO_DEFINE(baseline_series, struct baseline_series *, baseline_series_free)

/* Adds a report: an object with numbers (metric_mapping.h). `at_s`: the time at which it arrived,
 * in seconds from any origin. */
void baseline_series_add(struct baseline_series *s, double at_s, const json_t *report);

struct baseline_speed {
    const char *unit; /* "tokens/s", "steps/s" …, static; "": unknown, without intervals */
    struct baseline_sample rate; /* in this unit; its values are the means of up to 20 blocks of
                                 consecutive intervals, since neighbours are alike */
    double step_s;               /* mean time of a step; 0: unknown */
};

/* Returns the speed without the warm-up: the first tenth of the intervals, at least one if there
 * are several. */
struct baseline_speed baseline_series_speed(const struct baseline_series *s);
