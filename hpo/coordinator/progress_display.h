/* progress_display - a sweep's progress on stderr while it runs: a block that is repainted on a
 * terminal, otherwise one line per ended trial. */
#ifndef DROVER_PROGRESS_DISPLAY_H
#define DROVER_PROGRESS_DISPLAY_H

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"

struct progress_display;

/* Borrows `name`, `dir` (the sweep's directory) and `spec`; `s` is the state at the start. quiet:
 * shows nothing. */
struct progress_display *progress_display_open(const char *name, const char *dir,
                                               const struct spec *spec, const struct scheduler *s,
                                               bool quiet);
/* Removes the block. */
void progress_display_close(struct progress_display *s);
AUTO_DEFINE(progress_display, struct progress_display *, progress_display_close)

/* A record was stored, of a trial or (-1) of the sweep. */
void progress_display_stored(struct progress_display *s, const struct scheduler *sched,
                             enum scheduler_record_kind kind, int trial);
/* Repaints the block, at most ten times per second. */
void progress_display_paint(struct progress_display *s, const struct scheduler *sched);
/* Prints one line above the block. */
void progress_display_print(struct progress_display *s, const char *text);

#endif
