/* call_stacks - captures call stacks of processes with gdb, or with py-spy for Python.
 *
 * The tools run as children of this process, all at the same time, with a deadline. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "common/mem.h"
#include "launcher/engine/rank_status.h"

enum {
    CALL_STACKS_MAX = 32,
    CALL_STACKS_LIMIT_MS = 15000,
    CALL_STACKS_LINES_MAX = 24,
    CALL_STACKS_LINE_BYTES = 160, /* a longer line is cut */
    CALL_STACKS_TEXT_MAX = CALL_STACKS_LINES_MAX * (CALL_STACKS_LINE_BYTES + 1)
};

struct call_stacks;

/* Captures the stacks of the main threads of `n` processes (at most CALL_STACKS_MAX). These are the
 * relevant processes of the statuses in `of`. Uses py-spy if the process is a Python and py-spy is
 * installed, else gdb. Of a process that runs in a program of MPI, native frames are among those of
 * Python. A last line "state: …" changes if the variables of the frames do that wait in a
 * collective, as far as they are known; it may be missing. The loop calls `done` once. `texts` has
 * one entry per process, with whole lines and at most CALL_STACKS_TEXT_MAX bytes. An entry is empty
 * if no tool is installed, or if the tool lacks permission or was too slow. The texts are borrowed
 * during the call. `done` may call call_stacks_free(). */
struct call_stacks *call_stacks_capture(uv_loop_t *loop, const struct rank_status *of, int n,
                                        void (*done)(void *arg, const char *const *texts),
                                        void *arg);
/* Kills the tools that still run. `done` is not called any more. The handles close in the loop's
 * next iterations. */
void call_stacks_free(struct call_stacks *s);
