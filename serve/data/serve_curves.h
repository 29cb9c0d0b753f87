/* serve_curves - learning curves for the page: all of them as density, some of them point by point.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"
#include "hpo/reader/sweep_columns.h"

enum { SERVE_CURVES_SIDE_MAX = 1200, SERVE_CURVES_TRIALS_MAX = 500 };

struct serve_curves_grid {
    const char *metric;
    size_t width, height; /* cells; at most SERVE_CURVES_SIDE_MAX each */
    bool log;             /* a logarithmic axis of values, if all are positive */
};

/* Appends a body (serve_pack.h) with the column `count`: rows of cells, the first row at the top,
 * each with the number of curves that cross it. The header has {"metric","curves","points","steps":
 * [from, to],"values": [from, to],"log"}; the ranges are null if there are no points. The range of
 * values leaves out the outermost fiftieth at each end, but never the best value. */
void serve_curves_density(struct strbuf *out, const struct sweep_columns *c,
                          const struct serve_curves_grid *g, bool maximize);

/* Appends a body with the curves of the trials: `step` and `value`, one trial after the other, and
 * `start`, where each begins, with one entry more. Trials that do not exist have no points. The
 * header has {"metric","ids"}. */
void serve_curves_of(struct strbuf *out, const struct sweep_columns *c, const char *metric,
                     const int *trials, size_t count);
