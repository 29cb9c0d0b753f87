/* terminal - the terminal while this process paints on it: frames, keys, size, and the terminal as
 * it was at every end of the process but SIGKILL, and while the process is suspended.
 *
 * A frame is one write(2). If the terminal accepts no output (Ctrl-S), frames are left out, and the
 * program continues. Keys are read while stdin is the terminal and this process is in its
 * foreground: each key at once, and without an echo. Ctrl-C and Ctrl-Z stay signals. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/mem.h"

enum terminal_kind {
    TERMINAL_SCREEN, /* fills the terminal of stdout (its alternate screen), only in its foreground
                      */
    TERMINAL_BLOCK   /* some lines on the terminal of stderr, below lines that scroll */
};

struct terminal;

struct terminal_events {
    /* Keys were pressed; a frame follows. NULL: keys are not read, and no mode changes. */
    void (*keys)(void *arg, const char *keys, size_t len);
    /* A frame is due: the callee calls terminal_paint_screen() or terminal_paint_block(). A block
     * has one per second even if nothing has changed. */
    void (*frame)(void *arg);
    /* A line of log.h, which would destroy the screen. A block prints such lines above itself. */
    void (*message)(void *arg, const char *line);
};

/* Returns true if the terminal can move its cursor. */
bool terminal_usable(enum terminal_kind kind);

/* Returns true if colours may be written to `fd`. This is so for terminals, unless the variables
 * NO_COLOR, CLICOLOR_FORCE and TERM say otherwise (no-color.org, bixense.com/clicolors). */
bool terminal_coloured(int fd);

/* One per process. Borrows the loop and the events. */
struct terminal *terminal_open(uv_loop_t *loop, enum terminal_kind kind,
                               const struct terminal_events *ev, void *arg);
/* Restores the terminal, and closes the handles in the loop's next iteration. */
void terminal_stop(struct terminal *t);
/* Call it after terminal_stop(), when the loop has run. */
void terminal_free(struct terminal *t);

/* A frame is due. */
void terminal_changed(struct terminal *t);
/* The size that a frame may have. */
void terminal_size(const struct terminal *t, int *columns, int *rows);
/* Returns true if keys are read now. */
bool terminal_has_keys(const struct terminal *t);

/* Shows lines that fill the screen. */
void terminal_paint_screen(struct terminal *t, const char *text, size_t len);
/* Shows the lines, a strv that it takes. */
void terminal_paint_block(struct terminal *t, char **lines);
/* Prints complete lines above the block; at once after terminal_stop(). */
void terminal_print(struct terminal *t, const char *text);
