/* stacks - the call stacks of processes, as gdb (or py-spy, for Python) tells them.
 *
 * The tools run as children of this process, all at once, and have a deadline. */
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
    CALL_STACKS_LINE_BYTES = 160, /* of each, the rest is cut off */
    CALL_STACKS_TEXT_MAX = CALL_STACKS_LINES_MAX * (CALL_STACKS_LINE_BYTES + 1)
};

struct call_stacks;

/* Asks for the main threads' stacks of `n` processes (CALL_STACKS_MAX at most): of the one that
 * matters in each of `of`, by py-spy where that is a Python. `done` is called once, from the loop:
 * `texts` has one for each, whole lines, CALL_STACKS_TEXT_MAX bytes at most; empty where there was
 * no tool, or it may not look, or it was too slow. Borrowed during the call, in which
 * call_stacks_free() may be called. */
struct call_stacks *call_stacks_capture(uv_loop_t *loop, const struct rank_status *of, int n,
                                        void (*done)(void *arg, const char *const *texts),
                                        void *arg);
/* Ends what still runs. Its handles close on the loop's next turns; `done` is not called any more.
 */
void call_stacks_free(struct call_stacks *s);

#endif
