/* console - the ranks' lines on our stdout and stderr: whole, with the tags that were asked for. */
#ifndef DROVER_CONSOLE_H
#define DROVER_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"

/* What stands before each line. */
enum console_tag {
    CONSOLE_TAG_AUTO,   /* HOST where there are several nodes, else nothing */
    CONSOLE_TAG_NONE,   /* */
    CONSOLE_TAG_HOST,   /* "node:rank| " */
    CONSOLE_TAG_RANK,   /* "[rank] ", hydra's */
    CONSOLE_TAG_MPIRUN, /* "[1,rank]<stdout>:", Open MPI's */
    CONSOLE_TAG_TORCH   /* "[default0]:" with the local rank, torchrun's */
};

struct console_style {
    enum console_tag tag;
    const char *role;      /* of CONSOLE_TAG_TORCH; NULL: "default" */
    bool timestamp, merge; /* mpirun's --timestamp-output, --merge-stderr-to-stdout */
};

struct console;

/* `moved(arg)` is called from the loop when console_full(), console_waiting() or console_error()
 * may have changed. */
int console_open(struct console **out, uv_loop_t *loop, const struct console_style *style,
                 void (*moved)(void *arg), void *arg, struct err *e);
/* Drops what waits. Its handles close on the loop's next turn. */
void console_close(struct console *c);
AUTO_DEFINE(console, struct console *, console_close)

/* Whose ranks speak: before the first line, and again when another job follows. Borrowed. */
void console_plan(struct console *c, const struct plan *p);

/* A line as launch_events has it. False when so much waits that the ranks should. */
bool console_line(struct console *c, int rank, enum launch_stream from, const char *text,
                  size_t len);
/* A line that has begun, all of it so far (launch_events.begun); console_line() brings the rest.
 * Where others may come between and nobody sits before it, it is not shown: what is shown of a line
 * that another's interrupts is shown again when it is whole. `alone`: the job has one rank. */
void console_partial_line(struct console *c, int rank, enum launch_stream from, const char *text,
                          size_t len, bool alone);
/* Our own words, after all that came before them, on stderr. Whole lines. */
void console_print(struct console *c, const char *text);

bool console_full(const struct console *c);
/* Whether there is anything still to be written. */
bool console_waiting(const struct console *c);
/* Why stdout (or, where that is well, stderr) cannot be written to: -EPIPE, …; 0: it can. */
int console_error(const struct console *c);

/* Whether colours may be written to `fd`: a terminal that has them, unless the variables
 * NO_COLOR, CLICOLOR_FORCE and TERM say otherwise (no-color.org, bixense.com/clicolors). */
bool console_coloured(int fd);

#endif
