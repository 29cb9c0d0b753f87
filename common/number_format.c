#include "common/number_format.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes x as d.dd…e±xx with the fewest digits that read back as x. Returns their number.
 *
 * A decimal number of at most DBL_DIG digits does not change when it is read into a normal double
 * and printed with DBL_DIG digits. So this function prints x with DBL_DIG digits. If that reads
 * back as x, the shortest text is the printed one without its final zeros. Otherwise 16 digits are
 * tried and then 17, which always suffice. Subnormal numbers hold fewer digits, so for them each
 * length from 1 on is tried. */
static int shortest(char *buf, size_t size, double x)
{
    int decimals = x == 0 || fabs(x) < DBL_MIN ? 0 : DBL_DIG - 1;
    do
        snprintf(buf, size, "%.*e", decimals, x);
    while (strtod(buf, NULL) != x && ++decimals <= 16);
    char *exponent = strchr(buf, 'e'), *end = exponent;
    while (decimals > 0 && end[-1] == '0') {
        end--;
        decimals--;
    }
    if (end[-1] == '.')
        end--;
    memmove(end, exponent, strlen(exponent) + 1);
    return decimals + 1;
}

void number_format(struct strbuf *b, double x)
{
    if (!isfinite(x)) {
        strbuf_puts(b, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    int digits = shortest(text, sizeof text, x);
    char *e = strchr(text, 'e');
    int exponent = atoi(e + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = digits - 1 - exponent;
        strbuf_printf(b, "%.*f", decimals > 0 ? decimals : 1, x);
        return;
    }
    strbuf_add(b, text, (size_t)(e - text));
    strbuf_printf(b, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
}
