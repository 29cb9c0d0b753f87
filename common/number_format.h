/* number_format - a double as the shortest text that reads back exactly.
 *
 * The form is that of Python's repr(), which is also valid JSON: always with a decimal point or an
 * exponent, with an exponent below 1e-4 and from 1e16 on: 0.0001 1e-05 3.0 1e+16. */
#ifndef DROVER_NUMBER_FORMAT_H
#define DROVER_NUMBER_FORMAT_H

#include "common/strbuf.h"

/* Appends `x`: at most 24 characters. "nan", "inf" or "-inf", which JSON lacks, if it is not
 * finite. */
void number_format(struct strbuf *b, double x);

#endif
