/* call_stacks - call stacks of processes, from gdb, or from py-spy for Python.
 *
 * The tools run as children of this process, all at the same time, with a deadline. */
#ifndef DROVER_CALL_STACKS_H
#define DROVER_CALL_STACKS_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "common/mem.h"
#include "launcher/inspect/rank_status.h"

enum {
    CALL_STACKS_MAX = 8,
    CALL_STACKS_LIMIT_MS = 15000,
    CALL_STACKS_LINES_MAX = 24,
    CALL_STACKS_LINE_BYTES = 160, /* per line, the rest is cut off */
    CALL_STACKS_TEXT_MAX = CALL_STACKS_LINES_MAX * (CALL_STACKS_LINE_BYTES + 1)
};

struct call_stacks;

/* Captures the stacks of the main threads of `n` processes (at most CALL_STACKS_MAX): the relevant
 * process of each status in `of`, by py-spy if it is a Python and py-spy is installed. Calls
 * `done` once, from the loop. `texts` has one entry per process: whole lines, at most
 * CALL_STACKS_TEXT_MAX bytes; empty if no tool is installed, it lacks the permission, or it was
 * too slow. The texts are borrowed during the call, in which call_stacks_free() may be called. */
struct call_stacks *call_stacks_capture(uv_loop_t *loop, const struct rank_status *of, int n,
                                        void (*done)(void *arg, const char *const *texts),
                                        void *arg);
/* Kills the tools that still run. The handles close in the loop's next iterations; `done` is not
 * called any more. */
void call_stacks_free(struct call_stacks *s);

#endif
