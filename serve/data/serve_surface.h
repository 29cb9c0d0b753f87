/* serve_surface - what the model of a sweep expects: over one parameter or two, through a trial. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "hpo/reader/sweep_reader.h"

enum { SERVE_SURFACE_CELLS_MAX = 64 };

struct serve_surface_plan {
    int x, y;     /* parameters, as in space_name(); y -1: one parameter only */
    int at;       /* the trial that has the other parameters; -1: the best one */
    size_t cells; /* per side; a parameter with fewer values has one cell per value */
};

/* Appends a body (serve_pack.h) with the columns `median low high`: rows of x per value of y. The
 * header has {"x","y","at","xs": [values],"ys": [values]}.
 *   -EINVAL   there is no such parameter
 *   -ENOTSUP  the method has no model, or not yet, or there are too many trials for one */
int serve_surface_body(struct strbuf *out, const struct sweep_reader *v,
                       const struct serve_surface_plan *plan, struct err *e);
