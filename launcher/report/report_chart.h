/* report_chart - a picture of a report as SVG: lines over two axes. Pure.
 *
 *     struct report_chart *c = report_chart_new("Bus bandwidth by size", x, y);
 *     report_chart_line(c, "series-0", xs, ys, n);
 *     report_document_figure(d, "…", report_chart_finish(c));
 *
 * Colours are classes of the report's style. Names are clean texts (report_document_shown()). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct report_axis {
    const char *name;
    double lo, hi; /* lo < hi; values outside are drawn at the nearest end */
    bool log;      /* lo > 0 */
    bool bytes;    /* numbers are sizes: 64K, 1M */
};

struct report_chart;

/* `label` is for screen readers. Borrows the names until report_chart_finish(). */
struct report_chart *report_chart_new(const char *label, struct report_axis x,
                                      struct report_axis y);

/* Draws a line; `style` is one of the classes "series-0" and "series-1". A point
 * that is not a number interrupts the line. */
void report_chart_line(struct report_chart *c, const char *style, const double *x, const double *y,
                       size_t n);

/* Returns the picture and frees the chart. The caller frees the text. */
char *report_chart_finish(struct report_chart *c);
