/* active_checks - the checks of `drover doctor --full`: they measure, through `drover bench`, and
 * compare each node with the others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "launcher/doctor/core/doctor_report.h"
#include "launcher/plan/hosts.h"

/* The rows of the active checks, which check_run() does not run, and an empty one. */
extern const struct check active_checks[];

struct active_opts {
    const struct hosts *hosts; /* those of the report, in its order; NULL: this machine */
    int per_node;              /* ranks per node; 0: one, or two on a single node */
    bool gpus;                 /* the nodes have GPUs: larger buffers */
    bool brief;       /* only the collective over all nodes and the pairs, and short ones */
    char *const *env; /* variables for mpirun, a strv; NULL: none */
};

/* Runs the active checks, and sets their results on the nodes that have answered. Takes seconds to
 * minutes. Returns 0, also if a check fails, or the error of the start of `drover bench`. */
int active_checks_run(struct doctor_report *r, const struct active_opts *o, struct err *e);

/* Sets `slow` for each value that is far below the others: m - max(5 s, m/10), with the median m of
 * the others and s their median absolute deviation times 1.4826, and below m/2 however far apart
 * the others are. Values of 0 or less are unknown. Fewer than three values are not compared. */
void active_checks_find_slow(bool *slow, const double *values, int count);
