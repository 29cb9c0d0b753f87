/* serve_columns - the trials of a sweep as columns for the page: all of them, or those that have
 * changed since a record. Pure.
 *
 * Columns (serve_pack.h): `id state added value created leased ended seconds lease steps node why
 * error` of the trials; `p0 p1 …` of the parameters in the header's list `params`; `m0.min m0.max
 * m0.last m1.min …` of the metrics in `metrics`; `lease.id lease.trial lease.node lease.begin
 * lease.end lease.why` of the leases of these trials. A number that is missing is NaN. Times are
 * seconds since `t0_ms`. Texts are numbers of the header's mapping `texts`. The value of a category
 * is its position in the parameter's `values`. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/spec/spec.h"

enum { SERVE_COLUMNS_METRICS_MAX = 32 };

struct serve_columns; /* which columns there are; the positions of categories never change */

/* Borrows both. */
struct serve_columns *serve_columns_new(const struct spec *spec, const struct sweep_columns *c);
void serve_columns_free(struct serve_columns *s);
AUTO_DEFINE(serve_columns, struct serve_columns *, serve_columns_free)

/* Appends the body with all trials that have a record after `since`. Takes ownership of `head`, to
 * which the members of the header are added. */
void serve_columns_body(struct strbuf *out, struct serve_columns *s, int64_t since, json_t *head);
