/* progress_display - a sweep's progress on stderr while it runs: on a terminal a block that is
 * repainted, with keys for the commands of `drover sweep`; otherwise one line per ended trial. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/coordinator/coordinator.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"

struct progress_display;

struct progress_display_opts { /* all is borrowed */
    const char *name, *dir;    /* the sweep and its directory */
    const char *resume;        /* the command that continues it */
    int64_t instance;          /* sweep_dir.h */
    const struct spec *spec;
    bool quiet;  /* show nothing */
    bool colour; /* stderr shows colours */
};

struct progress_display *progress_display_open(const struct progress_display_opts *opts,
                                               const struct coordinator_view *view);
/* Removes the block and restores the terminal. Call it before coordinator_close(), which may still
 * print lines. */
void progress_display_stop(struct progress_display *s);
/* Call it after coordinator_close(). */
void progress_display_close(struct progress_display *s);
AUTO_DEFINE(progress_display, struct progress_display *, progress_display_close)

/* A record was stored, of a trial or (-1) of the sweep. */
void progress_display_stored(struct progress_display *s, const struct scheduler *sched,
                             enum scheduler_record_kind kind, int trial);
/* The block may have changed. */
void progress_display_changed(struct progress_display *s);
/* Prints one line above the block. */
void progress_display_print(struct progress_display *s, const char *text);
