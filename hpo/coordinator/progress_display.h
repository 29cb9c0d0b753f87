/* screen - a sweep's progress on stderr while it runs: one block that is painted again and again
 * on a terminal, a line for each end elsewhere. */
#ifndef DROVER_PROGRESS_DISPLAY_H
#define DROVER_PROGRESS_DISPLAY_H

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"

struct screen;

/* Borrows its arguments. `s`: what is known at the start. quiet: nothing is shown. */
struct screen *screen_open(const char *name, const struct spec *spec, const struct sched *s,
                           bool quiet);
/* Takes the block away. */
void screen_close(struct screen *s);
AUTO_DEFINE(screen, struct screen *, screen_close)

/* There is a new record: of a trial, or (-1) of the sweep. */
void screen_stored(struct screen *s, const struct sched *sched, enum sched_record_kind kind,
                   int trial);
/* Paints, but not more than ten times a second. */
void screen_paint(struct screen *s, const struct sched *sched);
/* One line for people, above the block. */
void screen_say(struct screen *s, const char *text);

#endif
