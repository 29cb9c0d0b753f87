/* console - the ranks' output on drover's stdout and stderr: complete lines, with tags. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"

/* What the console writes before each line. */
enum console_tag {
    CONSOLE_TAG_AUTO,   /* HOST if the job has several nodes, else NONE */
    CONSOLE_TAG_NONE,   /* nothing */
    CONSOLE_TAG_HOST,   /* "node:rank| " */
    CONSOLE_TAG_RANK,   /* "[rank] ", as hydra writes it */
    CONSOLE_TAG_MPIRUN, /* "[1,rank]<stdout>:", as Open MPI writes it */
    CONSOLE_TAG_TORCH   /* "[default0]:" with the local rank, as torchrun writes it */
};

struct console_style {
    enum console_tag tag;
    const char *role;      /* the role in CONSOLE_TAG_TORCH; NULL: "default" */
    bool timestamp, merge; /* mpirun's --timestamp-output, --merge-stderr-to-stdout */
};

struct console;

/* Opens the console. The loop calls `on_progress(arg)` when the result of console_waiting()
 * or console_error() may have changed. */
int console_open(struct console **out, uv_loop_t *loop, const struct console_style *style,
                 void (*on_progress)(void *arg), void *arg, struct err *e);
/* Closes the console and drops unwritten output. The handles close in the loop's next iteration. */
void console_close(struct console *c);
AUTO_DEFINE(console, struct console *, console_close)

/* Observes a job: shows the lines of the streams that `shows` returns true for, with the `arg` of
 * console_open(), and pauses its output while too much output is unwritten. The job is borrowed
 * until it has ended. Then the console may observe another job. */
void console_attach(struct console *c, struct launch *job,
                    bool (*shows)(void *arg, int rank, enum launch_stream from));

/* Sets the plan of the ranks whose lines follow. The plan is borrowed. console_attach() also does
 * this. */
void console_plan(struct console *c, const struct plan *p);

/* Shows a line; the arguments are those of launch_events.line. Returns false if too much output is
 * unwritten, so that the ranks should pause. */
bool console_line(struct console *c, int rank, enum launch_stream from, const char *text,
                  size_t len);
/* Shows the part of an incomplete line (launch_events.partial_line) that is not shown yet;
 * console_line() shows the rest. If a line of another source was written in between, a newline ends
 * the part, and console_line() shows the rest with a tag of its own; on a terminal the whole line
 * again. */
void console_partial_line(struct console *c, int rank, enum launch_stream from, const char *text,
                          size_t len);
/* Prints drover's own text on stderr, after all earlier lines. `text` has complete lines. Does
 * nothing if the reader of the output has closed it. */
void console_print(struct console *c, const char *text);

/* Returns true if output is unwritten. */
bool console_waiting(const struct console *c);
/* Returns the error of stdout, or else of stderr (-EPIPE, …). Returns 0 if both can be written. */
int console_error(const struct console *c);
