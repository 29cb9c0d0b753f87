/* screen - a sweep's progress on stderr while it runs: one block that is painted again and again
 * on a terminal, a line for each end elsewhere. */
#ifndef DROVER_PROGRESS_DISPLAY_H
#define DROVER_PROGRESS_DISPLAY_H

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"

struct progress_display;

/* Borrows its arguments. `s`: what is known at the start. quiet: nothing is shown. */
struct progress_display *progress_display_open(const char *name, const struct spec *spec,
                                               const struct scheduler *s, bool quiet);
/* Takes the block away. */
void progress_display_close(struct progress_display *s);
AUTO_DEFINE(progress_display, struct progress_display *, progress_display_close)

/* There is a new record: of a trial, or (-1) of the sweep. */
void progress_display_stored(struct progress_display *s, const struct scheduler *sched,
                             enum scheduler_record_kind kind, int trial);
/* Paints, but not more than ten times a second. */
void progress_display_paint(struct progress_display *s, const struct scheduler *sched);
/* One line for people, above the block. */
void progress_display_print(struct progress_display *s, const char *text);

#endif
