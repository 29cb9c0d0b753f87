/* number_format - a double as the shortest text that reads back exactly.
 *
 * The form is that of Python's repr(), which is also valid JSON. The text always has a decimal
 * point or an exponent. It has an exponent if the absolute value is below 1e-4 or at least 1e16:
 * 0.0001 1e-05 3.0 1e+16. */
#pragma once

#include "common/strbuf.h"

/* Appends `x`, in at most 24 characters. A value that is not finite becomes "nan", "inf" or "-inf",
 * which are not valid JSON. */
void number_format(struct strbuf *b, double x);
