/* progress_terminal - the effects of a progress block on the terminal of stderr: repaints its
 * lines, prints others above it, reads keys, and restores the terminal.
 *
 * A frame is one write(2), at most ten times per second. A terminal that accepts no output (Ctrl-S)
 * delays frames, and not the program. Keys are read while stdin is the terminal and this process is
 * in its foreground. Lines of log.h are printed above the block. */
#ifndef DROVER_PROGRESS_TERMINAL_H
#define DROVER_PROGRESS_TERMINAL_H

#include <stdbool.h>
#include <uv.h>

#include "common/mem.h"

struct progress_terminal;

struct progress_terminal_events {
    void (*key)(void *arg, char key); /* NULL: keys are not read, and no mode changes */
    /* Something has changed, or a second has passed: the callee calls progress_terminal_paint(). */
    void (*frame)(void *arg);
};

/* Returns true if stderr is a terminal that can move its cursor. */
bool progress_terminal_usable(void);

/* One per process. Borrows the loop and the events. */
struct progress_terminal *progress_terminal_open(uv_loop_t *loop,
                                                 const struct progress_terminal_events *ev,
                                                 void *arg);
/* Removes the block, restores the terminal, and closes the handles. Later lines are printed at
 * once. */
void progress_terminal_stop(struct progress_terminal *t);
/* Call it after progress_terminal_stop(), when the loop has run. */
void progress_terminal_free(struct progress_terminal *t);
AUTO_DEFINE(progress_terminal, struct progress_terminal *, progress_terminal_free)

/* A frame is due. */
void progress_terminal_changed(struct progress_terminal *t);
/* The size that lines may have. */
void progress_terminal_size(const struct progress_terminal *t, int *columns, int *rows);
/* Returns true if keys are read now. */
bool progress_terminal_has_keys(const struct progress_terminal *t);
/* Shows the lines, a strv that it takes. */
void progress_terminal_paint(struct progress_terminal *t, char **lines);
/* Prints complete lines above the block. */
void progress_terminal_print(struct progress_terminal *t, const char *text);

#endif
