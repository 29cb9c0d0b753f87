/* sweep_report_slim - the columns of a body (serve_pack.h) in a form that gzip makes small. Pure.
 *
 * The form of the body is the same, but each column has the first bytes of all its numbers, then
 * the second bytes, and so on. A column with the same numbers as an earlier one has its offset.
 * Columns of times have the type `ms`: differences to the number before in milliseconds, as
 * unsigned numbers of 32 bits, (d << 1) ^ (d >> 31); all ones are a missing number. With more than
 * SWEEP_REPORT_SLIM_FROM trials, numbers are rounded to 18 bits, which are five digits. */
#ifndef DROVER_SWEEP_REPORT_SLIM_H
#define DROVER_SWEEP_REPORT_SLIM_H

#include "common/strbuf.h"

enum { SWEEP_REPORT_SLIM_FROM = 20000 };

/* Appends the body. */
void sweep_report_slim(struct strbuf *out, const struct strbuf *body);

#endif
