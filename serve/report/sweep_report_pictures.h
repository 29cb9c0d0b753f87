/* sweep_report_pictures - the pictures of a sweep's report: history, importance, slices, curves.
 * Pure. */
#ifndef DROVER_SWEEP_REPORT_PICTURES_H
#define DROVER_SWEEP_REPORT_PICTURES_H

#include <jansson.h>

#include "hpo/reader/sweep_columns.h"
#include "launcher/report/report_document.h"
#include "serve/report/sweep_report_totals.h"

struct sweep_report_importance { /* of one parameter */
    const char *name;            /* borrowed */
    double share, low, high;
};
/* Reads sweep_reader_importance_ranges(); the most important first. Returns the number of entries;
 * the caller frees *out. */
size_t sweep_report_importance(struct sweep_report_importance **out, const json_t *ranges);

/* Adds the pictures for which there are data. */
void sweep_report_pictures(struct report_document *d, const struct sweep_columns *c,
                           const struct spec *spec, const struct sweep_report_totals *t,
                           const struct sweep_report_importance *importance, size_t n);

#endif
