/* report_chart - pictures of a report as SVG: points or their density, lines, and bars. Pure.
 *
 *     struct report_chart *c = report_chart_new("Value of each trial", x, y);
 *     report_chart_points(c, xs, ys, n);
 *     report_document_figure(d, "…", report_chart_finish(c));
 *
 * Colours are classes of the report's style. Names are clean texts (report_document_shown()). */
#ifndef DROVER_REPORT_CHART_H
#define DROVER_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>

struct report_axis {
    const char *name;
    double lo, hi;                 /* lo < hi; values outside are drawn at the nearest end */
    bool log;                      /* lo > 0 */
    bool bytes;                    /* numbers are sizes: 64K, 1M */
    const char *const *categories; /* strv: the values are 0, 1, 2, …; NULL: numbers */
};

struct report_chart;

/* `label` is for screen readers. Borrows the names until report_chart_finish(). */
struct report_chart *report_chart_new(const char *label, struct report_axis x,
                                      struct report_axis y);

/* Draws points; more than REPORT_CHART_POINTS_MAX become counts per cell, the more the darker.
 * Points that are not numbers are left out. */
enum { REPORT_CHART_POINTS_MAX = 2000 };
void report_chart_points(struct report_chart *c, const double *x, const double *y, size_t n);
/* Draws a line; `style` is one of the classes "best", "curve", "series-0" to "series-3". A point
 * that is not a number interrupts the line. */
void report_chart_line(struct report_chart *c, const char *style, const double *x, const double *y,
                       size_t n);

/* Returns the picture and frees the chart. The caller frees the text. */
char *report_chart_finish(struct report_chart *c);

struct report_bar {
    const char *name;
    double value, low, high; /* low and high: an interval, unless they are not numbers */
};
/* Returns horizontal bars that begin at 0. */
char *report_chart_bars(const char *label, const struct report_bar *bars, size_t n);

#endif
