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
    STACKS_MAX = 8,
    STACKS_LIMIT_MS = 15000,
    STACKS_LINES_MAX = 24,
    STACKS_LINE_BYTES = 160, /* of each, the rest is cut off */
    STACKS_TEXT_MAX = STACKS_LINES_MAX * (STACKS_LINE_BYTES + 1)
};

struct stacks;

/* Asks for the main threads' stacks of `n` processes (STACKS_MAX at most): of the one that matters
 * in each of `of`, by py-spy where that is a Python. `done` is called once, from the loop: `texts`
 * has one for each, whole lines, STACKS_TEXT_MAX bytes at most; empty where there was no tool, or
 * it may not look, or it was too slow. Borrowed during the call, in which stacks_free() may be
 * called. */
struct stacks *stacks_take(uv_loop_t *loop, const struct standing *of, int n,
                           void (*done)(void *arg, const char *const *texts), void *arg);
/* Ends what still runs. Its handles close on the loop's next turns; `done` is not called any more.
 */
void stacks_free(struct stacks *s);

#endif
