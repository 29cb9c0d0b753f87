/* top_terminal - the effects of a display that fills the terminal of stdout: its alternate screen,
 * frames, keys and size, and the terminal as it was at every end of the process but SIGKILL.
 *
 * A frame is one write(2). In the background, or if the terminal accepts no output (Ctrl-S), frames
 * are left out. Lines of log.h are passed on, since they would destroy the frame. */
#ifndef DROVER_TOP_TERMINAL_H
#define DROVER_TOP_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/mem.h"

struct top_terminal;

struct top_terminal_events {
    void (*keys)(void *arg, const char *keys, size_t len);
    /* A frame is due: the callee calls top_terminal_paint(). */
    void (*frame)(void *arg);
    void (*message)(void *arg, const char *line);
};

/* Returns true if stdout is a terminal that can move its cursor. */
bool top_terminal_usable(void);

/* One per process. Borrows the loop and the events. */
struct top_terminal *top_terminal_open(uv_loop_t *loop, const struct top_terminal_events *ev,
                                       void *arg);
/* Restores the terminal, and closes the handles in the loop's next iteration. */
void top_terminal_stop(struct top_terminal *t);
/* Call it after top_terminal_stop(), when the loop has run. */
void top_terminal_free(struct top_terminal *t);

void top_terminal_changed(struct top_terminal *t);
void top_terminal_size(const struct top_terminal *t, int *columns, int *rows);
/* Shows lines that fill the screen. */
void top_terminal_paint(struct top_terminal *t, const char *text, size_t len);

#endif
