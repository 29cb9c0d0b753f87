/* progress_frame - the block of lines that shows a running sweep on a terminal. Reads no clock and
 * no file, and writes nothing. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "hpo/scheduler/scheduler.h"

struct progress_frame_trial {
    int id;
    const char *state;
    const char *reason; /* of its end or its stop; NULL: none */
    const json_t *params;
    double step, value, seconds; /* NAN: none yet */
    double share;                /* of the steps of a complete trial; NAN: unknown */
};

struct progress_frame {
    const char *name, *metric; /* of the sweep; metric NULL: it has none */
    const char *mode;          /* "running", "paused", … */
    struct scheduler_counts counts;
    double seconds; /* since this coordinator has started */
    int ended_here; /* trials that ended since then */
    int best;       /* trial; -1: no trial has a value */
    double best_value;
    const json_t *best_params;
    const double *curve; /* the best value so far, after each trial that ended with a value */
    size_t curve_count;
    /* The oldest of `running_total` running trials, and the newest of those that ended, the newest
     * first. Both may have more entries than fit. */
    const struct progress_frame_trial *running, *ended;
    size_t running_count, running_total, ended_count;
    int workers, slots, gpus;
    bool keys;   /* are read: the last line names them */
    bool help;   /* explain the keys instead of listing trials */
    bool colour; /* use SGR sequences */
    bool utf8;   /* draw with block characters */
};

/* Returns at most `rows` lines of at most `columns` cells as a strv, without newlines. The caller
 * frees it. */
char **progress_frame_lines(const struct progress_frame *f, int columns, int rows);
