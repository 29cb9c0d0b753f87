/* console - the ranks' output on drover's stdout and stderr: complete lines, with tags. */
#ifndef DROVER_CONSOLE_H
#define DROVER_CONSOLE_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/run/redirect.h"

/* What precedes each line. */
enum console_tag {
    CONSOLE_TAG_AUTO,   /* HOST if the job has several nodes, else NONE */
    CONSOLE_TAG_NONE,   /* nothing */
    CONSOLE_TAG_HOST,   /* "node:rank| " */
    CONSOLE_TAG_RANK,   /* "[rank] ", as hydra has it */
    CONSOLE_TAG_MPIRUN, /* "[1,rank]<stdout>:", as Open MPI has it */
    CONSOLE_TAG_TORCH   /* "[default0]:" with the local rank, as torchrun has it */
};

struct console_style {
    enum console_tag tag;
    const char *role;      /* of CONSOLE_TAG_TORCH; NULL: "default" */
    bool timestamp, merge; /* mpirun's --timestamp-output, --merge-stderr-to-stdout */
};

struct console;

/* `on_progress(arg)` is called from the loop when console_full(), console_waiting() or
 * console_error() may have changed. */
int console_open(struct console **out, uv_loop_t *loop, const struct console_style *style,
                 void (*on_progress)(void *arg), void *arg, struct err *e);
/* Drops unwritten output. Its handles close in the loop's next iteration. */
void console_close(struct console *c);
AUTO_DEFINE(console, struct console *, console_close)

/* Observes a job: shows its lines, and pauses its output while too much is unwritten. A line is not
 * shown if `redirect` (may be NULL) keeps it in a file, or if its rank is not in `show` (NULL: all
 * ranks are). All are borrowed until the job has ended. A further job may follow. */
void console_attach(struct console *c, struct launch *job, const struct redirect *redirect,
                    hwloc_const_bitmap_t show);

/* Sets the plan of the ranks whose lines follow. Borrowed. console_attach() does this. */
void console_plan(struct console *c, const struct plan *p);

/* Shows a line, as launch_events has it. Returns false if too much is unwritten, so that the
 * ranks should pause. */
bool console_line(struct console *c, int rank, enum launch_stream from, const char *text,
                  size_t len);
/* Shows the part of an incomplete line (launch_events.partial_line) that is not shown yet;
 * console_line() shows the rest. If a line of another source came between, console_line() shows the
 * whole line again, so that it is on one line. */
void console_partial_line(struct console *c, int rank, enum launch_stream from, const char *text,
                          size_t len);
/* Prints drover's own text on stderr, after all lines before it. Complete lines. Does nothing once
 * the reader of the output has closed it. */
void console_print(struct console *c, const char *text);

/* Returns true if too much is unwritten, so that the
 * ranks should pause. */
bool console_full(const struct console *c);
/* Returns true if output is unwritten. */
bool console_waiting(const struct console *c);
/* Returns the error of stdout, or else of stderr: -EPIPE, …; 0: both can be written. */
int console_error(const struct console *c);

/* Returns true if colours may be written to `fd`: it is a terminal that has them, unless the
 * variables NO_COLOR, CLICOLOR_FORCE and TERM say otherwise (no-color.org, bixense.com/clicolors).
 */
bool console_coloured(int fd);

#endif
